"""A model as one vector: its trained parameters, of which the model's tensors are views, and then its buffers.

Parameters are those that the optimizer has, each once however often the model uses it, frozen ones included. Buffers of
floating-point or complex numbers, such as the statistics of batch norm, are averaged with the parameters; and others,
such as counts, to the nearest whole number (`_whole_buffers`). Vectors between ranks are float32 whatever the model
computes in, float64 if it does.

What is on a GPU crosses to the host in one piece, and is cut and converted there: a copy for each tensor would wait for
the GPU each time.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch

from erasurehead._internal.arrays import Array
from erasurehead._internal.flat_tensors import cut
from erasurehead.errors import invalid
from erasurehead.torch._pinned import pinned
from erasurehead.torch._streams import subtract
from erasurehead.torch._whole_buffers import WholeBuffers, nearest

_WIDE = torch.float64


class Flat:
    """The parameters that an optimizer has, and the buffers of their model, as one vector.

    Arguments:
        groups: the optimizer's parameter groups.
        model: the model.
        like: what the model is a copy of; None if it is none.

    Attributes:
        parameters: of the optimizer, each once.
        dtype: of the vector: float64 if a parameter is, else float32.
        n_parameters: elements of the vector that are parameters; the others are buffers.
        length: elements of the vector.
    """

    def __init__(self, groups: list[dict[str, Any]], model: torch.nn.Module, like: Flat | None = None) -> None:
        self._model = model
        unique = {id(parameter): parameter for group in groups for parameter in group["params"]}
        self.parameters: list[torch.Tensor] = list(unique.values())
        self._names: list[str] = []
        for name, parameter in zip(self.names, self.parameters, strict=True):
            kind, what = str(parameter.dtype), f"the parameter {name!r}"
            if not parameter.is_floating_point():
                raise invalid(what, "must be of floating-point numbers", kind, "leave it out of the optimizer")
            if parameter.is_meta or isinstance(parameter, torch.nn.UninitializedParameter):
                hint = "call a lazy model once before; or give one of the device 'meta' its values"
                raise invalid(what, "must have its values before Team.optimizer", "without any", hint)
        tensors = [*self.parameters, *(each for _, each in self._real_buffers())]
        wide = any(each.dtype == _WIDE for each in tensors)
        self.dtype = np.dtype(np.float64 if wide else np.float32)
        self._whole = WholeBuffers(model, _WIDE if wide else torch.float32, None if like is None else like._whole)
        self.n_parameters = sum(parameter.numel() for parameter in self.parameters)
        self.length = sum(each.numel() for each in tensors) + self._whole.length
        self._shapes = self._shapes_now()
        self._joined: torch.Tensor | None = None
        self._compares = False  # with the version that it goes on from, of which a GPU keeps a copy then
        self._versions: list[tuple[Array, torch.Tensor]] = []  # that a GPU has
        self._join()
        self._places = self._places_now()

    @property
    def names(self) -> list[str]:
        """What the parameters are called in the model."""
        known = {id(parameter): name for name, parameter in self._model.named_parameters()}
        names = [known.get(id(parameter), "") for parameter in self.parameters]
        if "" in names:
            lost = f"{self._names[names.index('')]!r} any more" if self._names else "one of them"
            raise invalid(
                "model",
                "must have all parameters that the optimizer has",
                f"a model without {lost}",
                "make the optimizer from this model's parameters, after whatever replaces them, such as "
                "load_state_dict(assign=True)",
            )
        self._names = names
        return names

    def _shapes_now(self) -> dict[str, tuple[int, ...]]:
        own = zip(self.names, self.parameters, strict=True)
        return {name: tuple(each.shape) for name, each in (*own, *self._real_buffers(), *self._whole.named())}

    def _places_now(self) -> list[tuple[int, int, torch.Size]]:
        own = [(id(each), each.data_ptr(), each.shape) for each in self._model.parameters()]
        return own + [(0, 0, each.shape) for _, each in (*self._real_buffers(), *self._whole.named())]

    def _join(self) -> None:
        """Make the parameters views of one tensor, where they are all of one kind, on one device, in order."""
        self._joined = None
        kinds = {(parameter.dtype, parameter.device) for parameter in self.parameters}
        if len(kinds) != 1 or not all(map(_in_order, self.parameters)):
            return
        joined = torch.empty(self.n_parameters, dtype=self.parameters[0].dtype, device=self.parameters[0].device)
        for view, parameter in zip(cut(joined, self.parameters), self.parameters, strict=True):
            parameter.data = view.copy_(parameter.data)
        self._joined = joined

    def check(self) -> None:
        """Make views again of parameters that were moved since, such as by `model.to(device)`.

        Raises:
            InvalidArgument: if the model has others than the optimizer by now, or of other shapes.
        """
        if self._places_now() != self._places:
            self._rejoin()
        self._whole.check()

    def _rejoin(self) -> None:
        agreed, now = self._shapes, self._shapes_now()
        if list(agreed.values()) != list(now.values()):
            name = next(name for name in agreed | now if agreed.get(name) != now.get(name))
            raise invalid(
                f"the shape of {name!r}",
                f"must stay {agreed.get(name, 'unset')}, as the ranks agreed",
                now.get(name, "none any more"),
                "give tensors their shapes before Team.optimizer",
            )
        self._join()
        self._places = self._places_now()

    def _real_buffers(self) -> Iterator[tuple[str, torch.Tensor]]:
        for name, each in self._model.named_buffers():
            if each.is_complex():
                yield name, torch.view_as_real(each)
            elif each.is_floating_point():
                yield name, each

    def _buffers(self) -> Iterator[torch.Tensor]:
        for _, each in self._real_buffers():
            yield each
        if self._whole.length:
            yield self._whole.moved()

    def _copied(self, pieces: list[torch.Tensor], own: Iterable[torch.Tensor]) -> None:
        """Copy tensors into pieces of the model, of which the last are its buffers."""
        with torch.no_grad():
            for piece, one in zip(pieces, own, strict=True):
                piece.copy_(one)
        if self._whole.length:
            self._whole.go_on_from(pieces[-1])

    def _pieces(self) -> Iterator[torch.Tensor]:
        """Yield tensors which, one after the other, are the vector."""
        if self._joined is not None:
            yield self._joined
        else:
            for parameter in self.parameters:
                yield parameter.data.view(-1) if parameter.data.is_contiguous() else parameter.data
        yield from self._buffers()

    def room(self, more: int = 0) -> Array:
        """Return a new vector of zeros, with more elements behind the model's; where a GPU can reach it at once."""
        kind = torch.float64 if self.dtype == np.float64 else torch.float32
        there = self.parameters[0].device.type == "cuda"
        return cast("Array", torch.zeros(self.length + more, dtype=kind, pin_memory=there).numpy())

    def read(self, out: Array) -> Array:
        """Copy the model into a vector, and return it."""
        return _read(self._pieces(), out)

    def read_buffers(self, out: Array) -> Array:
        """Copy the buffers, which are the model's last elements, into a vector, and return it."""
        return _read(self._buffers(), out)

    def write_buffers(self, vector: Array) -> None:
        """Copy a vector into the buffers."""
        pieces = list(self._buffers())
        self._copied(pieces, (own for _, own in incoming(vector, pieces)))

    def gradients(self, out: Array, present: Array) -> None:
        """Copy the gradients into a vector, 0 where there is none, and note for each parameter whether there is."""
        with outgoing(out, self.parameters) as each:
            for index, (parameter, own) in enumerate(each):
                present[index] = parameter.grad is not None
                if parameter.grad is None:
                    own.zero_()
                else:
                    own.copy_(parameter.grad.to_dense())

    def set_gradients(self, vector: Array, present: Array) -> None:
        """Copy parts of a vector into the gradients, where any rank had one."""
        for index, (parameter, own) in enumerate(incoming(vector, self.parameters)):
            lies_there = own.device.type == "cpu"  # what was moved to a GPU is a copy
            parameter.grad = own.to(parameter, copy=lies_there) if present[index] else None

    def change(self, before: Array, out: Array) -> bool:
        pieces = [each.detach() for each in self._pieces()]
        if _device(pieces).type != "cpu":
            self._compares = True
            with outgoing(out, pieces) as each:
                base = next((own for one, own in self._versions if one is before), None)
                base = _moved(before, pieces) if base is None else base
                bases = list(cut(base, pieces))
                if self._whole.length:  # the model has the nearest whole numbers, and goes on from there
                    bases[-1] = nearest(bases[-1])
                return finite(  # before it crosses: ranks that share a GPU wait for each other, once then
                    [torch.sub(piece, old, out=own) for (piece, own), old in zip(each, bases, strict=True)]
                )

        end = self.length - self._whole.length
        counts = self._as_written(before[end : self.length])

        def those() -> Iterator[tuple[Array, Array, Array]]:
            begin = 0
            for piece, stage in parts(out, pieces):
                alike = piece.device.type == "cpu" and piece.dtype == stage.dtype
                now = (piece if alike else stage.copy_(piece)).reshape(-1).numpy()
                own = slice(begin, begin := begin + len(now))
                yield now, counts if own.start == end else before[own], out[own]

        return subtract(those(), out)

    def there(self, version: Array) -> torch.Tensor:
        """Return a vector that stays as it is where the model is, and keep it there until the next `write`."""
        found = next((own for one, own in self._versions if one is version), None)
        if found is None:
            found = _moved(version, list(self._pieces()))
            if found.device.type != "cpu":
                self._versions.append((version, found))
        return found

    def write(self, vector: Array) -> None:
        """Copy a vector into the model; it stays as it is as long as changes from it are asked for."""
        there, pieces = self.there(vector), list(self._pieces())
        self._copied(pieces, cut(there, pieces))
        self._versions = [(vector, there)] if self._compares else []

    def write_under_way(self, vector: Array, buffers: Array) -> None:
        """Copy a vector into the model, and keep what a forward pass has changed in buffers that were as these."""
        moved = self.read_buffers(buffers.copy()) - buffers
        self.write(vector)
        if len(moved):
            self.write_buffers(self._as_written(vector[self.n_parameters : self.length]) + moved)

    def _as_written(self, buffers: Array) -> Array:
        """Return the part of a vector that is buffers as the model has it: what counts has the nearest whole number."""
        if self._whole.length:
            buffers = buffers.copy()
            counts: Any = cast("Any", torch).from_numpy(buffers[-self._whole.length :])
            counts.copy_(nearest(counts))
        return buffers


def finite(tensors: list[torch.Tensor]) -> bool:
    """Return whether all numbers are finite."""
    sums = [each.sum(dtype=torch.promote_types(each.dtype, torch.float32)).float() for each in tensors]
    if not sums or bool(torch.isfinite(torch.stack([each.to(sums[0].device) for each in sums]).sum())):
        return True
    return all(bool(torch.isfinite(each).all()) for each in tensors)  # the sum alone was too large


def parts(vector: Array, tensors: Iterable[torch.Tensor]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Return tensors, each with its part of a vector, which begins with the first one's, in its shape."""
    source = cast("Any", torch).from_numpy(vector)  # which has no types
    own = list(tensors)
    return zip(own, cut(source, own), strict=True)


def _device(tensors: list[torch.Tensor]) -> torch.device:
    """Return where all tensors are; the host if they are not in one place."""
    devices = {each.device for each in tensors}
    return devices.pop() if len(devices) == 1 else torch.device("cpu")


def _moved(vector: Array, tensors: list[torch.Tensor]) -> torch.Tensor:
    """Return the part of a vector that is of tensors, where they are."""
    device = _device(tensors)
    source = pinned(vector[: sum(each.numel() for each in tensors)], device)
    return cast("Any", torch).from_numpy(source).to(device)


def incoming(vector: Array, tensors: Iterable[torch.Tensor]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Return tensors, each with its part of a vector, as `parts` does, to be read only: where the tensors are."""
    own = list(tensors)
    return zip(own, cut(_moved(vector, own), own), strict=True)


@contextmanager
def outgoing(vector: Array, tensors: Iterable[torch.Tensor]) -> Generator[Iterator[tuple[torch.Tensor, torch.Tensor]]]:
    """Return tensors, each with room for its part of a vector where it is; the vector has all of them at the end."""
    own = list(tensors)
    if (device := _device(own)).type == "cpu":
        yield parts(vector, own)
    else:
        source = cast("Any", torch).from_numpy(pinned(vector[: sum(each.numel() for each in own)], device))
        there = torch.empty_like(source, device=device)
        yield zip(own, cut(there, own), strict=True)
        source.copy_(there)


def _read(pieces: Iterable[torch.Tensor], out: Array) -> Array:
    with outgoing(out, pieces) as each:
        for piece, own in each:
            own.copy_(piece.detach())
    return out


def _in_order(tensor: torch.Tensor) -> bool:
    """Whether a tensor's elements fill one stretch of memory in the order in which momenta and gradients are sent."""
    return type(tensor.data) is torch.Tensor and tensor.layout is torch.strided and tensor.is_contiguous()

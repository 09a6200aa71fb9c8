"""Buffers of whole numbers and booleans, such as batch norm's counter: how far they have moved since the start.

All ranks start with the same ones, so a difference is enough. It is a small number where a buffer counts, which a
vector of float32 holds to the bit, and 0 where nothing has changed. Where the mean of several ranks is no whole number,
the nearest one is taken, in all ranks the same.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, cast, final

import torch

from erasurehead._internal.flat_tensors import cut
from erasurehead.errors import invalid
from erasurehead.torch._agreed import content


def nearest(moved: torch.Tensor) -> torch.Tensor:
    """Return the nearest whole numbers; of two, the larger, so that one more makes one more."""
    return moved.add(0.5).floor_()


_MOST = 4096
"""Elements of a buffer up to which it goes along with each vector; a mask has many, and does not change."""


@final
class WholeBuffers:
    """Those of a model that are saved with it; what is not, such as a cache, is each rank's own.

    Arguments:
        model: the model.
        dtype: of what goes out.
        like: those of the model that this one is a copy of; None if it is none.
    """

    def __init__(self, model: torch.nn.Module, dtype: torch.dtype, like: WholeBuffers | None = None) -> None:
        self._model, self._dtype = model, dtype
        self._seen: dict[str, tuple[int, int]] = {}  # the large ones as they were when their content was looked at
        if like is None:
            own = dict(_saved(model))
            self._names = [name for name, each in own.items() if each.numel() <= _MOST]
            self._large = {name: content(each) for name, each in own.items() if each.numel() > _MOST}
            self._start = self._joined()
        else:
            self._names, self._large, self._start = like._names, like._large, like._start
        self.length = len(self._start)

    def named(self) -> Generator[tuple[str, torch.Tensor]]:
        """Yield those that go along, as long as the model has them."""
        known = dict(self._model.named_buffers()) if self._names else {}
        return ((name, known[name]) for name in self._names if name in known)

    def _joined(self) -> torch.Tensor:
        every = [each.reshape(-1).long() for _, each in self.named()]
        return torch.cat([each.to(every[0].device) for each in every]) if every else torch.zeros(0, dtype=torch.long)

    def moved(self) -> torch.Tensor:
        """Return by how much each element has moved since the start."""
        now = self._joined()
        return now.sub_(self._start.to(now.device)).to(self._dtype)

    def go_on_from(self, moved: torch.Tensor) -> None:
        """Let each element have moved by so much, to the nearest whole number; what is not 0 is true."""
        now = self._start.to(moved.device) + nearest(moved).long()
        every = [each for _, each in self.named()]
        with torch.no_grad():
            for buffer, own in zip(every, cut(now, every), strict=True):
                buffer.copy_(own)

    def check(self) -> None:
        """See whether a vector can tell what has become of them.

        Raises:
            InvalidArgument: if not.
        """
        most = 2.0 / torch.finfo(self._dtype).eps
        if self.length and bool((self.moved().abs() > most).any()):
            name = next(name for name, one in self._each_moved() if bool((one.abs() > most).any()))
            raise invalid(
                f"buffer {name!r}",
                f"must stay within {most:.0f} of what it was at Team.optimizer: ranks send how far it has moved",
                "farther away",
                "register it with persistent=False if each rank is to have its own",
            )
        known: dict[str, Any] = dict(self._model.named_buffers()) if self._large else {}
        for name, before in self._large.items():
            buffer = known.get(name)
            mark = (id(buffer), -1 if buffer is None or buffer.is_inference() else buffer._version)
            if self._seen.get(name) != mark or mark[1] < 0:
                if buffer is None or content(buffer) != before:
                    raise invalid(
                        f"buffer {name!r}",
                        f"must stay as it was at Team.optimizer: with more than {_MOST} elements that are no "
                        "floating-point numbers, it is not sent to other ranks",
                        "changed" if buffer is not None else "gone",
                        "make it one of floating-point numbers; or register it with persistent=False if each rank is "
                        "to have its own",
                    )
                self._seen[name] = mark

    def _each_moved(self) -> Generator[tuple[str, torch.Tensor]]:
        every = list(self.named())
        moved = cut(self.moved(), [each for _, each in every])
        return ((name, one) for (name, _), one in zip(every, moved, strict=True))


def _saved(model: torch.nn.Module) -> Generator[tuple[str, torch.Tensor]]:
    """Yield the buffers of whole numbers and booleans that are saved with a model."""
    unsaved: set[str] = set()
    modules = cast("Iterable[tuple[str, Any]]", model.named_modules())
    for prefix, module in modules:
        unsaved |= {f"{prefix}.{name}".removeprefix(".") for name in module._non_persistent_buffers_set}
    for name, each in model.named_buffers():
        if name not in unsaved and not (each.is_floating_point() or each.is_complex()):
            yield name, each

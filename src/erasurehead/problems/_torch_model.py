"""A module of PyTorch with its loss, as it runs on workers: parameters in and gradients out as one vector."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, cast, final

import cloudpickle  # pyright: ignore[reportMissingTypeStubs]  # ships none
import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.errors import MissingExtra
from erasurehead.problems._differentiable import Differentiated
from erasurehead.problems._trees import Nest, mapped, sample_count


def torch_library() -> Any:
    """Return PyTorch.

    Raises:
        MissingExtra: if it is not installed.
    """
    try:
        return import_module("torch")
    except ImportError as error:
        raise MissingExtra(
            "problems.torch needs PyTorch, which is not installed; install it with: pip install 'erasurehead[torch]'."
        ) from error


@final
class TorchModel(Differentiated):
    """A module and a loss of its outputs, differentiated with respect to parameters that require a gradient.

    Arguments:
        module: its parameters are replaced, except for those that do not require a gradient.
        loss: `loss(outputs, targets)`, returning one number, or (sum, weight).
        training: whether to run in the module's own mode, with its random numbers; otherwise in evaluation mode.
        weight: mean weight of a sample, where the loss returns (sum, weight); None where it returns a mean.
    """

    def __init__(self, module: Any, loss: Callable[..., Any], training: bool, weight: float | None = None) -> None:
        self.module, self._loss, self._training, self._weight = module, loss, training, weight
        self.named = [(name, one) for name, one in module.named_parameters() if one.requires_grad]
        self.n_parameters = sum(one.numel() for _, one in self.named)
        wide = any(one.dtype == torch_library().float64 for _, one in self.named)
        self.dtype = "float64" if wide else "float32"  # numpy has no bfloat16

    def __reduce__(self) -> Any:
        # By value, like the rest of the user's program: even the plain pickle can then load it.
        parts = (self.module, self._loss, self._training, self._weight)
        return _unpack, (cast("Any", cloudpickle).dumps(parts, protocol=5),)

    def place(self, batch: Nest) -> Any:
        torch, dtype = torch_library(), self.named[0][1].dtype

        def placed(array: Any) -> Any:
            tensor = torch.from_numpy(array)
            # numpy has no bfloat16: what lies in float32 there is of the module's dtype here
            return tensor.to(dtype) if tensor.is_floating_point() else tensor

        with warnings.catch_warnings():  # the data are read-only, and nothing here writes to them
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable", category=UserWarning)
            return mapped(placed, batch)

    def differentiate(self, x: Array, batch: Any, noise: int | None = None) -> tuple[float, Array]:
        torch = torch_library()
        with self._ready(noise):
            moved = [leaf.requires_grad_() for leaf in self._split(x)]
            value = self.value(moved, batch)
            slopes = torch.autograd.grad(value, moved, allow_unused=True, materialize_grads=True)
            dtype = getattr(torch, self.dtype)
            flat = [slope.detach().to(dtype).reshape(-1).numpy() for slope in slopes]
            return float(value.detach()), np.concatenate(flat)

    def loss(self, x: Array, batch: Any) -> float:
        with self._ready(None), torch_library().no_grad():
            return float(self.value(self._split(x), batch))

    def value(self, tensors: list[Any], batch: Any) -> Any:
        """Return the mean loss for the given parameters, as a tensor."""
        value = self._value(tensors, batch)
        return value if self._weight is None else value[0] / (sample_count(batch) * self._weight)

    def _value(self, tensors: list[Any], batch: Any) -> Any:
        inputs, targets = batch
        given = {name: one for (name, _), one in zip(self.named, tensors, strict=True)}
        return self._loss(self.outputs(given, inputs), targets)

    def outputs(self, given: dict[str, Any], inputs: Any) -> Any:
        """Return the module's outputs for inputs, with the given parameters in place of its own."""
        arguments = cast("tuple[Any, ...]", inputs) if isinstance(inputs, tuple) else (inputs,)
        return torch_library().func.functional_call(self.module, given, arguments)

    def evaluated(self, x: Array, inputs: Any) -> Any:
        """Return the outputs of a model in evaluation mode."""
        with self._ready(None), torch_library().no_grad():
            return self.outputs(self.tensors(x), inputs)

    def returned(self, x: Array, batch: Any, noise: int | None = None) -> Any:
        """Return whatever the user's loss returns for a batch."""
        with self._ready(noise), torch_library().no_grad():
            return self._value(self._split(x), batch)

    def draws(self, batch: Any) -> bool:
        torch = torch_library()
        with self._ready(0), torch.no_grad():
            before = torch.get_rng_state()
            self.value([one.detach() for _, one in self.named], batch)
            return not torch.equal(before, torch.get_rng_state())

    def tensors(self, x: Array) -> dict[str, Any]:
        """Return the parameters that a vector holds, by name."""
        return {name: leaf for (name, _), leaf in zip(self.named, self._split(x), strict=True)}

    def _split(self, x: Array) -> list[Any]:
        torch = torch_library()
        with np.errstate(over="ignore"):  # a model that has diverged is noticed where its gradient comes
            whole = torch.from_numpy(np.require(x, self.dtype, "W"))
        parts: list[Any] = []
        low = 0
        for _, one in self.named:
            parts.append(whole[low : low + one.numel()].reshape(one.shape).to(one.dtype, copy=True))
            low += one.numel()
        return parts

    @contextmanager
    def _ready(self, noise: int | None) -> Generator[None]:
        """Compute in one thread, on which the order of sums depends; with a seeded random state, or with none."""
        torch = torch_library()
        modes = [(part, part.training) for part in self.module.modules()]
        threads = torch.get_num_threads()
        random = self._training and noise is not None
        try:
            torch.set_num_threads(1)
            if not random:
                self.module.eval()
            with torch.random.fork_rng(devices=[]):
                if random:
                    torch.manual_seed(noise)
                yield
        finally:
            for part, mode in modes:
                part.training = mode
            torch.set_num_threads(threads)


def _unpack(data: bytes) -> TorchModel:
    return TorchModel(*pickle.loads(data))

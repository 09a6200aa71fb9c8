"""A module of PyTorch with its loss, as it runs on workers: parameters in and gradients out as one vector."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, cast, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.flat_tensors import cut
from erasurehead.errors import MissingExtra
from erasurehead.problems._differentiable import Differentiated, by_value
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

    Attributes:
        trained: the parameters that require a gradient, by name.
    """

    def __init__(self, module: Any, loss: Callable[..., Any], training: bool, weight: float | None = None) -> None:
        self.module, self._loss, self._training, self._weight = module, loss, training, weight
        self.trained = {name: one for name, one in module.named_parameters() if one.requires_grad}
        self.n_parameters = sum(one.numel() for one in self.trained.values())
        wide = any(one.dtype == torch_library().float64 for one in self.trained.values())
        self.dtype = "float64" if wide else "float32"  # numpy has no bfloat16

    def __reduce__(self) -> Any:
        return by_value(TorchModel, self.module, self._loss, self._training, self._weight)

    def place(self, batch: Nest) -> Any:
        torch, dtype = torch_library(), next(iter(self.trained.values())).dtype

        def placed(array: Any) -> Any:
            tensor = torch.from_numpy(array)
            # numpy has no bfloat16: what lies in float32 there is of the module's dtype here
            return tensor.to(dtype) if tensor.is_floating_point() else tensor

        with warnings.catch_warnings():  # the data are read-only, and nothing here writes to them
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable", category=UserWarning)
            return mapped(placed, batch)

    def differentiate(self, x: Array, batch: Any, noise: int | None = None) -> tuple[float, Array]:
        torch = torch_library()
        with self._ready(noise, gradients=True):
            given = {name: one.requires_grad_() for name, one in self.tensors(x).items()}
            value = self._mean(given, batch)
            slopes = torch.autograd.grad(value, list(given.values()), allow_unused=True, materialize_grads=True)
            dtype = getattr(torch, self.dtype)
            flat = [slope.detach().to(dtype).reshape(-1).numpy() for slope in slopes]
            return float(value.detach()), np.concatenate(flat)

    def loss(self, x: Array, batch: Any) -> float:
        with self._ready(None):
            return float(self._mean(self.tensors(x), batch))

    def _mean(self, given: dict[str, Any], batch: Any) -> Any:
        value = self._value(given, batch)
        return value if self._weight is None else value[0] / (sample_count(batch) * self._weight)

    def _value(self, given: dict[str, Any], batch: Any) -> Any:
        inputs, targets = batch
        return self._loss(self._outputs(given, inputs), targets)

    def _outputs(self, given: dict[str, Any], inputs: Any) -> Any:
        arguments = cast("tuple[Any, ...]", inputs) if isinstance(inputs, tuple) else (inputs,)
        return torch_library().func.functional_call(self.module, given, arguments)

    def evaluated(self, x: Array, inputs: Any) -> Any:
        """Return the module's outputs for inputs in evaluation mode, with the parameters that a vector holds."""
        with self._ready(None):
            return self._outputs(self.tensors(x), inputs)

    def returned(self, x: Array, batch: Any, noise: int | None = None) -> Any:
        """Return whatever the user's loss returns for a batch."""
        with self._ready(noise):
            return self._value(self.tensors(x), batch)

    def draws(self, batch: Any) -> bool:
        torch = torch_library()
        with self._ready(0):
            before = torch.get_rng_state()
            self._mean(self.trained, batch)
            return not torch.equal(before, torch.get_rng_state())

    def tensors(self, x: Array) -> dict[str, Any]:
        """Return the parameters that a vector holds, by name."""
        with np.errstate(over="ignore"):  # a model that has diverged is noticed where its gradient comes
            whole = torch_library().from_numpy(np.require(x, self.dtype, "W"))
        pieces = zip(self.trained.items(), cut(whole, self.trained.values()), strict=True)
        return {name: piece.to(one.dtype, copy=True) for (name, one), piece in pieces}

    @contextmanager
    def _ready(self, noise: int | None, gradients: bool = False) -> Generator[None]:
        """Compute in one thread, on which the order of sums depends; with a seeded random state, or with none."""
        torch = torch_library()
        modes = [(part, part.training) for part in self.module.modules()]
        threads = torch.get_num_threads()
        random = self._training and noise is not None
        try:
            torch.set_num_threads(1)
            if not random:
                self.module.eval()
            with torch.random.fork_rng(devices=[]), torch.set_grad_enabled(gradients):
                if random:
                    torch.manual_seed(noise)
                yield
        finally:
            for part, mode in modes:
                part.training = mode
            torch.set_num_threads(threads)

"""`problems.torch`: a module, a data set and a loss of PyTorch as a problem."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from functools import partial
from typing import Any, cast, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.errors import UNSAID, InvalidArgument, check_type, invalid
from erasurehead.problems._additivity import Value, check_adds_up, if_it_computes, mean_of, value_of, weight_per_sample
from erasurehead.problems._differentiable import PROBE, DifferentiableProblem, check_test, checked_metrics
from erasurehead.problems._penalties import Penalty, as_penalty
from erasurehead.problems._torch_model import TorchModel, torch_library
from erasurehead.problems._trees import Nest, check_data, leaves, mapped, refitted, rows_of, to_numpy


@final
class TorchProblem(DifferentiableProblem):
    """A problem made of a PyTorch module with its loss over a data set; made by `torch`."""

    preload = ("erasurehead.problems._one_thread_torch", "erasurehead.problems._torch_model")

    @property
    def labels(self) -> Array | None:
        """The class of each training sample, shape (n_samples,); None where the targets are not integers."""
        targets: Any = self._data[1]
        whole = hasattr(targets, "dtype") and targets.ndim == 1 and targets.dtype.kind in "iu"
        return targets if whole else None

    def module(self, x: Array) -> Any:
        """Return a copy of the module with the parameters that a vector such as `run.x` holds."""
        assert isinstance(self._whole, TorchModel)
        module = copy.deepcopy(self._whole.module)
        with torch_library().no_grad():
            own = dict(module.named_parameters())
            for name, tensor in self._whole.tensors(x).items():
                own[name].copy_(tensor)
        return module


def torch(
    module: Any,
    data: Any,
    loss: Callable[[Any, Any], Any],
    *,
    batch_size: int | None = None,
    seed: int = 0,
    l2: float = 0.0,
    penalty: Penalty | None = None,
    test: Any = None,
    metrics: Callable[[Any, Any], Any] | None = None,
) -> TorchProblem:
    """Return the problem of minimising the loss of a PyTorch module over a data set.

    The module and the loss are sent to workers together with the rest of your program; PyTorch must be installed where
    they run (`pip install 'erasurehead[torch]'`). They compute on the CPU, in the dtype of the module's parameters.
    Random numbers, such as for dropout, come from the seed, the task and the step, so that replicas of a task agree;
    the loss over all samples is computed in evaluation mode (`module.eval()`).

    Arguments:
        module: a `torch.nn.Module`; parameters that require a gradient are trained, starting from their present values.
        data: `(inputs, targets)`, arrays or tensors with the samples along their first axes; inputs may be a tuple of
            them. Or a data set of PyTorch with a length, whose items are such pairs.
        loss: `loss(outputs, targets)`: the mean over the samples of a batch, such as `torch.nn.MSELoss()`. Where
            samples count differently (class weights, ignored tokens, masks): the weighted sum of the losses and the
            sum of the weights, `(sum, weight)`; what is minimised is the sum over all samples divided by their weight.
        batch_size: number of samples of each task in a mini-batch, drawn from seed, task and step; None for all.
        seed: seed of these draws.
        l2: factor of the penalty `l2 * ||x||^2` over all parameters.
        penalty: another penalty, such as `ElasticNet(l1=0.01)`; l2 must then be left out.
        test: test samples, in the form of `data`; None for none.
        metrics: `metrics(outputs, targets)` of the test samples, returning a dict of numbers; by default the mean loss,
            `loss`.

    Raises:
        InvalidArgument: if the loss fails, or is not a finite mean; the module has nothing to train, or keeps state
            about the data it has seen; items of the data set are random, as with random transforms; or data do not fit
            together.
        MissingExtra: if PyTorch is not installed.
    """
    library = torch_library()
    penalized = as_penalty(l2, penalty, ())
    check_type("module", module, library.nn.Module, "must be a torch.nn.Module")
    if not callable(loss):
        raise invalid("loss", "must be a function of outputs and targets", loss, "such as torch.nn.MSELoss()")
    module = _copied(module)
    model, whole = TorchModel(module, loss, True), TorchModel(module, loss, False)
    first, dtype = _first(model)
    pairs = _pairs(data, "data")
    checked, n_samples = check_data(pairs, "data")
    samples = _cast(checked, dtype, "data")
    pairs_test = None if test is None else _pairs(test, "test")
    samples_test = check_test(pairs_test, checked, lambda given: _cast(given, dtype, "test"))
    called = partial(_called, whole)
    weight = weight_per_sample(called, first, samples, n_samples)
    model, whole = TorchModel(module, loss, True, weight), TorchModel(module, loss, False, weight)
    exact = whole
    if library.finfo(dtype).bits <= 16:  # too few digits to tell a mean from something else
        own: Any = loss
        if isinstance(own, library.nn.Module):
            own = copy.deepcopy(own).float()  # its weights of classes have a dtype, too
        wide = TorchModel(copy.deepcopy(module).float(), own, False, weight)
        exact = if_it_computes(wide, whole, first, rows_of(samples, slice(0, PROBE)))
    precision = float(library.finfo(next(iter(exact.trained.values())).dtype).eps)
    check_adds_up(exact, first, samples, n_samples, precision, weight is not None)
    _check_memory(model, first, samples, n_samples)

    def measure(x: Array, test_data: Nest) -> dict[str, float]:
        if metrics is None:
            return {"loss": mean_of(called(x, test_data))}
        inputs, targets = whole.place(test_data)
        with library.no_grad():
            return checked_metrics(metrics(whole.evaluated(x, inputs), targets))

    return TorchProblem(model, whole, first, samples, n_samples, batch_size, seed, penalized, samples_test, measure)


_DTYPES = ("torch.float64", "torch.float32", "torch.float16", "torch.bfloat16")


def _copied(module: Any) -> Any:
    """Return a copy of a module on the CPU.

    Raises:
        InvalidArgument: if it cannot be copied, or its parameters have no values yet.
    """
    lazy = torch_library().nn.parameter.is_lazy
    for name, one in module.named_parameters():
        if lazy(one):
            raise invalid(
                f"parameter {name} of module",
                "must have a shape, which a lazy module has after its first batch",
                type(one).__name__,
                "call module(inputs) once, on a few samples",
            )
        if one.is_meta:
            raise invalid(
                f"parameter {name} of module",
                "must have values",
                "one on the device 'meta'",
                "module.to_empty(device='cpu'), and initialise it",
            )
    try:
        return copy.deepcopy(module).cpu()
    except Exception as error:
        raise invalid(
            "module", "must be one that copy.deepcopy can copy", f"{type(error).__name__}: {error}"
        ) from error


def _first(model: TorchModel) -> tuple[Array, Any]:
    if not model.trained:
        raise invalid("module", "must have parameters that want a gradient", UNSAID)
    dtypes = {one.dtype for one in model.trained.values()}
    for name, one in model.trained.items():
        if str(one.dtype) not in _DTYPES:
            raise invalid(
                f"parameter {name} of module",
                "must be of real numbers that PyTorch computes with on CPUs",
                str(one.dtype),
                "one of " + ", ".join(_DTYPES),
            )
        if not bool(one.isfinite().all()):
            raise invalid(f"parameter {name} of module", "must be finite", UNSAID)
    if len(dtypes) > 1:
        raise invalid(
            "the parameters of module",
            "must be of one dtype",
            ", ".join(sorted(map(str, dtypes))),
            "module.float(), say",
        )
    first = [one.detach().double().reshape(-1).numpy() for one in model.trained.values()]
    return np.concatenate(first), dtypes.pop()


def _pairs(data: Any, argument: str) -> Any:
    if isinstance(data, tuple | list):
        pair: tuple[Any, ...] = tuple(cast("list[Any]", data))
    elif hasattr(data, "tensors"):
        pair = tuple(data.tensors)
    elif hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        pair = _stacked(data, argument)
    else:
        raise invalid(argument, "must be (inputs, targets), or a data set with a length", type(data).__name__)
    if len(pair) != 2:
        raise invalid(argument, "must be two, inputs and targets", f"{len(pair)} of them")
    return pair


_READ_AGAIN = 64
"""How many items of a data set are read twice; all up to ten times as many, where reading them drew random numbers."""


def _stacked(data: Any, argument: str) -> tuple[Any, ...]:
    before = _random_states()
    items = [_item(data, place, argument) for place in range(len(data))]
    if not items:
        raise invalid(argument, "must hold at least one sample", 0)
    drawn = before != _random_states()
    sides = [[mapped(to_numpy, item[side]) for item in items] for side in (0, 1)]
    count = min(len(items), 10 * _READ_AGAIN if drawn else _READ_AGAIN)
    for place in sorted({int(one) for one in np.linspace(0, len(items) - 1, count)}):
        again = _item(data, place, argument)
        if any(not _same(sides[side][place], mapped(to_numpy, again[side])) for side in (0, 1)):
            raise invalid(
                f"item {place} of {argument}",
                "must be the same each time it is read, as items are read once, before training",
                "another one when it was read again",
                "leave random transforms (crops, flips, noise) out of the data set",
            )
    return tuple(_stack(side, argument) for side in sides)


def _item(data: Any, place: int, argument: str) -> Any:
    try:
        item = data[place]
    except Exception as error:
        raise InvalidArgument(argument, f"fails when it is read, with {type(error).__name__}: {error}") from error
    if not isinstance(item, tuple | list) or len(cast("list[Any]", item)) != 2:
        raise invalid(argument, "must have pairs of inputs and targets as items", type(cast("Any", item)).__name__)
    return cast("Any", item)


def _random_states() -> tuple[Any, ...]:
    # where random transforms draw from, unless they have a generator of their own
    return torch_library().get_rng_state().numpy().tobytes(), random.getstate(), repr(np.random.get_state())  # noqa: NPY002


def _same(one: Nest, other: Nest) -> bool:
    pairs = zip(leaves(one), leaves(other), strict=False)
    return len(leaves(one)) == len(leaves(other)) and all(
        a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")) for (_, a), (_, b) in pairs
    )


def _stack(items: list[Any], argument: str) -> Any:
    columns = [[leaf for _, leaf in leaves(item)] for item in items]
    try:
        stacked = iter([np.stack(column) for column in zip(*columns, strict=True)])
    except ValueError:
        raise invalid(argument, "must have items of one shape", UNSAID) from None
    return mapped(lambda leaf: next(stacked), items[0])


def _cast(data: Nest, dtype: Any, argument: str) -> Nest:
    """Return data with its real numbers in the dtype of the module."""
    name = str(dtype).removeprefix("torch.")
    if name not in ("float32", "float64", "float16"):
        name = "float32"  # numpy has no bfloat16: `TorchModel.place` makes it of these
    return refitted(data, argument, lambda own: name if own.kind == "f" else own)


def _called(model: TorchModel, x: Array, batch: Nest) -> Value:
    return value_of(
        lambda: model.returned(x, model.place(batch)),
        _number,
        lambda weight: torch_library().as_tensor(weight).double(),
        "loss(module(inputs), targets)",
    )


def _number(result: Any) -> float:
    shape = tuple(result.shape) if hasattr(result, "shape") else None
    if shape != ():
        came = type(result).__name__ if shape is None else f"a tensor of shape {shape}"
        raise invalid(
            "loss(outputs, targets)",
            "must return one number, or a sum and its weight",
            came,
            "take the mean (reduction='mean')",
        )
    if not hasattr(result, "is_floating_point") or not result.is_floating_point():
        raise invalid("loss(outputs, targets)", "must return a real number", str(result.dtype))
    return float(result)


def _any_loss(outputs: Any, targets: Any) -> Any:
    return outputs


def _check_memory(model: TorchModel, first: Array, samples: Nest, n_samples: int) -> None:
    """Raise if the module changes when it is used: the state of workers' copies would differ, and be lost."""
    before = {name: one.clone() for name, one in model.module.named_buffers()}
    trial = TorchModel(copy.deepcopy(model.module), _any_loss, True)
    try:
        trial.returned(first, trial.place(rows_of(samples, slice(0, min(2, n_samples)))), noise=0)
    except Exception:
        return  # a batch of two may be too small for it; a real failure will show up in training
    for name, one in trial.module.named_buffers():
        if name in before and not torch_library().equal(one, before[name]):
            raise invalid(
                "module",
                f"must not change its buffers when it is used, but changes {name}",
                UNSAID,
                "take GroupNorm or LayerNorm in place of BatchNorm, or module.eval() before",
            )

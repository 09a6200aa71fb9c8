"""Whether the user's loss adds up over tasks: a mean over samples that count alike, or a sum with its weight."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.errors import InvalidArgument, check_not_negative, first_line, invalid
from erasurehead.problems._differentiable import PROBE, Differentiated
from erasurehead.problems._trees import Nest, rows_of

Model = TypeVar("Model", bound=Differentiated)
Value: TypeAlias = "float | tuple[float, float]"
"""What a loss returns for a batch: the mean over its samples, or their weighted sum and the sum of their weights."""


_MOST_PIECES, _MOST_ROWS = 512, 4096
"""Into how many pieces samples are cut at most to be probed, and how many samples a piece has at most."""

_AT_FIRST = 1024
"""How many samples are probed at the first parameters; at the second point, where losses differ, all of them are."""


def _tolerance(precision: float) -> float:
    # sums over batches of other sizes are summed in another order; few digits must still tell a mean from another
    return min(256 * precision, max(16 * precision, 1e-3))


_PAIRS = (
    "where samples count differently (class weights, ignored tokens, masks), return the weighted sum of the losses and "
    "the sum of the weights, (sum, weight)"
)


def mean_of(value: Value) -> float:
    """Return the mean over the samples that a loss was computed of, each with its weight."""
    return value[0] / value[1] if isinstance(value, tuple) else value


def weight_per_sample(loss: Callable[[Array, Nest], Value], first: Array, data: Nest, n_samples: int) -> float | None:
    """Return the mean weight of a sample, by which a loss that returns (sum, weight) is made a mean over samples.

    Arguments:
        loss: what the user's loss returns at a point, for some samples.
        first: the initial parameters.
        data: all samples.
        n_samples: number of samples.

    Returns:
        None where the loss returns a mean.

    Raises:
        InvalidArgument: if a weight is negative or not finite, all are 0, or they depend on the parameters.
    """
    few = rows_of(data, slice(0, min(PROBE, n_samples)))
    result = loss(first, few)
    if not isinstance(result, tuple):
        return None
    total = 0.0
    for low in range(0, n_samples, _MOST_ROWS):
        value = loss(first, rows_of(data, slice(low, low + _MOST_ROWS)))
        weight = value[1] if isinstance(value, tuple) else math.nan
        check_not_negative("the weight that loss returns", weight, "must be a finite sum of weights of at least 0")
        total += weight
    if not total > 0.0:
        raise invalid("the weight that loss returns", "must be positive over all samples", total)
    other = loss(_second_point(first, 1.0), few)
    weight = other[1] if isinstance(other, tuple) else math.nan
    if weight != result[1]:
        raise invalid(
            "the weight that loss returns",
            "must not depend on the parameters",
            f"{result[1]:.6g} at the first ones, {weight:.6g} at others",
        )
    return total / n_samples


def value_of(
    compute: Callable[[], Any], number: Callable[[Any], float], widen: Callable[[Any], Any], name: str
) -> Value:
    """Return what a user's loss returns for some samples, or raise an error that says what is wrong with it.

    Arguments:
        compute: computes it.
        number: returns a result as a number, or raises.
        widen: returns a weight as a real number of the library.
        name: how the loss is called, for errors.

    Raises:
        InvalidArgument: if it fails, or returns anything but one real number, or a sum and its weight.
    """
    try:
        result = compute()
    except InvalidArgument:
        raise
    except Exception as error:
        when = "at the first parameters, on the first samples"
        sentence = f"{name} fails {when}, with {first_line(error)}"
        raise InvalidArgument("loss", f"must not fail {when}", sentence=sentence) from error
    if isinstance(result, tuple | list) and len(cast("list[Any]", result)) == 2:
        total, weight = cast("list[Any]", result)
        return number(total), number(widen(weight))
    return number(result)


def if_it_computes(wide: Model, whole: Model, first: Array, few: Nest) -> Model:
    """Return a model of more digits; the other one if the user's function insists on its own dtype."""
    try:
        wide.loss(first, wide.place(few))
    except Exception:
        return whole
    return wide


def check_adds_up(
    model: Differentiated, first: Array, data: Nest, n_samples: int, precision: float, pairs: bool
) -> None:
    """Raise unless a loss is a mean over samples, so that the losses of tasks add up to that of all samples.

    The loss of some samples is held against those of their halves. A loss that divides by something else than the
    number of its samples, such as the weight of their classes or the number of tokens that are not ignored, differs
    wherever the halves do, and samples are dealt to them at random. Two points are probed, as losses of samples may be
    equal at the first one, however they count.

    Arguments:
        model: the loss, with digits enough to tell a mean from something else.
        first: the initial parameters.
        data: all samples; each is looked at.
        n_samples: number of samples.
        precision: relative rounding error of the model's dtype.
        pairs: whether the user's function returns (sum, weight), for errors.

    Raises:
        InvalidArgument: if it is not finite at the first parameters, or no mean.
    """

    def loss(x: Array, rows: Any) -> float:
        return model.loss(x, model.place(rows_of(data, rows)))

    few = min(PROBE, n_samples)
    value = loss(first, slice(0, few))
    if not math.isfinite(value):
        raise invalid(
            "loss",
            f"must be finite at the first parameters, on the first {few} samples",
            value,
            "look for a logarithm of 0, a division by 0, or an exponential that overflows; " + _PAIRS,
        )
    if n_samples == 1:
        return
    order = np.random.default_rng(0).permutation(n_samples)
    size = min(max(-(-n_samples // (2 * _MOST_PIECES)), PROBE // 2, 1), _MOST_ROWS // 2, n_samples // 2)
    pieces = [order[low : low + 2 * size] for low in range(0, n_samples - 2 * size + 1, 2 * size)]
    if n_samples % (2 * size):
        pieces.append(order[-2 * size :])
    _check_halves(loss, first, pieces[: max(1, _AT_FIRST // (2 * size))], precision, pairs)
    for scale in (1.0, 0.1, 0.01):
        point = _second_point(first, scale)
        if math.isfinite(loss(point, pieces[0])):
            break
    else:
        point = first
    _check_halves(loss, point, pieces, precision, pairs)


def _check_halves(
    loss: Callable[[Array, Any], float], x: Array, pieces: list[Any], precision: float, pairs: bool
) -> None:
    results: list[tuple[float, float, float]] = []
    for rows in pieces:
        half = len(rows) // 2
        values = [loss(x, part) for part in (rows, rows[:half], rows[half:])]
        if not all(map(math.isfinite, values)):
            named = ", ".join(map(str, sorted(rows.tolist())[:PROBE])) + (" ..." if len(rows) > PROBE else "")
            raise invalid(
                "loss",
                "must be finite, also where a task has only such samples",
                f"{', '.join(f'{value:.6g}' for value in values)} on samples {named} and on their halves",
                _PAIRS,
            )
        results.append((values[0], values[1], values[2]))
    size = max(max(map(abs, values)) for values in results)
    for whole, low, high in results:
        if not abs(whole - (low + high) / 2) <= _tolerance(precision) * max(size, 1e-3):
            came = f"{whole:.6g} on {len(pieces[0])} samples, whose halves give {low:.6g} and {high:.6g}"
            if pairs:
                raise invalid(
                    "what loss returns",
                    "must be a mean over samples, or a sum over samples and the sum of their weights",
                    f"a pair that comes to {came}",
                    "take sums of both, (sum, weight), or return the mean alone",
                )
            raise invalid(
                "loss",
                "must be a mean over the samples of its batch, so that tasks add up",
                came,
                "take the mean, not the sum, and nothing that mixes samples, such as batch normalisation; " + _PAIRS,
            )


def _second_point(first: Array, scale: float) -> Array:
    size = float(np.sqrt(np.mean(first**2))) or 0.1
    return first + 0.5 * scale * size * np.random.default_rng(1).standard_normal(len(first))

"""Whether a problem of the user's own keeps the contract: asked before any worker starts, not when training is over."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.ours import ours
from erasurehead._internal.partition import split_samples
from erasurehead.errors import UNSAID, check_type, invalid, real
from erasurehead.problems._base import Problem, Shard

_DRAWN = 0.45
"""How far apart, relatively, the same loss may be if some samples are drawn for one of both."""

_UNWRITTEN = 1e300  # and the same with a gradient added

_DIVIDED = "divide by the number of samples of the whole problem"


def check_problem(problem: object) -> None:
    """Raise unless this is a problem that says how many samples and parameters it has.

    Raises:
        InvalidArgument: if it is not.
    """
    check_type("problem", problem, Problem, "must be a problem", "such as problems.LogisticRegression(X, y)")
    for name in ("n_samples", "n_parameters"):
        count: Any = getattr(problem, name, None)
        if not real(count) >= 1.0:
            hint = f"write self.{name} = ... in its __init__"
            raise invalid(f"{name} of {type(problem).__name__}", "must be a whole number, at least 1", count, hint)


def check_own(problem: Problem, x: Array, n_tasks: int) -> None:
    """Raise if a problem of the user's own is not what training can use: steps would be wrong, and nobody would know.

    Arguments:
        problem: the problem; those of the library are not asked.
        x: the first model, shape (n_parameters,).
        n_tasks: number of tasks into which its samples are cut.

    Raises:
        InvalidArgument: if so; the error names the method.
    """
    if ours(type(problem)):
        return
    name, shape = type(problem).__name__, (problem.n_parameters,)
    loss, gradient = problem.loss(x), np.asarray(problem.gradient(x))
    _check_number(f"loss(x) of {name}", loss)
    if gradient.shape != shape:
        raise invalid(f"gradient(x) of {name}", f"must be of shape {shape}", f"one of shape {gradient.shape}")
    if ours(problem.shard):
        return
    shard: Any = problem.shard(split_samples(problem.n_samples, n_tasks))
    check_type(f"shard(tasks) of {name}", shard, Shard, "must be a Shard")
    support: Any = np.arange(*shape) if shard.support is None else shard.support
    if support.dtype.kind not in "iu" or (np.diff(support, prepend=-1, append=shape[0]) <= 0).any():
        raise invalid("problem", "must have shards whose support is ascending places of parameters", support)
    name, out = type(shard).__name__, np.full(len(support), _UNWRITTEN)
    try:
        told = shard.combine(shard.take(x), np.ones(n_tasks), 0, out)
    except Exception:  # its worker will say so, and others may do without it
        return
    _check_number(f"combine(...) of {name}", told)
    if (out == _UNWRITTEN).any():
        hint = "write out[:] = ..., as `out = ...` is another array, and out += ... adds to what is there"
        raise invalid("out", f"must be written by combine(...) of {name}, every element of it", UNSAID, hint)
    seen = math.isfinite(told) and math.isfinite(loss) and np.isfinite(out).all()
    if seen and abs(told - loss) > _DRAWN * abs(told) + 1e-9:
        rule = f"must return {loss:.5g} for all tasks together, as loss(x) does, but the shards do not add up to it"
        raise invalid(f"combine(...) of {name}", rule, told, _DIVIDED)


def _check_number(what: str, value: object) -> None:
    if np.ndim(cast("Any", value)) or not (isinstance(value, float) or math.isfinite(real(value))):
        raise invalid(what, "must return a number", value, "such as float(values.mean())")

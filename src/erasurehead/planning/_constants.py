"""Estimates of the constants of the convergence bounds for a problem, to apply these to real data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.partition import split_samples
from erasurehead.errors import check_count, invalid
from erasurehead.planning._convergence import Constants
from erasurehead.problems import Problem, Shard

_POWER_STEPS = 10  # for the largest curvature
_CLOSE = 100  # steps of L-BFGS towards the minimum
_LOOKED_AT, _ROWS = 32, 8  # tasks, and rows of each, from which the variance within tasks is estimated


def estimate_constants(problem: Problem, n_tasks: int, steps: int = 50, power_steps: int = 20) -> Constants:
    """Estimate mu, beta, sigma and the gap of a problem, along the path of gradient descent from its initial model.

    beta is the largest curvature at three points of the path, found by power iteration on differences of gradients;
    sigma is the largest gradient norm of a task there (without the penalty, which is added by the coordinator and never
    erased); mu is the smallest ||grad f||^2 / (2 (f - f*)) on the path, but at least 2 * l2, which is valid for convex
    losses if every parameter is penalised. f* is the objective that L-BFGS reaches. These are constants of the region
    that training passes through, not of the whole space, where mu would be 0 for logistic regression without a penalty.

    Arguments:
        problem: the problem, with its penalty.
        n_tasks: number of tasks, of consecutive samples as in training.
        steps: number of steps on the path, at least 1; each takes a gradient and a loss.
        power_steps: power iterations per point, at least 1; each takes two gradients.

    Raises:
        InvalidArgument: if the path begins at the minimum, so that there is no gap.
    """
    check_count("steps", steps)
    check_count("power_steps", power_steps)
    begin = problem.initial()
    lowest = minimum(problem, begin)
    beta = _curvature(problem, begin, power_steps)
    path, losses, squares = _descend(problem, begin, 1.0 / beta, steps)
    middle, last = path[len(path) // 2], path[-1]
    beta = max(beta, _curvature(problem, middle, power_steps), _curvature(problem, last, power_steps))
    lowest = min(lowest, min(losses))
    gaps = np.array(losses) - lowest
    if not gaps[0] > 0.0:
        raise invalid("problem", "must not begin at the minimum already", float(losses[0]))
    clear = gaps > 1e-9 * gaps[0]  # closer to the minimum, the quotient below is one of rounding errors
    mu = float((np.array(squares)[clear] / (2.0 * gaps[clear])).min())
    sigma = max(_longest_task(problem, point, n_tasks) for point in (begin, middle, last))
    least = 0.0 if len(problem.unpenalized) else 2.0 * problem.l2
    return Constants(max(min(mu, beta), least), beta, sigma, float(gaps[0]))


@dataclass(frozen=True)
class TaskNoise:
    """How far the gradients of tasks differ.

    Attributes:
        noise: fraction of the initial gap around which steps of size 1 / beta hover if each sees the gradient of one
            random task: `sum_j ||g_j - g||^2 / n / (4 beta gap)` at the minimum, with `g_j` the mean gradient of task
            j and g the gradient.
        ratio: variance of the tasks' mean gradients, divided by the value expected from the variance within tasks:
            about 1 for rows in random order, and larger the more alike the rows of a task are.
    """

    noise: float
    ratio: float


def task_noise(problem: Problem, n_tasks: int) -> TaskNoise:
    """Measure how far the gradients of tasks differ close to the minimum, where this limits the accuracy.

    Arguments:
        problem: the problem, with its penalty.
        n_tasks: number of tasks, of consecutive samples as in training; at most the number of samples.
    """
    begin = problem.initial()
    optimum = _minimised(problem, begin, _CLOSE)
    gap = problem.objective(begin) - problem.objective(optimum)
    mean = problem.gradient(optimum)
    parts = list(split_samples(problem.n_samples, n_tasks))
    between = float(np.mean([_squared(_task_gradient(problem, optimum, rows) - mean) for rows in parts]))
    random = np.random.default_rng(0)
    within: list[float] = []
    for place in map(int, random.permutation(len(parts))[:_LOOKED_AT]):
        rows = parts[place]
        own = _task_gradient(problem, optimum, rows)
        for sample in random.integers(rows.start, rows.stop, _ROWS).tolist():
            within.append(_squared(_task_gradient(problem, optimum, slice(sample, sample + 1)) - own))
    size = problem.n_samples / n_tasks
    inside = float(np.mean(within)) * size / max(size - 1.0, 1.0)
    beta = max(_curvature(problem, begin, _POWER_STEPS), _curvature(problem, optimum, _POWER_STEPS))
    noise = between / (4.0 * beta * gap) if gap > 0.0 and beta > 0.0 else 0.0
    return TaskNoise(noise, between * size / inside if inside > 0.0 else 1.0)


def _squared(vector: Array) -> float:
    return float(vector @ vector)


def _task_gradient(problem: Problem, x: Array, rows: slice) -> Array:
    """Return the mean gradient of some samples."""
    shard, gradient = _summand(problem, x, rows)
    gradient *= problem.n_samples / (rows.stop - rows.start)
    if shard.support is None:
        return gradient
    whole = np.zeros(len(x))
    whole[shard.support] = gradient
    return whole


def _summand(problem: Problem, x: Array, rows: slice) -> tuple[Shard, Array]:
    """Return the shard of some samples, and their summand of the gradient on its support."""
    shard = problem.shard([rows])
    gradient = np.empty(len(shard.take(x)))
    shard.combine(shard.take(x), np.ones(1), 0, gradient)
    return shard, gradient


def _gradient(problem: Problem, x: Array) -> Array:
    return problem.gradient(x) + problem.penalty_gradient(x)


def minimum(problem: Problem, begin: Array, steps: int = 2000) -> float:
    """Return the smallest objective that L-BFGS reaches from a model.

    Arguments:
        problem: the problem, whose penalty must be smooth.
        begin: the model to begin with, shape (n_parameters,).
        steps: largest number of steps.

    Raises:
        InvalidArgument: if the penalty is not smooth.
    """
    return problem.objective(_minimised(problem, begin, steps))


def _minimised(problem: Problem, begin: Array, steps: int) -> Array:
    from scipy.optimize import minimize  # slow to import

    if problem.regularizer.sharp:
        raise invalid(
            "problem",
            "must have a smooth penalty where its minimum is looked for",
            str(problem.regularizer),
            "leave l1 out, or choose a metric of the test samples as the target",
        )

    def both(x: Array) -> tuple[float, Array]:
        return problem.objective(x), _gradient(problem, x)

    result = minimize(
        both, begin, jac=True, method="L-BFGS-B", options={"maxiter": steps, "ftol": 1e-14, "gtol": 1e-10}
    )
    return np.asarray(result.x, dtype=np.float64)


def _curvature(problem: Problem, x: Array, power_steps: int) -> float:
    direction = np.random.default_rng(0).standard_normal(len(x))
    length = 1e-4 * max(1.0, float(np.linalg.norm(x)))
    largest = 0.0
    for _ in range(power_steps):
        direction *= length / np.linalg.norm(direction)
        change = 0.5 * (_gradient(problem, x + direction) - _gradient(problem, x - direction))
        largest = max(largest, float(np.linalg.norm(change)) / length)
        if not change.any():
            break
        direction = change
    return largest


def _descend(problem: Problem, x: Array, rate: float, steps: int) -> tuple[list[Array], list[float], list[float]]:
    # Only three points of the path are kept, as a model may have hundreds of thousands of parameters.
    kept: list[Array] = []
    losses: list[float] = []
    squares: list[float] = []
    for step in range(steps):
        gradient = _gradient(problem, x)
        losses.append(problem.objective(x))
        squares.append(float(gradient @ gradient))
        if step in (0, steps // 2, steps - 1):
            kept.append(x)
        x = x - rate * gradient
    return kept, losses, squares


def _longest_task(problem: Problem, x: Array, n_tasks: int) -> float:
    ranges = split_samples(problem.n_samples, n_tasks)
    longest = max(float(np.linalg.norm(_summand(problem, x, samples)[1])) for samples in ranges)
    return n_tasks * longest  # f is the mean of the f_i, and a shard's gradient is one summand

"""What one setting would do: time and residual of a step by simulation, and what follows from them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.delays.base import Delays
from erasurehead.delays.bootstrap import Bootstrap
from erasurehead.engines.base import LateWork
from erasurehead.planning.carry_over import simulate_with_memory
from erasurehead.planning.convergence import Bound, Constants
from erasurehead.planning.simulation import simulate
from erasurehead.schemes.named import Scheme
from erasurehead.schemes.text import parse_scheme

_ARRIVALS = 200_000  # arrival times simulated for one setting
_EVENTS = 6_000  # the same, where steps remember each other
_BATCHES = 20


@dataclass(frozen=True, eq=False)
class Forecast:
    """A setting with what it would do.

    Attributes:
        setting: the scheme, as a run file writes it.
        load: most tasks that a worker holds.
        share_of_data: of all samples that one worker holds, from 0 to 1.
        messages: messages that one worker sends a step, at most.
        pieces: into how many pieces a gradient is cut: a message is that many times shorter.
        seconds_per_step: expected; inf if in some steps the rule is never met.
        error: its standard error; where delays are drawn from a trace, that of so short a trace.
        missing: expected residual over the number of tasks: share of the gradient that is lost, from 0 to 1.
        arrived: expected number of workers waited for.
        computing: seconds of a step that the worker with most tasks computes.
        met: share of the steps in which the rule is met.
        steps: steps to the target, not rounded, where the target was given with constants; relative to gradient
            descent with the exact gradient where not: 1 / (1 - missing), the contraction of Theorem 1. inf if the
            target is below the noise floor.
        floor: below which the error does not fall, by Theorem 1; NaN without constants.
        scores: seconds times `steps`, of each simulated step; their mean is the time to the target (without
            constants: relative to one exact step), shape (steps simulated,).
    """

    setting: str
    load: int
    share_of_data: float
    messages: int
    pieces: int
    seconds_per_step: float
    error: float
    missing: float
    arrived: float
    computing: float
    met: float
    steps: float
    floor: float
    scores: Array

    @property
    def seconds_to_target(self) -> float:
        """Expected time to the target; without a target, of as much progress as one exact step makes."""
        if math.isinf(self.steps) or math.isinf(self.seconds_per_step):
            return math.inf
        return self.seconds_per_step * self.steps

    def bytes_per_worker(self, n_parameters: int) -> int:
        """Return the most bytes that a worker sends a step, in float64: less where its data touch fewer parameters."""
        return self.messages * 8 * -(-n_parameters // self.pieces)

    @property
    def steps_lost(self) -> float:
        """How many more steps the missing part of the gradient costs, as a share of those of exact descent."""
        return self.missing / (1.0 - self.missing) if self.missing < 1.0 else math.inf

    @property
    def band(self) -> tuple[float, float]:
        """About 95% certain bounds on `seconds_to_target`, as far as delays go."""
        middle, reach = self.seconds_to_target, 1.96 * self.error * self.steps
        return (middle, middle) if math.isinf(middle) else (max(0.0, middle - reach), middle + reach)


@dataclass(frozen=True)
class Target:
    """An error to reach, for the bound of Theorem 1.

    Arguments:
        constants: of the objective; `estimate_constants` finds those of a problem.
        epsilon: f - f* to reach, greater than 0.
    """

    constants: Constants
    epsilon: float


def forecast(
    setting: str,
    n_workers: int,
    delays: Delays,
    seconds_per_task: float = 0.0,
    target: Target | None = None,
    steps: int | None = None,
    late: LateWork = "preempt",
) -> Forecast:
    """Simulate one setting.

    Arguments:
        setting: a scheme, as a run file writes it.
        n_workers: how many.
        delays: how slow they are.
        seconds_per_task: computing time of a task.
        target: by default none; times are then relative.
        steps: how many to simulate; by default as many as make 200,000 arrivals, from 64 to 4,096 (256 for codes
            that are not made of replicas); 6,000 arrivals, at least 64 steps, with `late="carry"`.
        late: what a worker does that is busy when the next order is out.
    """
    scheme = parse_scheme(setting, n_workers)
    if late != "preempt" or scheme.rule.remembers or delays.follows_clock:
        steps = steps or max(64, _EVENTS // scheme.code.n_messages)
        result = simulate_with_memory(scheme.decoder, scheme.rule, delays, steps, seconds_per_task, late=late)
    else:
        most = 4096 if scheme.code.replicas else 256  # other codes are decoded arrival by arrival
        steps = steps or min(most, max(64, _ARRIVALS // scheme.code.n_messages))
        result = simulate(scheme.decoder, scheme.rule, delays, steps, seconds_per_task)
    missing = min(1.0, float(result.residual.mean()) / scheme.code.n_tasks)
    bound = None if target is None else _bound(scheme, missing, target.constants)
    if bound is None:
        needed = 1.0 / (1.0 - missing) if missing < 1.0 else math.inf
    else:
        assert target is not None
        needed = bound.steps_to(target.epsilon)
    computing = seconds_per_task * scheme.code.load
    return Forecast(
        setting=setting,
        load=scheme.code.load,
        share_of_data=scheme.code.load / scheme.code.n_tasks,
        messages=int(scheme.code.messages_per_worker.max()),
        pieces=scheme.code.n_pieces,
        seconds_per_step=result.seconds_per_step,
        error=mean_error(result.seconds, delays),
        missing=missing,
        arrived=float(result.arrived.mean()),
        computing=computing,
        met=result.met,
        steps=needed,
        floor=math.nan if bound is None else bound.floor,
        scores=result.seconds * needed if math.isfinite(needed) else np.full(steps, math.inf),
    )


def trace_rounds(delays: Delays) -> float:
    """Return how many independent rounds a delay model rests on; inf for a model with given parameters."""
    return len(delays.table) / delays.block if isinstance(delays, Bootstrap) else math.inf


def mean_error(seconds: Array, delays: Delays) -> float:
    """Return the standard error of the mean of simulated steps, and of the trace that the delays are drawn from.

    Steps may be alike for a while: the means of batches of them show it. A simulation can be made as long as one
    likes, but the trace that it draws from cannot.
    """
    if not np.isfinite(seconds).all():
        return math.inf
    n = len(seconds)
    spread = float(seconds.std(ddof=1)) if n > 1 else math.inf
    error = spread / math.sqrt(n)
    if n >= 3 * _BATCHES:
        batches = seconds[: n - n % _BATCHES].reshape(_BATCHES, -1).mean(axis=1)
        error = max(error, float(batches.std(ddof=1)) / math.sqrt(_BATCHES))
    rounds = trace_rounds(delays)
    return math.hypot(error, spread / math.sqrt(rounds)) if rounds >= 2.0 else math.inf  # one says nothing of chance


def _bound(scheme: Scheme, missing: float, constants: Constants) -> Bound | None:
    # Theorem 1 with step (1 - p) / beta. Its (q - p) c / n is at most c p / n, which any code has with its load for c:
    # the tasks of one message, all aligned, are the worst that can be missing together.
    if missing >= 1.0:
        return Bound(1.0, math.inf, constants.gap)
    n_tasks = scheme.code.n_tasks
    noise = missing * scheme.code.load / n_tasks
    floor = noise * constants.sigma**2 / (2.0 * (1.0 - missing) * constants.mu)
    return Bound(1.0 - (1.0 - missing) * constants.kappa, floor, constants.gap)

"""The forecast of one setting: simulated times and residuals of steps, and the time to a target."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.late_work import LateWork
from erasurehead.delays import Bootstrap, Delays
from erasurehead.delays._fitting import Uncertain
from erasurehead.delays._stationarity import tail_index
from erasurehead.errors import invalid, real
from erasurehead.planning._accuracy import Accuracy
from erasurehead.planning._carry_over import simulate_with_memory
from erasurehead.planning._convergence import Bound, Constants, lemma1
from erasurehead.planning._simulation import Simulation, Timing, with_sums
from erasurehead.planning._stand_in import SolverPath
from erasurehead.planning._task_weights import Counted, CountedSum
from erasurehead.planning._trace_errors import TraceErrors
from erasurehead.schemes import Scheme, parse_scheme
from erasurehead.schemes._text import is_adaptive

_ARRIVALS = 200_000  # arrival times simulated for one setting
_CARRIED = 60_000  # the same, if steps depend on each other
_CHAIN = 64  # in that case, steps of each of the runs that are simulated side by side
LEAST = 64
_ALONG = 8_192  # the same along the clock, of which few steps take little: fewer workers stall more seldom
_BATCHES = 20
GUESS = 20
"""Number of independent rounds below which an estimate from a trace is only a guess."""
_HEARD = 0.01  # a task that is counted in a smaller share of the steps is neglected


@dataclass(frozen=True, eq=False)
class Forecast:
    """The forecast of one setting.

    Attributes:
        setting: the scheme, written as in a run file.
        load: most tasks that a worker holds.
        share_of_data: share of all samples that a worker holds, from 0 to 1.
        messages: most messages that a worker sends in a step.
        pieces: number of pieces into which gradients are cut, so that a message is that many times shorter.
        seconds_per_step: expected seconds of a step; inf if the rule is never met in some steps.
        error: standard error of `seconds_per_step`, in seconds; if delays are drawn from a trace, including that due to
            its limited length.
        missing: expected residual divided by the number of tasks: share of the gradient that is lost, from 0 to 1.
        arrived: expected number of workers that are waited for.
        computing: seconds per step in which the worker with most tasks computes.
        met: share of the steps in which the rule is met, from 0 to 1.
        counted: statistics of the tasks' weights in the estimates.
        steps: steps to the target, not rounded, if the target was given with constants; otherwise relative to those of
            gradient descent with the exact gradient (see `erasurehead.planning._accuracy`). inf if the errors of the
            estimates keep the objective above the target, or a task is neglected.
        floor: error below which training is not expected to get: in units of the objective with constants, otherwise as
            a fraction of the initial gap.
        bound: upper bound of Theorem 1 on the steps to the target, in expectation; NaN without constants.
        unanswered: share of the steps that wait for a worker without an answer in the trace, from 0 to 1.
        scores: seconds of each simulated step, shape (simulated steps,).
        exact_steps: steps that the exact gradient needs, in the unit of `steps`.
        steps_range: the fewest and the most steps: where nothing was tried on data, by what other data took.
        steps_elsewhere: the steps on each of these data; empty where nothing is assumed of them.
        paths: how `adaptive` went on a stand-in for data; empty for other settings, and where that is not wanted.
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
    counted: Counted
    steps: float
    floor: float
    bound: float
    unanswered: float
    scores: Array
    exact_steps: float = 1.0
    steps_range: tuple[float, float] = (1.0, 1.0)
    steps_elsewhere: tuple[float, ...] = ()
    paths: tuple[SolverPath, ...] = ()

    def __repr__(self) -> str:
        return f"Forecast({self.setting}: {self.seconds_per_step:.4g} s a step, {100 * self.missing:.1f}% lost)"

    @property
    def seconds_to_target(self) -> float:
        """Expected seconds to the target; if steps are relative, seconds per step of exact descent; inf if never."""
        if math.isinf(self.steps) or math.isinf(self.seconds_per_step):
            return math.inf
        return self.seconds_per_step * self.steps

    def bytes_per_worker(self, n_parameters: int) -> int:
        """Return the most bytes that a worker sends in a step, in float64.

        It sends less if its data involve only some of the parameters.

        Arguments:
            n_parameters: number of parameters of the model.
        """
        return self.messages * 8 * -(-n_parameters // self.pieces)

    @property
    def behaviour(self) -> tuple[int, float, float, bytes]:
        """Equal for settings of one load that behave alike in every simulated step."""
        return self.load, self.missing, self.steps, self.scores.tobytes()

    @property
    def steps_lost(self) -> float:
        """Additional steps due to the missing part of the gradient, as a fraction of those of exact descent."""
        return self.steps / self.exact_steps - 1.0

    def with_steps(self, steps: float, exact_steps: float) -> Forecast:
        """Return the forecast with a known number of steps, such as one from trials on data.

        Arguments:
            steps: steps to the target; inf if it is not reached.
            exact_steps: steps of exact descent, in the same unit.
        """
        return replace(self, steps=steps, exact_steps=exact_steps, bound=math.nan, steps_range=(steps, steps))

    @property
    def least_counted(self) -> float:
        """Share of the steps in which the least often counted task is counted, from 0 to 1."""
        return float(self.counted.shares.min())

    @property
    def neglected(self) -> tuple[int, ...]:
        """Tasks that are counted in fewer than 1% of the steps; empty if there are too few rounds to say."""
        if self.counted.rounds < GUESS:
            return ()
        return tuple(np.flatnonzero(self.counted.shares < _HEARD).tolist())

    def asked(self, accuracy: Accuracy, exact_steps: float = 1.0) -> Forecast:
        """Return the forecast for another accuracy.

        Arguments:
            accuracy: target and assumptions on the data.
            exact_steps: number of steps of exact descent to the target; 1 makes steps relative.
        """
        usual, others = accuracy.relative_steps(self.counted)
        if self.neglected:
            usual, others = math.inf, ()
        elif is_adaptive(self.setting):
            others = accuracy.solver_steps(self.paths)
            usual = float(np.median(others)) if others else 1.0
        few, many = min(usual, *others, usual), max(usual, *others, usual)
        item = self.with_steps(exact_steps * usual, exact_steps)
        return replace(
            item,
            floor=accuracy.floor(self.counted),
            steps_range=(exact_steps * few, exact_steps * many),
            steps_elsewhere=tuple(exact_steps * count for count in others),
        )

    @property
    def band(self) -> tuple[float, float]:
        """Approximate 95% confidence interval of `seconds_to_target`, as far as it depends on the delays.

        Where nothing was tried on data, it has the range of the steps, too.
        """
        middle, reach, (few, many) = self.seconds_per_step, 1.96 * self.error, self.steps_range
        if math.isinf(self.seconds_to_target):
            return math.inf, math.inf
        return max(0.0, middle - reach) * few, (middle + reach) * many if many < math.inf else math.inf


@dataclass(frozen=True)
class ErrorTarget:
    """An error to reach, for an objective whose constants are known.

    Arguments:
        constants: constants of the objective; `estimate_constants` estimates those of a problem.
        epsilon: error f - f* to reach, greater than 0 and smaller than that of the first model, `constants.gap`.
    """

    constants: Constants
    epsilon: float

    def __post_init__(self) -> None:
        gap = self.constants.gap
        if not 0.0 < real(self.epsilon) < gap:
            raise invalid("epsilon", f"must be greater than 0 and below the first model's error, {gap:g}", self.epsilon)


def forecast(
    setting: str,
    n_workers: int,
    delays: Delays,
    seconds_per_task: float = 0.0,
    target: ErrorTarget | None = None,
    steps: int | None = None,
    late: LateWork = "preempt",
    accuracy: Accuracy | None = None,
    trace_errors: TraceErrors | None = None,
) -> Forecast:
    """Forecast one setting by simulation.

    Arguments:
        setting: the scheme, written as in a run file.
        n_workers: number of workers.
        delays: how slow they are.
        seconds_per_task: computing time of a task.
        target: error to reach, with constants of the objective; by default none, and times are relative.
        steps: number of steps to simulate; by default as many as have 200,000 arrivals, from 64 to 4,096 (256 for
            codes that are not made of replicas); 60,000 arrivals, from 256 to 2,048 steps, with `late="carry"`.
        late: what a worker does with old work when the next order is given.
        accuracy: target and assumptions on the data if there is no `target`; by default `Accuracy()`.
        trace_errors: those of the delays, if they are shared with other settings; made if None.

    Raises:
        InvalidArgument: if the setting is not valid, or uses late messages.
    """
    scheme = parse_scheme(setting, n_workers)
    if scheme.aggregation.wants_late:
        raise invalid(
            "setting",
            "must not use late messages, whose effect cannot be forecast",
            setting,
            "compare it on data instead: erasurehead compare",
        )
    chains = _length(scheme, delays, steps, late)[1]
    counting = CountedSum(scheme.decoder, scheme.aggregation, trace_rounds(delays), runs=chains)
    result = _simulated(scheme, delays, seconds_per_task, steps, late, counting)
    missing = min(1.0, float(result.residual.mean()) / scheme.code.n_tasks)
    counted = counting.result()
    bound = None if target is None else _bound(scheme, missing, target.constants)
    item = Forecast(
        setting=setting,
        load=scheme.code.load,
        share_of_data=scheme.code.load / scheme.code.n_tasks,
        messages=int(scheme.code.messages_per_worker.max()),
        pieces=scheme.code.n_pieces,
        seconds_per_step=result.seconds_per_step,
        error=_error(result, scheme, delays, seconds_per_task, late, trace_errors),
        missing=missing,
        arrived=float(result.arrived.mean()),
        computing=seconds_per_task * scheme.code.load,
        met=result.met,
        counted=counted,
        steps=1.0,
        floor=0.0,
        bound=math.nan,
        unanswered=0.0,
        scores=result.seconds,
    )
    if target is None or bound is None:
        item = item.asked(accuracy or Accuracy())
    else:
        of = Accuracy.of(target.constants, target.epsilon)
        exact = lemma1(target.constants).steps_to(target.epsilon)
        item = item.asked(of, exact)
        item = replace(item, floor=item.floor * target.constants.gap, bound=bound.steps_to(target.epsilon))
    dead = delays.if_dead() if isinstance(delays, Bootstrap) else None
    if dead is not None:
        pessimistic = _simulated(scheme, dead, seconds_per_task, steps, late)
        item = replace(item, unanswered=1.0 - pessimistic.met)
    return item


def _error(
    result: Simulation,
    scheme: Scheme,
    delays: Delays,
    seconds_per_task: float,
    late: LateWork,
    trace_errors: TraceErrors | None,
) -> float:
    """Return the standard error of the mean seconds of a step, with those of what the delays were made from."""
    error = mean_error(result.seconds, delays, late)
    of_trace = (trace_errors or TraceErrors(delays)).of(scheme, seconds_per_task)
    if of_trace is not None and math.isfinite(error):
        chance = float(result.seconds.std(ddof=1)) / math.sqrt(len(result.seconds))
        error = max(error, math.hypot(chance, of_trace * result.seconds_per_step))
    if isinstance(delays, Uncertain):
        few = max(LEAST, len(result.seconds) // len(delays.draws))
        means = [_simulated(scheme, other, seconds_per_task, few, late).seconds_per_step for other in delays.draws]
        error = math.hypot(error, float(np.std(means, ddof=1)) if np.isfinite(means).all() else math.inf)
    return error


def _simulated(
    scheme: Scheme,
    delays: Delays,
    seconds_per_task: float,
    steps: int | None,
    late: LateWork,
    watch: CountedSum | None = None,
) -> Simulation:
    steps, chains = _length(scheme, delays, steps, late)
    timing = Timing.of(scheme, delays, seconds_per_task, late=late)
    return with_sums(simulate_with_memory(timing, steps, watch, chains), scheme, delays)


def _length(scheme: Scheme, delays: Delays, steps: int | None, late: LateWork) -> tuple[int, int]:
    """Return how many steps are simulated, and in how many chains."""
    replicas, n_messages = scheme.code.replicas, scheme.code.n_messages
    one_by_one = scheme.rule.remembers or delays.follows_clock  # each begins where and when the one before has ended
    if late == "preempt" and not one_by_one:
        most = 4096 if replicas else 256  # other codes are decoded arrival by arrival
        return steps or min(most, max(LEAST, _ARRIVALS // n_messages)), 1
    most = 2048 if replicas and not one_by_one else 4 * LEAST
    if delays.follows_clock:
        most = max(most, _ALONG // n_messages)
    steps = steps or min(most, max(4 * LEAST, _CARRIED // n_messages))
    return steps, 1 if one_by_one else max(1, steps // _CHAIN)


def trace_rounds(delays: Delays) -> float:
    """Return the number of independent rounds on which a delay model is based; inf for one with given parameters."""
    if isinstance(delays, Bootstrap):
        return delays.effective_rounds
    return math.inf


def ratio(seconds: float, own: float) -> float:
    """Return how many times as long as another something takes: 1 if neither takes any time, inf if only it does.

    Arguments:
        seconds: its time, at least 0.
        own: time of the other, finite and at least 0.
    """
    return seconds / own if own else 1.0 if seconds == 0.0 else math.inf


def mean_error(seconds: Array, delays: Delays, late: LateWork) -> float:
    """Return the standard error of the mean of simulated steps.

    It includes the error due to the limited length of the trace from which delays are drawn, which does not vanish in a
    long simulation. Successive steps may be correlated; this is estimated from the means of stretches of steps, as long
    as the blocks that are drawn from the trace.

    Arguments:
        seconds: seconds of each step, or differences between two settings, shape (steps,).
        delays: delays of the simulation.
        late: what a worker does with old work when the next order is given.

    Returns:
        The standard error, in the unit of `seconds`; inf if some steps never end, or there are too few to estimate it.
    """
    if not np.isfinite(seconds).all():
        return math.inf
    n = len(seconds)
    spread = float(seconds.std(ddof=1)) if n > 1 else math.inf
    error = spread / math.sqrt(n)
    if n >= 3 * _BATCHES:
        error = max(error, _of_stretches(seconds, n // _BATCHES) / math.sqrt(n))
    if not isinstance(delays, Bootstrap):
        return error
    rounds = len(delays.table)
    if rounds < 2:  # a single round does not show any variance
        return math.inf
    length = min(max(delays.block, 1), n // 4)
    if length > 1:
        spread = max(spread, _of_stretches(seconds, length))
    tail = _tail(seconds, delays) if late == "preempt" else delays.tail_index
    # If the variance is infinite, the error of a mean falls more slowly than with the root of the sample size.
    slower = rounds ** -(1.0 - 1.0 / max(tail, 1.05)) if tail < 2.0 else rounds**-0.5
    return math.hypot(error, spread * slower)


def _tail(seconds: Array, delays: Bootstrap) -> float:
    """Return the tail exponent of step times: that of the delays, or a larger one if steps avoid the longest delays.

    This holds if late work is dropped: otherwise the longest delays keep workers busy in later steps.
    """
    if delays.tail_index >= 2.0:
        return delays.tail_index
    own = tail_index(np.abs(seconds)[:, None])
    return max(own, delays.tail_index) if math.isfinite(own) else delays.tail_index


def _of_stretches(seconds: Array, length: int) -> float:
    """Return the standard deviation of the means of stretches of steps, times the root of their length."""
    whole = len(seconds) - len(seconds) % length
    means = seconds[:whole].reshape(-1, length).mean(axis=1)
    return float(means.std(ddof=1)) * math.sqrt(length)


def _bound(scheme: Scheme, missing: float, constants: Constants) -> Bound | None:
    # Theorem 1 with step size (1 - p) / beta. Its (q - p) c / n is at most c p / n, which holds for any code with its
    # load as c: the worst case is that the tasks of one message are missing together, with aligned gradients.
    if missing >= 1.0:
        return Bound(1.0, math.inf, constants.gap)
    n_tasks = scheme.code.n_tasks
    noise = missing * scheme.code.load / n_tasks
    floor = noise * constants.sigma**2 / (2.0 * (1.0 - missing) * constants.mu)
    return Bound(1.0 - (1.0 - missing) * constants.kappa, floor, constants.gap)

"""Steps to a target by training for real, with the arrivals of the virtual clock: the answer for one's own data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.decoding.base import EXACT
from erasurehead.delays.base import Delays
from erasurehead.engines.base import LateWork, Order
from erasurehead.errors import check_count, invalid
from erasurehead.optimizers.base import Optimizer
from erasurehead.planning.accuracy import Accuracy
from erasurehead.planning.carry_over import simulate_with_memory
from erasurehead.planning.constants import minimum
from erasurehead.planning.forecasts import Forecast
from erasurehead.planning.planner import Plan
from erasurehead.planning.simulation import simulate
from erasurehead.planning.task_weights import task_weights
from erasurehead.problems.base import CURVATURE, Problem, Shard, split_samples
from erasurehead.schemes.named import Scheme
from erasurehead.schemes.text import is_adaptive, parse_scheme
from erasurehead.training.result import LOWER_IS_BETTER

GAP = "gap"
"""The metric of a target that is a part of the first gap of the objective."""

_ENTRANTS = 24  # settings of the Pareto front that are raced at most
_SLOWER = 1.5  # a run ends when its clock has passed so many times the best time
_NOISY = 6  # runs that the noise is measured by
_ENOUGH = 300  # steps of L-BFGS, after which the objective is far closer to its minimum than a target is
_FEW = 5  # steps of exact training to a target below which luck decides


@dataclass(frozen=True)
class Trial:
    """What training with one setting came to.

    Attributes:
        setting: the scheme, as a run file writes it.
        seconds: of each repetition, until the target was reached, on the virtual clock; inf where it was not.
        final: the metric at the end of each repetition; NaN where the model was no number any more.
        steps: of each repetition, until the target was reached; inf where it was not.
        ended_at: the step at which a repetition was ended because another setting was far quicker; 0 if none was.
        given: steps that each repetition was given at most; by default those that the longest one took.
    """

    setting: str
    seconds: tuple[float, ...]
    final: tuple[float, ...]
    steps: tuple[float, ...] = ()
    ended_at: int = 0
    given: tuple[float, ...] = ()

    @property
    def given_up(self) -> bool:
        """Whether some repetition was ended because another setting was far quicker."""
        return self.ended_at > 0

    @property
    def unfinished(self) -> bool:
        """Whether so many repetitions were ended that nobody knows how long the setting takes."""
        return self.given_up and math.isinf(self.median_steps)

    @property
    def reached(self) -> float:
        """Share of the repetitions that reached the target."""
        return float(np.isfinite(self.seconds).mean())

    @property
    def median(self) -> float:
        """Median of the seconds; inf if half of the repetitions did not reach the target."""
        return _median(self.seconds)

    @property
    def median_steps(self) -> float:
        """Median of the steps; inf if half of the repetitions did not reach the target."""
        return _median(self.steps)

    @property
    def expected_steps(self) -> float:
        """Mean of the steps, where a repetition that missed the target counts as many as it was given.

        inf if half of the repetitions missed it. The median would not tell a setting that always gets there from one
        that sometimes hovers above the target for long.
        """
        if math.isinf(self.median_steps):
            return math.inf
        longest = max(steps for steps in self.steps if math.isfinite(steps))
        given = self.given or (longest,) * len(self.steps)
        return float(np.mean([min(pair) for pair in zip(self.steps, given, strict=True)]))

    @property
    def band(self) -> tuple[float, float]:
        """The quickest and the slowest repetition: all that so few of them tell."""
        return min(self.seconds), max(self.seconds)

    def contradicts(self, item: Forecast) -> bool:
        """Whether its seconds per step are far from the forecast's: twice as long or as short, or more than chance."""
        known = [(total, steps) for total, steps in zip(self.seconds, self.steps, strict=True) if math.isfinite(total)]
        if not known or math.isinf(item.seconds_per_step):
            return bool(known)
        seconds, steps = (float(sum(values)) for values in zip(*known, strict=True))
        took = seconds / steps
        spread = float(item.scores.std()) / math.sqrt(steps)
        error = math.hypot(spread, item.error) if math.isfinite(item.error) else math.inf
        expected = item.seconds_per_step
        if not 0.5 * expected <= took <= 2.0 * expected:
            return True
        return abs(took - expected) > max(3.0 * error, 0.25 * expected)


def _median(values: Sequence[float]) -> float:
    finite = sum(map(math.isfinite, values))
    return float(np.sort(values)[(len(values) - 1) // 2]) if 2 * finite > len(values) else math.inf


@dataclass(frozen=True)
class Goal:
    """What a trial is to reach.

    Arguments:
        metric: `"gap"`, or a metric of the problem.
        value: of the metric; of a gap, the part of the first gap of the objective that may remain.
        first: the objective at the first model.
        lowest: the smallest that it can be.
    """

    metric: str
    value: float
    first: float = math.nan
    lowest: float = math.nan

    def measure(self, problem: Problem, x: Array) -> float:
        """Return the metric of a model."""
        if self.metric == GAP:
            return (problem.objective(x) - self.lowest) / (self.first - self.lowest)
        found = problem.metrics(x)
        if self.metric not in found:
            known = ", ".join([GAP, *found]) if found else f"{GAP}: it has no test samples"
            raise invalid("goal", "must name a metric of the problem", self.metric, f"its metrics are {known}")
        return found[self.metric]

    def met(self, measured: float) -> bool:
        """Whether a value of the metric is good enough."""
        lower = self.metric == GAP or self.metric in LOWER_IS_BETTER
        return measured <= self.value if lower else measured >= self.value


class Trainer:
    """Trains with given weights of the tasks, step by step: what a run does, without its workers.

    Arguments:
        problem: the user's data, or a sample of them.
        optimizer: makes a new optimizer at its initial model, for each run.
        goal: metric and value to reach: `("gap", 0.01)`, or a metric of the problem such as `("auc", 0.84)`.
        max_steps: steps after which a run gives up, at least 1.
    """

    def __init__(
        self, problem: Problem, optimizer: Callable[[], Optimizer], goal: tuple[str, float], max_steps: int
    ) -> None:
        self.problem, self._optimizer = problem, optimizer
        self.max_steps = check_count("max_steps", max_steps)
        self._shards: dict[int, Shard] = {}
        metric, value = goal
        if metric == GAP:
            if not 0.0 < value < 1.0:
                raise invalid("goal", "must be a gap between 0 and 1, a part of the first", value)
            x = optimizer().x
            first = problem.objective(x)
            self.goal = Goal(metric, value, first, min(minimum(problem, x, _ENOUGH), first - 1e-300))
        else:
            self.goal = Goal(metric, value)

    def run(self, weights: Array | None, n_tasks: int) -> tuple[float, float]:
        """Train until the goal is met, and return the steps (inf if it is not) and the metric at the end.

        Arguments:
            weights: how much each task counts in each step, shape (steps, n_tasks); None for the exact gradient in
                as many steps as are allowed.
            n_tasks: of the code.
        """
        measured = math.nan
        for step, measured in enumerate(self.measures(weights, n_tasks), start=1):
            if self.goal.met(measured):
                return float(step), measured
        return math.inf, measured

    def measures(self, weights: Array | None, n_tasks: int) -> Iterator[float]:
        """Train, and yield the metric after each step; NaN, and no more, once the model is no number any more.

        Arguments:
            weights, n_tasks: as of `run`.
        """
        problem, optimizer = self.problem, self._optimizer()
        optimizer.begin(problem)
        shard = self._shards.get(n_tasks)
        if shard is None:
            shard = self._shards[n_tasks] = problem.shard(list(split_samples(problem.n_samples, n_tasks)))
        ones = np.ones(n_tasks)
        for step in range(self.max_steps if weights is None else len(weights)):
            own = ones if weights is None else weights[step]
            order = optimizer.ask()
            if own.any():
                if order.kind == CURVATURE:
                    sums, point = shard.curvature, order.points[0]
                    optimizer.curvature = _combined(shard, point, lambda _, out, sums=sums, own=own: sums(own, out))
                estimate, value = self._estimate(shard, order, own)
                optimizer.value, optimizer.exact = value, bool((own == 1.0).all())
                optimizer.tell(estimate)
            else:
                optimizer.tell(None)
            if not np.isfinite(optimizer.x).all():
                yield math.nan
                return
            yield self.goal.measure(problem, optimizer.best)
            if optimizer.converged:
                return

    def _estimate(self, shard: Shard, order: Order, weights: Array) -> tuple[Array, float | None]:
        """Return what an optimizer is told, and the value that comes with it."""
        problem, step = self.problem, order.step
        gradient, value = np.zeros(problem.n_parameters), 0.0
        for point, factor in zip(order.points, order.coefficients or (1.0,), strict=True):
            found, loss = _combined(shard, point, lambda local, out: shard.combine(local, weights, step, out))
            gradient += factor * (found + problem.penalty_gradient(point))
            value += loss + problem.penalty(point)
        return gradient, None if order.coefficients else value

    @cached_property
    def exact(self) -> tuple[float, float]:
        """Steps of the exact gradient to the goal, and the metric at the end."""
        return self.run(None, 1)


def _combined(shard: Shard, point: Array, combine: Callable[[Array, Array], float]) -> tuple[Array, float]:
    """Return a sum over tasks as a vector of all parameters, and the number that came with it."""
    local = shard.take(point)
    out = np.empty(len(local))
    value = combine(local, out)
    if shard.support is None:
        return out, value
    whole = np.zeros(len(point))
    whole[shard.support] = out
    return whole, value


def measured_accuracy(
    problem: Problem, optimizer: Callable[[], Optimizer], n_tasks: int, gap: float, max_steps: int
) -> Accuracy:
    """Measure how far noise keeps training from a gap, with the optimizer and the step size that are used.

    Momentum adds the noise of many steps up, so that tasks alone do not tell it: training is repeated with half of the
    tasks missing at random, and what that adds to the gap is the noise; divided by the variance of those estimates it
    holds for others. It adds up for a while, so that what counts is what has come by the time at which exact training
    has met the target, up to twice that time.

    Arguments:
        problem: with its penalty.
        optimizer: makes a new optimizer at its initial model.
        n_tasks: n, tasks of consecutive samples as in training.
        gap: to be reached.
        max_steps: steps that training has, at least 1.
    """
    trainer = Trainer(problem, optimizer, (GAP, gap), max_steps)
    exact = list(trainer.measures(None, n_tasks))
    needed = next((step for step, left in enumerate(exact, start=1) if left <= gap), len(exact))
    window = slice(min(needed, len(exact)) - 1, min(len(exact), 2 * needed))
    pace = math.log(1.0 / min(max(exact[needed - 1], 1e-12), 0.9)) / needed
    random = np.random.default_rng(0)
    added: list[float] = []
    spread: list[float] = []
    for _ in range(_NOISY):
        there = random.random((window.stop, n_tasks)) < 0.5
        there[np.flatnonzero(~there.any(axis=1)), 0] = True
        weights = there * (n_tasks / there.sum(axis=1, keepdims=True))
        spread.append(float(((weights - 1.0) ** 2).sum(axis=1).mean()) / n_tasks**2)
        path = list(trainer.measures(weights, n_tasks))
        if len(path) < window.stop or not math.isfinite(path[-1]):
            return Accuracy(gap, 1.0, pace)
        added.append(float(np.mean(path[window])) - float(np.mean(exact[window])))
    noise = max(0.0, float(np.mean(added))) / float(np.mean(spread))
    return Accuracy(gap, noise if math.isfinite(noise) else 1.0, pace)


class StepWeights:
    """The weights of simulated steps, one after the other."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme
        self._rows: list[Array] = []

    def __call__(self, times: Array, stop: Array, residual: Array) -> None:
        n_tasks = self._scheme.code.n_tasks
        rows = np.ones((len(times), n_tasks))
        lossy = np.flatnonzero(residual > EXACT * n_tasks)
        if len(lossy):
            rows[lossy] = task_weights(self._scheme.decoder, self._scheme.aggregation, times[lossy], stop[lossy])
        self._rows.append(rows)

    @property
    def rows(self) -> Array:
        return np.concatenate(self._rows) if self._rows else np.zeros((0, self._scheme.code.n_tasks))


def arrivals_of(
    scheme: Scheme, delays: Delays, seconds_per_task: float, late: LateWork, first: int, steps: int
) -> tuple[Array, Array]:
    """Return seconds and weights of successive steps; fewer where the rule is not met any more."""
    kept = StepWeights(scheme)
    if late != "preempt":
        done = simulate_with_memory(
            scheme.decoder, scheme.rule, delays, steps, seconds_per_task, first, late, watch=kept
        )
    else:
        done = simulate(scheme.decoder, scheme.rule, delays, steps, seconds_per_task, first, watch=kept)
    ended = np.flatnonzero(~np.isfinite(done.seconds))
    count = int(ended[0]) if len(ended) else len(done.seconds)
    return done.seconds[:count], kept.rows[:count]


def try_settings(
    settings: Iterable[str],
    problem: Problem,
    optimizer: Callable[[], Optimizer],
    delays: Delays,
    n_workers: int,
    goal: tuple[str, float],
    max_steps: int = 100,
    repeats: int = 3,
    seconds_per_task: float = 0.0,
    late: LateWork = "preempt",
) -> tuple[Trial, ...]:
    """Train with each setting on the virtual clock, from the same model and with the same delays, and rank them.

    Arguments:
        settings: schemes, as run files write them.
        problem: the user's data, or a sample of them, with test samples if the goal is a metric of them.
        optimizer: makes a new optimizer at its initial model, for each run.
        delays: how slow the workers are. Each repetition takes other steps of them.
        n_workers: how many.
        goal: `("gap", 0.01)`, or a metric of the problem and the value to reach, such as `("auc", 0.84)`.
        max_steps: steps after which a run gives up, at least 1.
        repeats: runs of each setting, at least 1; the band is as wide as they differ.
        seconds_per_task: computing time of a task.
        late: what a worker does that is busy when the next order is out.

    Returns:
        The trials, by median time; those that did not reach the goal by the metric at the end.
    """
    check_count("repeats", repeats)
    trainer = Trainer(problem, optimizer, goal, max_steps)
    field = _Field(trainer, delays, n_workers, seconds_per_task, late)
    trials = [field.trial(setting, repeats, math.inf) for setting in settings]
    sign = 1.0 if goal[0] in (GAP, *LOWER_IS_BETTER) else -1.0
    return tuple(sorted(trials, key=lambda trial: (trial.median, _end(trial, sign))))


class _Field:
    """Runs of settings, each repetition once; settings that lose nothing share the steps of exact training."""

    def __init__(
        self,
        trainer: Trainer,
        delays: Delays,
        n_workers: int,
        seconds_per_task: float,
        late: LateWork,
        solver: Trainer | None = None,
    ) -> None:
        self._trainer, self._solver = trainer, solver
        self._delays, self._n_workers = delays, n_workers
        self._seconds_per_task = seconds_per_task
        self._late: LateWork = late
        self._done: dict[str, list[tuple[float, float, float, int]]] = {}

    def trial(self, setting: str, repeats: int, most: float, seconds_per_step: float = math.nan) -> Trial:
        """Train so often with a setting.

        Arguments:
            setting: the scheme.
            repeats: in all, those that were made before included.
            most: seconds after which a run is ended.
            seconds_per_step: of the setting, to tell how many steps that is.
        """
        scheme = parse_scheme(setting, self._n_workers)
        rows = self._done.setdefault(setting, [])
        trainer = self._solver if self._solver is not None and is_adaptive(setting) else self._trainer
        allowed = trainer.max_steps
        if math.isfinite(most) and seconds_per_step > 0.0:
            allowed = min(allowed, max(1, math.ceil(most / seconds_per_step)))
        # What was ended because others seemed far quicker is made again once they turn out not to be.
        rows[:] = [row for row in rows if math.isfinite(row[2]) or row[3] >= allowed]
        while len(rows) < repeats:
            first = len(rows) * trainer.max_steps
            seconds, weights = arrivals_of(scheme, self._delays, self._seconds_per_task, self._late, first, allowed)
            if (weights == 1.0).all() and len(weights) == allowed:
                steps, final = trainer.exact
                steps = steps if steps <= allowed else math.inf
            else:
                steps, final = trainer.run(weights, scheme.code.n_tasks)
            spent = float(seconds[: int(steps)].sum()) if math.isfinite(steps) else math.inf
            rows.append((spent, final, steps, allowed))
        took, final, steps, caps = zip(*rows, strict=True)
        cut = [cap for cap, count in zip(caps, steps, strict=True) if math.isinf(count) and cap < trainer.max_steps]
        given = tuple(map(float, caps))
        return Trial(setting, tuple(took), tuple(final), tuple(steps), min(cut, default=0), given)


def race(
    plan: Plan,
    problem: Problem,
    optimizer: Callable[[], Optimizer],
    goal: tuple[str, float],
    max_steps: int = 100,
    repeats: int = 3,
    progress: Callable[[int, int], None] | None = None,
    solver: Callable[[], Optimizer] | None = None,
) -> tuple[Trial, ...]:
    """Train with the settings that could be the best, on the virtual clock, and continue with the quicker half of them.

    They are the plan's Pareto front, its first settings, the first that loses nothing of the gradient, the one that is
    in use, and uncoded. All are trained once; then, again and again, the slower half is left out (successive halving)
    and the others are trained more often, the last ones twice as often as `repeats` says, and once more. A run ends
    when it has taken half as long again as the quickest one: what it could still reach does not matter. What a setting
    needs is its mean steps (`Trial.expected_steps`) times the seconds per step of its forecast, which many more steps
    have gone into.

    Settings of the plan that are `adaptive` run beside the race, with the optimizer that goes with them: their steps
    are whole gradients, so that one run tells the steps of all of them, and they end no run of another optimizer. What
    their first order computes beside the gradient is not counted: at most another computation of a worker's tasks.

    Arguments:
        plan: whose settings, delays, computing times and kind of late work are taken.
        problem, optimizer, goal, max_steps: as of `try_settings`.
        repeats: runs of a setting after which it is compared with others closely, at least 1.
        progress: called after each setting with how many are done, and of how many.
        solver: makes a new optimizer at its initial model for settings that are `adaptive`; by default theirs is
            `optimizer`, and they are raced like all others.

    Returns:
        The trials, the quickest first.
    """
    check_count("repeats", repeats)
    trainer = Trainer(problem, optimizer, goal, max_steps)
    own = None if solver is None else Trainer(problem, solver, goal, max_steps)
    field = _Field(trainer, plan.delays, plan.n_workers, plan.seconds_per_task, plan.late, own)
    known = {item.setting: item for item in plan.ranked}
    beside = [] if own is None else [item for item in plan.ranked if is_adaptive(item.setting)]
    left = [setting for setting in _entrants(plan, beside) if known[setting] not in beside]
    fixed = {plan.uncoded.setting} | ({plan.current.setting} if plan.current is not None else set[str]())
    trials: dict[str, Trial] = {}
    best = math.inf
    rounds = [1, repeats, 2 * repeats + 1] if repeats > 1 else [1]
    for number, often in enumerate(rounds):
        for place, setting in enumerate(left):
            item = known[setting]
            most = math.inf if setting in fixed or item.missing == 0.0 else _SLOWER * best
            trials[setting] = trial = field.trial(setting, often, most, item.seconds_per_step)
            if number == 0:
                best = min(best, took(item, trial))
            if progress is not None:
                progress(place + 1, len(left))
        in_order = sorted(left, key=lambda setting: took(known[setting], trials[setting]))
        best = took(known[in_order[0]], trials[in_order[0]])
        if number < len(rounds) - 1:
            left = in_order[: max(2, len(in_order) // 2)]
    for setting in sorted(trials, key=lambda name: trials[name].ended_at * known[name].seconds_per_step):
        # One lucky run may have ended others that are better than it is in the median.
        if 0.0 < trials[setting].ended_at * known[setting].seconds_per_step < best:
            trials[setting] = field.trial(setting, rounds[-1], _SLOWER * best, known[setting].seconds_per_step)
            best = min(best, took(known[setting], trials[setting]))
    trials |= {item.setting: field.trial(item.setting, 1, math.inf) for item in beside}
    if beside:
        first = min(beside, key=lambda item: took(item, trials[item.setting])).setting
        trials[first] = field.trial(first, rounds[-1], math.inf)
    sign = 1.0 if goal[0] in (GAP, *LOWER_IS_BETTER) else -1.0
    return tuple(sorted(trials.values(), key=lambda trial: (took(known[trial.setting], trial), _end(trial, sign))))


def took(item: Forecast, trial: Trial) -> float:
    """Return the seconds to the target: the steps of trials times the forecast's seconds per step."""
    steps = trial.expected_steps
    return steps * item.seconds_per_step if math.isfinite(steps) else math.inf


def decided_by_luck(trials: Sequence[Trial]) -> bool:
    """Whether the target is so near that the quickest setting met it within five steps."""
    return any(trial.median_steps < _FEW for trial in trials if not is_adaptive(trial.setting))


def _entrants(plan: Plan, beside: Sequence[Forecast]) -> list[str]:
    plan = plan.with_order([item for item in plan.ranked if item not in beside])
    possible = [item for item in plan.front if not item.neglected]
    if len(possible) > _ENTRANTS:
        last = len(possible) - 1
        possible = [possible[round(number * last / (_ENTRANTS - 1))] for number in range(_ENTRANTS)]
    lossless = [item for item in plan.ranked if item.missing == 0.0 and item.met == 1.0][:1]
    current = [] if plan.current is None else [plan.current]
    chosen = [*plan.distinct[:5], *lossless, *possible, *current, plan.uncoded]
    return list(dict.fromkeys(item.setting for item in chosen))


def _end(trial: Trial, sign: float) -> float:
    known = [value for value in trial.final if math.isfinite(value)]
    return sign * float(np.median(known)) if known else math.inf


def after(plan: Plan, trials: Sequence[Trial]) -> Plan:
    """Return a plan in which steps are those of trials on data; settings that were not tried come behind.

    Of these, forecasts tell how many times the steps of exact descent they take, and the trials how many those are.

    Arguments:
        plan: which the trials were made for.
        trials: as `race` returns them. If none reached the target, the ranking stays as it is.
    """
    steps: Mapping[str, float] = {trial.setting: trial.expected_steps for trial in trials}
    if not any(map(math.isfinite, steps.values())):
        return plan
    tried = [item for item in plan.ranked if item.setting in steps]
    lossless = [item.setting for item in tried if item.missing == 0.0 and not is_adaptive(item.setting)]
    exact = min((steps[setting] for setting in lossless), default=math.nan)

    def known_of(item: Forecast) -> Forecast:
        taken = steps[item.setting]
        of = taken if is_adaptive(item.setting) else exact  # whose optimizer may be another
        return item.with_steps(taken, of if math.isfinite(of) else item.exact_steps)

    known = {item.setting: known_of(item) for item in tried}
    for item in plan.ranked:
        if item.setting not in known:  # if exact descent does not get there, nobody knows who would
            scale = exact / item.exact_steps if math.isfinite(exact) else math.inf
            known[item.setting] = item.with_steps(scale * item.steps, scale * item.exact_steps)
    again = plan.of(known)
    first = [item for item in again.ranked if item.setting in steps]
    rest = [known[item.setting] for item in plan.ranked if item.setting not in steps]
    return again.with_order((*first, *rest))

"""Simulation and ranking of settings: which code, how much redundancy and how long to wait, and what that gains."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.late_work import LateWork, check_late
from erasurehead._internal.resources import check_seconds
from erasurehead._internal.shown import shown
from erasurehead.delays import Delays
from erasurehead.delays._base import Combined
from erasurehead.delays._text import as_delays
from erasurehead.errors import InvalidArgument, check_count, check_size, counted, invalid
from erasurehead.planning._accuracy import Accuracy
from erasurehead.planning._common_draws import corrected
from erasurehead.planning._forecasts import LEAST, ErrorTarget, Forecast, forecast, mean_error, ratio
from erasurehead.planning._settings import adaptive_settings, default_settings
from erasurehead.planning._stand_in import solver_paths
from erasurehead.planning._trace_errors import TraceErrors
from erasurehead.schemes._text import is_adaptive

_LOOKED_AT = 256  # steps that are checked for any delay greater than 0
_ARRIVAL, _ARRIVAL_BEYOND, _IN_CACHE = 1e-8, 1e-7, 1 << 16
"""Least seconds of a simulated arrival, where those of a step fit into the cache and where there are more workers."""
_DRAWN = 1 << 24  # delays drawn for that, at most
_GIVEN_UP = 3.0  # times what a setting was to take, after which one sees that it never reaches the target
_DEEPEST = 1e-3  # gap to which `adaptive` is tried on a stand-in for data, at least
_UNCODED = ("uncoded()", "uncoded")
"""What each setting is compared with, as it may be written."""


def differences(one: Forecast, other: Forecast) -> Array:
    """Return by how much longer a setting takes than another, as simulated with the same delays."""
    n = min(len(one.scores), len(other.scores))
    return one.scores[:n] * one.steps - other.scores[:n] * other.steps


@dataclass(frozen=True, eq=False)
class Plan:
    """A plan: settings with their forecasts, best first.

    Attributes:
        n_workers: number of workers.
        delays: how slow they are.
        seconds_per_task: computing time of a task.
        late: what a worker does with old work when the next order is given.
        target: error to reach, with constants of the objective; None if times are relative.
        ranked: forecasts of all settings, by time to the target, then by time per step.
        uncoded: forecast of `uncoded()`.
        current: forecast of the setting in use now; None if none was named.
        accuracy: target and assumptions on the data if `target` is None.
    """

    n_workers: int
    delays: Delays
    seconds_per_task: float
    late: LateWork
    target: ErrorTarget | None
    ranked: tuple[Forecast, ...]
    uncoded: Forecast
    current: Forecast | None
    accuracy: Accuracy = field(default_factory=Accuracy)

    def __repr__(self) -> str:
        return f"Plan({counted('setting', len(self.ranked))} for {counted('worker', self.n_workers)}: {self.best!r})"

    def _repr_html_(self) -> str:
        return shown("planning._pages", "plan_page")(self)

    def plot(self, ax: Any = None, kind: str = "ranking") -> Any:
        """Draw the plan with matplotlib (the extra `report`), and return the axes.

        Arguments:
            ax: where to draw; by default in a new figure.
            kind: `"ranking"`, the time to the target of the first settings; or `"tradeoff"`, the time of a step and
                what it loses of the gradient, of all settings.

        Raises:
            InvalidArgument: if there is no such picture, or `ax` is something else.
            MissingExtra: if matplotlib is not installed.
        """
        return shown("planning._pictures", "plot_plan")(self, ax, kind)

    @property
    def best(self) -> Forecast:
        """Forecast of the first setting of the ranking."""
        return self.ranked[0]

    @property
    def front(self) -> tuple[Forecast, ...]:
        """The Pareto front: settings that no other beats in both time and lost gradient, fastest first."""
        front: list[Forecast] = []
        for item in sorted(self.ranked, key=lambda item: (item.seconds_per_step, item.missing)):
            if math.isfinite(item.seconds_per_step) and (not front or item.missing < front[-1].missing - 1e-12):
                front.append(item)
        return tuple(front)

    @property
    def distinct(self) -> tuple[Forecast, ...]:
        """The ranking without settings that behave in every simulated step like an earlier one of the same load."""
        seen: dict[tuple[int, float, float, bytes], Forecast] = {}
        for item in self.ranked:
            seen.setdefault(item.behaviour, item)
        return tuple(seen.values())

    @property
    def reached(self) -> bool:
        """Whether any setting reaches the target."""
        return math.isfinite(self.best.seconds_to_target)

    def for_accuracy(self, accuracy: Accuracy) -> Plan:
        """Return the plan for another target or other data, with the same simulated steps.

        Arguments:
            accuracy: the new target, and assumptions on the data.
        """
        forecasts = {item.setting: item.asked(accuracy) for item in self.ranked}
        return replace(self, accuracy=accuracy, target=None).of(forecasts)

    def of(self, forecasts: Mapping[str, Forecast]) -> Plan:
        """Return the plan with other forecasts of its settings, ranked again.

        Arguments:
            forecasts: of all settings, by setting.
        """
        return replace(
            self,
            ranked=rank(forecasts.values()),
            uncoded=forecasts[self.uncoded.setting],
            current=None if self.current is None else forecasts[self.current.setting],
        )

    def speed_up(self, item: Forecast, over: Forecast | None = None) -> float:
        """Return the speed-up of a setting: the time to the target of another one over its own.

        Arguments:
            item: forecast of the setting.
            over: forecast to compare with; by default uncoded.

        Returns:
            The ratio of times; 0 if the setting does not reach the target; inf if only the other does not, or if only
            the other takes any time.
        """
        other = (self.uncoded if over is None else over).seconds_to_target
        return ratio(other, item.seconds_to_target) if math.isfinite(item.seconds_to_target) else 0.0

    def steps_of(self, item: Forecast) -> float:
        """Return the number of steps that a setting needs to reach the target, also where `Forecast.steps` is relative.

        Without constants and trials on data, exact descent is assumed to have the pace of `accuracy`.

        Arguments:
            item: forecast of the setting.
        """
        relative = self.target is None and item.exact_steps == 1.0
        return item.steps * self.accuracy.exact_steps if relative else item.steps

    def distinguishable(self, one: Forecast, other: Forecast) -> bool:
        """Whether the times of two settings, simulated with the same delays, differ significantly at the 5% level.

        Arguments:
            one: forecast of a setting.
            other: forecast of another.
        """
        if math.isinf(one.seconds_to_target) or math.isinf(other.seconds_to_target):
            return one.seconds_to_target != other.seconds_to_target
        difference = differences(one, other)
        return abs(float(difference.mean())) > 1.96 * mean_error(difference, self.delays, self.late)

    def behind(self) -> tuple[Forecast, float]:
        """Return which setting the best one may be farthest behind, and how many times as long it takes there.

        There: on one of the other data sets of which something is assumed. If none is, that is the best itself, and 1.
        """
        best, worst = self.best, (self.best, 1.0)
        for item in self.ranked:
            others = item.steps_elsewhere or (item.steps,) * len(best.steps_elsewhere)
            if item.unanswered == 0.0 and item.seconds_per_step > 0.0 and len(others) == len(best.steps_elsewhere):
                pace = best.seconds_per_step / item.seconds_per_step
                ratios = (pace * own / other for own, other in zip(best.steps_elsewhere, others, strict=True) if other)
                worst = max(worst, (item, max(ratios, default=1.0)), key=lambda pair: pair[1])
        return worst

    def as_good(self) -> tuple[Forecast, ...]:
        """Return the distinct settings whose times do not differ significantly from the best, including the best."""
        return tuple(item for item in self.distinct if item is self.best or not self.distinguishable(self.best, item))

    def run_file(self, item: Forecast | None = None, **sections: Mapping[str, Any]) -> dict[str, Any]:
        """Return a run file for `erasurehead train` as plain data; `erasurehead.runs._config.toml.to_toml` formats it.

        Arguments:
            item: forecast of the setting; by default the best.
            sections: further sections, or keys that override planned ones, such as `run={"steps": 200}`.

        Raises:
            InvalidArgument: if the delays were made from an array: a run file names the file of a trace.
        """
        if "model" not in sections.get("delays", {}) and _lacks_file(self.delays):
            raise invalid(
                "delays",
                "must come from a file to be named in a run file",
                str(self.delays),
                "Trace.from_table(seconds).write('delays.csv') saves an array, and Bootstrap.from_file('delays.csv') "
                "draws from it",
            )
        planned: dict[str, dict[str, Any]] = {
            "delays": {"model": str(self.delays), "late": self.late},
            "run": {"workers": self.n_workers, "seconds_per_task": self.seconds_per_task},
        }
        for name, section in sections.items():
            planned[name] = {**planned.get(name, {}), **section}
        return {"scheme": (item or self.best).setting, **planned}


def _lacks_file(delays: Delays) -> bool:
    """Return whether delays, or a part of them, are of a table that is in memory only."""
    parts = delays.parts if isinstance(delays, Combined) else [getattr(delays, "model", None)]
    inner = any(_lacks_file(part) for part in parts if isinstance(part, Delays))
    return inner or getattr(delays, "source", None) == ""


def plan(
    delays: Delays | str,
    n_workers: int,
    seconds_per_task: float = 0.0,
    settings: Sequence[str] | None = None,
    target: ErrorTarget | None = None,
    current: str | None = None,
    max_load: int = 10,
    steps: int | None = None,
    late: LateWork = "preempt",
    accuracy: Accuracy | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Plan:
    """Simulate settings, all with the same delays, and rank them.

    Arguments:
        delays: how slow the workers are: a delay model, or its text, or `delays.Bootstrap` of a trace.
        n_workers: number of workers, at least 2.
        seconds_per_task: computing time of a task, with one task per worker in uncoded training; if the delays are a
            trace of whole step times, the time that a further task adds.
        settings: schemes, written as in run files; by default `default_settings`, and without constants of the
            objective `adaptive_settings`, too.
        target: error to reach, with the constants of the objective.
        current: the setting in use now, to compare with.
        max_load: largest load of the default settings, at least 1.
        steps: number of steps simulated for each setting; by default as in `forecast`.
        late: what a worker does with old work when the next order is given: `"preempt"` drops it, which is the fastest
            to simulate; `"carry"` finishes it first, `"drop(3)"` unless it is more than three rounds old.
        accuracy: target and assumptions on the data if there is no `target`; times are then relative to one step of
            exact descent. By default `Accuracy()`.
        progress: called after each setting with the number of settings done and their total.

    Raises:
        InvalidArgument: if there are fewer than two workers, a setting is not valid, or the trace has fewer workers.
        TooLarge: if there is not enough memory, or by estimate it would take longer than `ERASUREHEAD_SECONDS` allows.

    >>> from erasurehead import delays
    >>> advice = plan(delays.Exponential(0.5, seed=0), n_workers=12, seconds_per_task=0.01)
    >>> advice.speed_up(advice.best) > 3
    True
    """
    check_size("n_workers", n_workers)
    check_count("max_load", max_load)
    check_late(late)
    delays = as_delays(delays)
    _check_texts(settings, current)
    _check_enough(n_workers, delays)
    if settings is None:
        settings = default_settings(n_workers, max_load, delays)
        check_effort(n_workers, len(settings), steps)  # those of `adaptive` are known by the codes that they build
        settings += adaptive_settings(n_workers, max_load, delays) if target is None else ()
    texts, uncoded, current = _beside_uncoded(settings, current)
    check_effort(n_workers, len(texts), steps)
    looked_at = max(1, min(_LOOKED_AT, _DRAWN // n_workers))
    if not seconds_per_task and _is_timeless(delays.rows(0, looked_at, n_workers)):
        raise _timeless(delays)  # checked first, as otherwise all messages would tie
    accuracy = accuracy or Accuracy()
    forecasts: dict[str, Forecast] = {}
    errors = TraceErrors(delays)
    for text in texts:
        forecasts[text] = forecast(text, n_workers, delays, seconds_per_task, target, steps, late, accuracy, errors)
        if progress is not None:
            progress(len(forecasts), len(texts))
    forecasts = dict(zip(forecasts, corrected(list(forecasts.values()), delays, late), strict=True))
    if target is None and accuracy.solver:
        deepest = min(accuracy.gap, _DEEPEST)
        for text, item in forecasts.items():
            if is_adaptive(text):
                paths = solver_paths(text, n_workers, delays, seconds_per_task, late, deepest, item.seconds_per_step)
                forecasts[text] = replace(item, paths=paths).asked(accuracy)
    if not any(item.seconds_per_step > 0.0 for item in forecasts.values()):
        raise _timeless(delays)
    return Plan(
        n_workers,
        delays,
        seconds_per_task,
        late,
        target,
        rank(forecasts.values()),
        forecasts[uncoded],
        forecasts[current] if current else None,
        accuracy,
    )


def _check_texts(settings: Sequence[str] | None, current: str | None) -> None:
    if isinstance(settings, str) or not all(isinstance(one, str) for one in (*(settings or ()), current or "")):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise invalid(
            "settings", "must be schemes as texts, like the current one", settings, "such as ['exact(load=3)']"
        )


def _check_enough(n_workers: int, delays: Delays) -> None:
    try:
        delays.check_workers(n_workers)
    except InvalidArgument as error:
        raise error.inside("delays", str(delays)) from None
    if n_workers < 2:
        raise invalid("n_workers", "must be at least 2", n_workers, "with one worker there is nobody else to wait for")


def _beside_uncoded(settings: Sequence[str], current: str | None) -> tuple[list[str], str, str | None]:
    """Return all settings once, with `uncoded()` and the current one among them, and these two as they are written."""
    texts = list(dict.fromkeys(settings))
    if not texts:
        raise invalid("settings", "must name at least one scheme", texts)
    uncoded = next((text for text in texts if text.strip() in _UNCODED), _UNCODED[0])
    if current is not None and current.strip() in _UNCODED:
        current = uncoded
    beside = [uncoded] if current is None else [uncoded, current]
    return list(dict.fromkeys([*texts, *beside])), uncoded, current


def check_effort(n_workers: int, n_settings: int = 1, steps: int | None = None) -> None:
    """Raise if a plan would by estimate take longer than allowed, before anything is built for it.

    Arguments:
        n_workers: number of workers.
        n_settings: number of settings to try.
        steps: number of steps simulated for each; None for the default.

    Raises:
        TooLarge: if so; the error says how long.
    """
    check_size("n_workers", n_workers)
    seconds = _ARRIVAL if n_workers <= _IN_CACHE else _ARRIVAL_BEYOND
    check_seconds(
        f"A plan of {counted('setting', n_settings)} for {counted('worker', n_workers)}",
        seconds * n_settings * n_workers * (LEAST if steps is None else check_count("steps", steps)),
        "simulate fewer workers, settings or steps",
    )


def _is_timeless(rows: Array) -> bool:
    """Return whether whoever answers does so at once."""
    answered = rows[np.isfinite(rows)]
    return len(answered) > 0 and not answered.any()


def _timeless(delays: Delays) -> InvalidArgument:
    return invalid(
        "delays",
        "must take some time if computing takes none",
        str(delays),
        "give the computing time of a task (seconds_per_task, --seconds-per-task)",
    )


def rank(items: Iterable[Forecast]) -> tuple[Forecast, ...]:
    """Sort forecasts by time to the target, then by time per step, steps and load.

    Of those whose times are equal to four digits, the one that needs least memory comes first. Where delays are often
    zero and computing takes no time, many settings take none at all: then the one that loses least of the gradient
    comes first. Settings that wait for workers without an answer in the trace come after those that never do, as their
    true times are not known. Where nothing is known of the data, so do those that would never reach the target on some
    other data, unless they are worth the risk.

    Arguments:
        items: the forecasts, in any order.
    """
    items = list(items)
    safe = min(
        (item for item in items if math.isfinite(item.steps_range[1]) and not item.unanswered),
        key=lambda item: item.seconds_to_target,
        default=None,
    )
    return tuple(
        sorted(
            items,
            key=lambda item: (
                math.isinf(item.seconds_to_target),
                item.unanswered > 0.0,
                safe is not None and math.isinf(item.steps_range[1]) and not _is_worth_the_risk(item, safe),
                float(f"{item.seconds_to_target:.4g}"),
                item.load if 0.0 < item.seconds_to_target < math.inf else 0,
                item.seconds_to_target,
                item.seconds_per_step,
                item.steps,
                item.load,
            ),
        )
    )


def _is_worth_the_risk(item: Forecast, safe: Forecast) -> bool:
    """Return whether a setting that never reaches the target on some data is quicker on all of them than a safe one.

    It is in the geometric mean, if it is given up there after so many times what it was to take, for the safe one.
    """
    if not item.steps_elsewhere or not 0.0 < safe.seconds_to_target < math.inf:
        return False
    steps = safe.steps_elsewhere or (safe.steps,) * len(item.steps_elsewhere)
    others = [count * safe.seconds_per_step for count in steps]
    times = [count * item.seconds_per_step for count in item.steps_elsewhere]
    lost = _GIVEN_UP * item.seconds_to_target
    ratios = [(time if time < math.inf else lost + other) / other for time, other in zip(times, others, strict=True)]
    return 0.0 < math.prod(ratios) < 1.0

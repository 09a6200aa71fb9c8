"""Which code, how much redundancy, how long to wait, and what will it buy: settings simulated and ranked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from erasurehead.delays.base import Delays
from erasurehead.engines.base import LateWork, check_late
from erasurehead.errors import InvalidArgument, check_count, invalid
from erasurehead.planning.accuracy import Accuracy
from erasurehead.planning.forecasts import Forecast, Target, forecast, mean_error
from erasurehead.planning.settings import default_settings

_LOOKED_AT = 256  # steps that are looked at for any delay at all


@dataclass(frozen=True, eq=False)
class Plan:
    """Settings, best first.

    Attributes:
        n_workers: how many workers.
        delays: how slow they are.
        seconds_per_task: computing time of a task.
        late: what a worker does that is busy when the next order is out.
        target: what is to be reached; None if times are relative.
        ranked: every setting with its forecast, by time to the target, then by time per step.
        uncoded: the forecast of `uncoded()`.
        current: the forecast of the setting in use now; None if none was named.
        accuracy: what is to be reached, and what the data are taken to be like, where there is no target.
    """

    n_workers: int
    delays: Delays
    seconds_per_task: float
    late: LateWork
    target: Target | None
    ranked: tuple[Forecast, ...]
    uncoded: Forecast
    current: Forecast | None
    accuracy: Accuracy = field(default_factory=Accuracy)

    @property
    def best(self) -> Forecast:
        """The first of the ranking."""
        return self.ranked[0]

    @property
    def front(self) -> tuple[Forecast, ...]:
        """The Pareto front: settings such that none loses less of the gradient in less time, fastest first."""
        front: list[Forecast] = []
        for item in sorted(self.ranked, key=lambda item: (item.seconds_per_step, item.missing)):
            if math.isfinite(item.seconds_per_step) and (not front or item.missing < front[-1].missing - 1e-12):
                front.append(item)
        return tuple(front)

    @property
    def distinct(self) -> tuple[Forecast, ...]:
        """The ranking without settings that did in every simulated step what one before them does with its load."""
        seen: dict[tuple[int, float, float, bytes], Forecast] = {}
        for item in self.ranked:
            seen.setdefault((item.load, item.missing, item.steps, item.scores.tobytes()), item)
        return tuple(seen.values())

    @property
    def reached(self) -> bool:
        """Whether any setting reaches the target."""
        return math.isfinite(self.best.seconds_to_target)

    def for_accuracy(self, accuracy: Accuracy) -> Plan:
        """Return the plan for another target, or other data: the same steps, of which other numbers are needed."""
        known = {item.setting: item.asked(accuracy) for item in self.ranked}
        return replace(self, accuracy=accuracy, target=None).of(known)

    def of(self, known: Mapping[str, Forecast]) -> Plan:
        """Return the plan with other forecasts of its settings, ranked anew.

        Arguments:
            known: by setting, all of them.
        """
        return replace(
            self,
            ranked=rank(known.values()),
            uncoded=known[self.uncoded.setting],
            current=None if self.current is None else known[self.current.setting],
        )

    def with_order(self, ranked: Sequence[Forecast]) -> Plan:
        """Return the plan with its settings in another order."""
        return replace(self, ranked=tuple(ranked))

    def speed_up(self, item: Forecast, over: Forecast | None = None) -> float:
        """Return how many times sooner a setting reaches the target than another, by default than uncoded."""
        other = (self.uncoded if over is None else over).seconds_to_target
        if item.seconds_to_target == 0.0:
            return 1.0 if other == 0.0 else math.inf
        return other / item.seconds_to_target if math.isfinite(item.seconds_to_target) else 0.0

    def steps_of(self, item: Forecast) -> float:
        """Return how many steps a setting takes to the target: not in the unit of `Forecast.steps`, if that is another.

        Where there are neither constants nor trials on data, exact descent is taken to go at the pace of `accuracy`.
        """
        relative = self.target is None and item.exact_steps == 1.0
        return item.steps * self.accuracy.exact_steps if relative else item.steps

    def distinguishable(self, one: Forecast, other: Forecast) -> bool:
        """Whether the delays tell two settings apart with 95% certainty, both having met the same delays."""
        if math.isinf(one.seconds_to_target) or math.isinf(other.seconds_to_target):
            return one.seconds_to_target != other.seconds_to_target
        n = min(len(one.scores), len(other.scores))
        difference = one.scores[:n] * one.steps - other.scores[:n] * other.steps
        return abs(float(difference.mean())) > 1.96 * mean_error(difference, self.delays, self.late)

    def as_good(self) -> tuple[Forecast, ...]:
        """Return the distinct settings that the delays cannot tell from the best, the best among them."""
        return tuple(item for item in self.distinct if item is self.best or not self.distinguishable(self.best, item))

    def run_file(self, item: Forecast | None = None, **sections: Mapping[str, Any]) -> dict[str, Any]:
        """Return what `erasurehead train` takes as a run file; `erasurehead.runs.config.toml.to_toml` writes it.

        Arguments:
            item: the setting; by default the best.
            sections: further sections, or keys that go over the planned ones, such as `run={"steps": 200}`.
        """
        planned: dict[str, dict[str, Any]] = {
            "delays": {"model": str(self.delays), "late": self.late},
            "run": {"workers": self.n_workers, "seconds_per_task": self.seconds_per_task},
        }
        for name, section in sections.items():
            planned[name] = {**planned.get(name, {}), **section}
        return {"scheme": (item or self.best).setting, **planned}


def plan(
    delays: Delays,
    n_workers: int,
    seconds_per_task: float = 0.0,
    settings: Sequence[str] | None = None,
    target: Target | None = None,
    current: str | None = None,
    max_load: int = 10,
    steps: int | None = None,
    late: LateWork = "preempt",
    accuracy: Accuracy | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Plan:
    """Try settings on simulated delays, the same for all of them, and rank them.

    Arguments:
        delays: how slow the workers are: a model, or `delays.Bootstrap` of a trace.
        n_workers: how many, at least 2.
        seconds_per_task: computing time of a task, with one task a worker in uncoded training; where the delays are a
            trace of whole step times, what another task would add.
        settings: schemes as run files write them; by default `default_settings`.
        target: an error to reach, with the constants of the objective.
        current: the setting in use now, to compare with.
        max_load: of the default settings.
        steps: simulated for each setting; by default as `forecast` has it.
        late: what a worker does that is busy when the next order is out: `"preempt"` drops the old work, and is
            simulated at full speed; `"carry"` finishes it first, `"drop(3)"` unless it is more than three rounds old.
        accuracy: what is to be reached where there is no target, and what the data are like; times are then relative
            to one step of exact descent. By default `Accuracy()`.
        progress: called after each setting with how many are done, and of how many.

    Raises:
        InvalidArgument: fewer than two workers, a setting that is none, or a trace of fewer workers.

    >>> from erasurehead import delays
    >>> found = plan(delays.Exponential(0.5, seed=0), n_workers=30, seconds_per_task=0.01)
    >>> found.speed_up(found.best) > 3
    True
    """
    check_count("n_workers", n_workers)
    check_count("max_load", max_load)
    check_late(late)
    try:
        delays.check_workers(n_workers)
    except InvalidArgument as error:
        raise error.inside("delays", str(delays)) from None
    if n_workers < 2:
        raise invalid("n_workers", "must be at least 2", n_workers, "one worker has nobody to wait for")
    texts = list(dict.fromkeys(settings if settings is not None else default_settings(n_workers, max_load)))
    if not texts:
        raise invalid("settings", "must name at least one scheme", texts)
    for text in ("uncoded()", current):
        if text is not None and text not in texts:
            texts.append(text)
    if not seconds_per_task and not delays.rows(0, _LOOKED_AT, n_workers).any():
        raise _timeless(delays)  # before all messages of all settings tie
    accuracy = accuracy or Accuracy()
    known: dict[str, Forecast] = {}
    for text in texts:
        known[text] = forecast(text, n_workers, delays, seconds_per_task, target, steps, late, accuracy)
        if progress is not None:
            progress(len(known), len(texts))
    if not any(item.seconds_per_step > 0.0 for item in known.values()):
        raise _timeless(delays)
    return Plan(
        n_workers,
        delays,
        seconds_per_task,
        late,
        target,
        rank(known.values()),
        known["uncoded()"],
        known[current] if current else None,
        accuracy,
    )


def _timeless(delays: Delays) -> InvalidArgument:
    return invalid(
        "delays", "must take some time, or computing must", str(delays),
        "say what a task takes (seconds_per_task, --seconds-per-task)",
    )  # fmt: skip


def rank(items: Iterable[Forecast]) -> tuple[Forecast, ...]:
    """Return forecasts by time to the target, then by time per step and load.

    Settings that wait for workers which did not answer come behind those that never do: how long that takes, nobody
    has seen.
    """
    return tuple(
        sorted(
            items,
            key=lambda item: (
                math.isinf(item.seconds_to_target),
                item.unanswered > 0.0,
                item.seconds_to_target,
                item.seconds_per_step,
                item.load,
            ),
        )
    )

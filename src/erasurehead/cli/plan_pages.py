"""What `erasurehead plan` prints: a plan as plain data, as a table, and what limits each of its settings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from erasurehead.planning import Forecast, Plan, Trial, explain, limits, remarks
from erasurehead.reports.units import NOTHING, Unit, byte_unit, time_unit

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Page:
    """A plan with what was learned from data, if there were any.

    Arguments:
        plan: ranked; where there were trials, after them.
        trials: of its settings on the data.
        goal: metric and value that the trials were to reach.
        bytes_of_data: of all training samples, as a worker holds them; None without data.
        n_parameters: of the model; None without data.
    """

    plan: Plan
    trials: tuple[Trial, ...] = ()
    goal: tuple[str, float] | None = None
    bytes_of_data: int | None = None
    n_parameters: int | None = None

    def trial(self, item: Forecast) -> Trial | None:
        """Return what a setting came to on the data; None if it was not tried."""
        return next((trial for trial in self.trials if trial.setting == item.setting), None)

    def speed_up(self, item: Forecast, over: Forecast) -> float:
        """Return how many times sooner a setting reaches the target: as tried, where both were, else as predicted."""
        one, other = self.trial(item), self.trial(over)
        if one is None or other is None:
            return self.plan.speed_up(item, over)
        return other.median / one.median if math.isfinite(one.median) else 0.0

    def listed(self, top: int) -> tuple[Forecast, ...]:
        """Return the first distinct settings, and further down those that were tried, uncoded and the current one."""
        plan = self.plan
        first = {item.setting for item in plan.distinct[:top]}
        also = {plan.uncoded.setting, *(trial.setting for trial in self.trials)}
        also |= set() if plan.current is None else {plan.current.setting}
        return tuple(item for item in plan.ranked if item.setting in first | also)


def facts(page: Page) -> dict[str, Any]:
    """Return a plan as plain data: every setting, best first."""
    plan = page.plan
    front = {item.setting for item in plan.front}
    return {
        "workers": plan.n_workers,
        "delays": str(plan.delays),
        "late": plan.late,
        "seconds_per_task": plan.seconds_per_task,
        "best": plan.best.setting,
        "goal": None if page.goal is None else {"metric": page.goal[0], "value": page.goal[1]},
        "error": None if plan.target is None else plan.target.epsilon,
        "advice": explain(plan, page.trials, page.goal).splitlines(),
        "as_good": [item.setting for item in plan.as_good()],
        "settings": [_row(page, place, item, item.setting in front) for place, item in enumerate(plan.ranked, 1)],
    }


def _row(page: Page, place: int, item: Forecast, on_front: bool) -> dict[str, Any]:
    plan, trial = page.plan, page.trial(item)
    return {
        "place": place,
        "setting": item.setting,
        "load": item.load,
        "seconds_per_step": item.seconds_per_step,
        "standard_error": item.error,
        "missing": item.missing,
        "arrived": item.arrived,
        "steps": item.steps,
        "seconds_to_target": item.seconds_to_target,
        "band": list(item.band),
        "speed_up_over_uncoded": page.speed_up(item, plan.uncoded),
        "speed_up_over_current": None if plan.current is None else page.speed_up(item, plan.current),
        "share_of_data": item.share_of_data,
        "bytes_of_data": None if page.bytes_of_data is None else round(item.share_of_data * page.bytes_of_data),
        "messages": item.messages,
        "bytes_sent": None if page.n_parameters is None else item.bytes_per_worker(page.n_parameters),
        "pareto": on_front,
        "limits": limits(plan, item),
        "trial": None if trial is None else {
            "seconds": trial.median, "band": list(trial.band), "reached": trial.reached, "final": list(trial.final)
        },
    }  # fmt: skip


def table(page: Page, top: int) -> Table:
    """Return the ranking as a table: the first settings, uncoded and the current one, and those tried."""
    from rich import box
    from rich.table import Table

    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    columns = _columns(page, page.listed(top))
    for header, _ in columns:
        shown.add_column(header, justify="left" if header == "Setting" else "right", overflow="fold")
    for cells in zip(*(cells for _, cells in columns), strict=True):
        shown.add_row(*map(_plain, cells))
    return shown


def _columns(page: Page, items: Sequence[Forecast]) -> list[tuple[str, list[str]]]:
    plan = page.plan
    step = time_unit([item.seconds_per_step for item in items])
    whole = time_unit([item.seconds_to_target for item in items])
    what = "To target" if plan.target is not None else "To progress\nof 1 step"
    columns = [
        ("", [_place(plan, item) for item in items]),
        ("Setting", [item.setting for item in items]),
        (f"Per step\n({step.name})", [_write(step, item.seconds_per_step) for item in items]),
        ("Gradient\nlost (%)", [f"{100 * item.missing:.1f}" for item in items]),
        (f"{what}\n({whole.name})", [_write(whole, item.seconds_to_target) for item in items]),
        ("95% band", [_band(whole, item.band) for item in items]),
    ]
    if page.goal is not None:
        tried = [page.trial(item) for item in items]
        unit = time_unit([None if trial is None else trial.median for trial in tried])
        header = f"To {page.goal[0]}\n{page.goal[1]:g} ({unit.name})"
        columns.append((header, ["" if trial is None else _write(unit, trial.median) for trial in tried]))
        columns.append(("range", ["" if trial is None else _band(unit, trial.band) for trial in tried]))
    columns.append(("× un-\ncoded", [f"{page.speed_up(item, plan.uncoded):.3g}" for item in items]))
    if plan.current is not None:
        columns.append(("× cur-\nrent", [f"{page.speed_up(item, plan.current):.3g}" for item in items]))
    return columns + _sizes(page, items)


def _sizes(page: Page, items: Sequence[Forecast]) -> list[tuple[str, list[str]]]:
    if page.bytes_of_data is None or page.n_parameters is None:
        sent = [f"{item.messages / item.pieces:.3g} gradient" for item in items]
        return [("Data a\nworker", [f"{item.share_of_data:.1%}" for item in items]), ("Sends\na step", sent)]
    held = [item.share_of_data * page.bytes_of_data for item in items]
    sent = [float(item.bytes_per_worker(page.n_parameters)) for item in items]
    memory, network = byte_unit(held), byte_unit(sent)
    return [
        (f"Data a worker\n({memory.name})", [memory.write(value) for value in held]),
        (f"Sends a step\n({network.name})", [network.write(value) for value in sent]),
    ]


def why(page: Page, top: int) -> str:
    """Return what limits each setting of the table, a line each."""
    plan = page.plan
    lines = [f"  {_place(plan, item):>3}  {limits(plan, item)}" for item in page.listed(top)]
    return "\n".join(["What limits each:", *lines])


def doubts(page: Page) -> tuple[str, ...]:
    """Return what a user should know before relying on the plan."""
    return remarks(page.plan, page.trials, page.goal)


def _place(plan: Plan, item: Forecast) -> str:
    return f"{plan.ranked.index(item) + 1}"


def _write(unit: Unit, value: float) -> str:
    return "never" if math.isinf(value) else f"{value / unit.size:.4g}"


def _band(unit: Unit, ends: tuple[float, float]) -> str:
    low, high = ends
    if math.isinf(low):
        return NOTHING
    return f"{_write(unit, low)} to {'?' if math.isinf(high) else _write(unit, high)}"


def _plain(text: str) -> Any:
    from rich.text import Text

    return Text(text)

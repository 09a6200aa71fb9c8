"""Pages of `erasurehead plan`: a plan as plain data, as a table and as sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from erasurehead.planning import (
    Forecast,
    Plan,
    Trial,
    by_case,
    explain,
    if_worse,
    in_short,
    limits,
    remarks,
    speed_up_range,
)
from erasurehead.planning.explanations import share_text
from erasurehead.planning.forecasts import trace_rounds
from erasurehead.planning.trials import took
from erasurehead.planning.what_if import nothing_said
from erasurehead.reports.units import NOTHING, Unit, byte_unit, time_unit

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Page:
    """A plan with the results of trials on data, if there were any.

    Arguments:
        plan: the plan; if there were trials, ranked by them.
        trials: trials of its settings on the data.
        goal: metric and value that the trials were to reach.
        bytes_of_data: size of all training samples in a worker's memory, in bytes; None without data.
        n_parameters: number of parameters of the model; None without data.
        rows: number of rows in the sample for trials, and in the training data; None without data.
        asked: whether the user gave both a target and the task noise of the data.
        known_from: source of the cost of a task: see `Cost`.
        costs: sentences on what a user should know about that cost.
    """

    plan: Plan
    trials: tuple[Trial, ...] = ()
    goal: tuple[str, float] | None = None
    bytes_of_data: int | None = None
    n_parameters: int | None = None
    rows: tuple[int, int] | None = None
    asked: bool = False
    known_from: str | None = None
    costs: tuple[str, ...] = ()

    @property
    def reached(self) -> bool:
        """Whether any setting reaches the target, so that one can be advised."""
        if self.trials:
            return math.isfinite(self.trials[0].median_steps)
        return self.plan.reached

    def trial(self, item: Forecast) -> Trial | None:
        """Return the trial of a setting; None if it was not tried."""
        return next((trial for trial in self.trials if trial.setting == item.setting), None)

    def speed_up(self, item: Forecast, over: Forecast) -> float:
        """Return the speed-up of a setting over another; NaN if either was not tried, or its own trials were ended.

        Arguments:
            item: forecast of the setting.
            over: forecast of the setting to compare with.
        """
        one, other = self.trial(item), self.trial(over)
        if self.trials and (one is None or other is None or one.unfinished):
            return math.nan
        return self.plan.speed_up(item, over)

    def listed(self, top: int) -> tuple[Forecast, ...]:
        """Return the first distinct settings, followed by those that were tried, uncoded and the current one.

        Arguments:
            top: number of the first settings.
        """
        plan = self.plan
        first = {item.setting for item in plan.distinct[:top]}
        differ = {item.setting for item in plan.distinct}
        also = {plan.uncoded.setting, *(trial.setting for trial in self.trials if trial.setting in differ)}
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
        "seconds_per_task_from": page.known_from,
        "best": plan.best.setting if page.reached else None,
        "goal": None if page.goal is None else {"metric": page.goal[0], "value": page.goal[1]},
        "error": None if plan.target is None else plan.target.epsilon,
        "advice": explain(plan, page.trials, page.goal).splitlines(),
        "accuracy": {"gap": plan.accuracy.gap, "task_noise": plan.accuracy.noise},
        "effective_rounds": trace_rounds(plan.delays),
        "rows": None if page.rows is None else {"tried": page.rows[0], "of": page.rows[1]},
        "cases": [
            {
                "data": kind,
                "gap": accuracy.gap,
                "task_noise": accuracy.noise,
                "best": item.setting if math.isfinite(item.steps) else None,
                "seconds": item.seconds_to_target,
            }
            for kind, accuracy, item in (by_case(plan) if _by_case(page) else ())
        ],
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
        "steps_bound": item.bound,
        "least_counted": item.least_counted,
        "never_counted": list(item.neglected),
        "unanswered": item.unanswered,
        "seconds_to_target": item.seconds_to_target,
        "band": list(item.band),
        "speed_up_over_uncoded": page.speed_up(item, plan.uncoded),
        "speed_up_over_uncoded_range": None
        if math.isnan(page.speed_up(item, plan.uncoded))
        else list(speed_up_range(plan, item, plan.uncoded, page.trials)),
        "speed_up_over_current": None if plan.current is None else page.speed_up(item, plan.current),
        "share_of_data": item.share_of_data,
        "bytes_of_data": None if page.bytes_of_data is None else round(item.share_of_data * page.bytes_of_data),
        "messages": item.messages,
        "bytes_sent": None if page.n_parameters is None else item.bytes_per_worker(page.n_parameters),
        "pareto": on_front,
        "limits": limits(plan, item),
        "trial": None
        if trial is None
        else {
            "seconds": took(item, trial),
            "steps": trial.expected_steps,
            "band": list(_range(item, trial)),
            "reached": trial.reached,
            "final": list(trial.final),
            "given_up": trial.given_up,
        },
    }


def table(page: Page, top: int) -> Table:
    """Return the ranking as a table: the first settings, those that were tried, uncoded and the current one.

    Arguments:
        page: the plan.
        top: number of the first settings.
    """
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
    what = "To target" if plan.target is not None else "As 1 exact\nstep"
    columns = [
        ("", [f"{place}" for place in _places(plan, items)]),
        ("Setting", [item.setting for item in items]),
        (f"Per step\n({step.name})", [_write(step, item.seconds_per_step) for item in items]),
        ("Gradient\nlost (%)", [f"{100 * item.missing:.1f}" for item in items]),
    ]
    if page.goal is None:
        columns.append((f"{what}\n({whole.name})", [_write(whole, item.seconds_to_target) for item in items]))
        columns.append(("95% band", [_band(whole, item.band) for item in items]))
    else:
        tried = [page.trial(item) for item in items]
        times = [None if trial is None else took(item, trial) for item, trial in zip(items, tried, strict=True)]
        unit = time_unit(times)
        header = f"To {page.goal[0]}\n{page.goal[1]:g} ({unit.name})"
        columns.append((header, [_time(unit, *pair) for pair in zip(times, items, tried, strict=True)]))
        pairs = list(zip(items, tried, strict=True))
        columns.append(
            (
                "range",
                [
                    "" if trial is None or trial.unfinished else _band(unit, _range(item, trial))
                    for item, trial in pairs
                ],
            )
        )
    if plan.target is not None:
        bounds = [item.bound * item.seconds_per_step for item in items]
        columns.append((f"Theorem 1:\nat most ({whole.name})", [_write(whole, seconds) for seconds in bounds]))
    columns.append(("× un-\ncoded", [_times(page.speed_up(item, plan.uncoded)) for item in items]))
    if plan.current is not None:
        columns.append(("× cur-\nrent", [_times(page.speed_up(item, plan.current)) for item in items]))
    return columns + _sizes(page, items)


def _sizes(page: Page, items: Sequence[Forecast]) -> list[tuple[str, list[str]]]:
    if page.bytes_of_data is None or page.n_parameters is None:
        sent = [f"{item.messages / item.pieces:.3g} gradient" for item in items]
        return [("Data per\nworker", [share_text(item.share_of_data) for item in items]), ("Sent per\nstep", sent)]
    held = [item.share_of_data * page.bytes_of_data for item in items]
    sent = [float(item.bytes_per_worker(page.n_parameters)) for item in items]
    memory, network = byte_unit(held), byte_unit(sent)
    return [
        (f"Data per worker\n({memory.name})", [memory.write(value) for value in held]),
        (f"Sent per step\n({network.name})", [network.write(value) for value in sent]),
    ]


def why(page: Page, top: int) -> str:
    """Return what limits each setting of the table, one line per setting.

    Arguments:
        page: the plan.
        top: number of the first settings, as in `table`.
    """
    plan = page.plan
    items = page.listed(top)
    places = _places(plan, items)
    lines = [f"  {place:>3}  {_limits(page, item)}" for place, item in zip(places, items, strict=True)]
    return "\n".join(["What limits each:", *lines])


def _limits(page: Page, item: Forecast) -> str:
    said, trial = limits(page.plan, item), page.trial(item)
    if trial is None or not trial.unfinished:
        return said
    return f"{said} Its trials were ended early, because others were far quicker."


def caveats(page: Page) -> tuple[str, ...]:
    """Return sentences on what a user should know before relying on the plan."""
    return remarks(page.plan, page.trials, page.goal)


def beyond(page: Page) -> tuple[str, ...]:
    """Return sentences on the assumed computing cost, and on what the rest of the data or worse delays may change."""
    said = list(page.costs)
    if page.rows is not None and page.rows[0] < page.rows[1] and page.trials:
        said.append(
            f"Trials were made on a sample of {page.rows[0]:,} of {page.rows[1]:,} rows (--sample); training on "
            "all of them may take more steps or fewer."
        )
    if not page.trials:
        item, share = nothing_said(page.plan)
        if share > 0.0:
            said.append(
                f"By default, train uses {item.setting} ({item.seconds_per_step:.4g} s a step), whose optimizer "
                f"chooses its step sizes itself. It is quicker if it needs less than {_percent(share)} of the steps "
                "of exact gradient descent; add --data to measure that."
            )
    worse = if_worse(page.plan)
    if worse.best.setting == worse.advised.setting:
        compared = "would still be the best choice"
    else:
        compared = f"would need {worse.longer} to the target as the best choice in that case, {worse.best.setting}"
    said.append(
        "If delays exceeded their median by twice as much, the recommended setting would take "
        f"{worse.advised.seconds_per_step:.4g} s a step, and {compared}."
    )
    return tuple(said)


def nothing(page: Page) -> tuple[str, ...]:
    """Return sentences on why nothing is advised, how close the best setting gets, and what would reach the target."""
    sample = ""
    if page.rows is not None and page.rows[0] < page.rows[1]:
        sample = f" Trials were made on a sample of {page.rows[0]:,} of {page.rows[1]:,} rows (--sample)."
    said = list(remarks(page.plan, page.trials, page.goal))
    return "No setting is recommended, and no run file is written." + sample, *said, *page.costs


def three_sentences(page: Page) -> tuple[str, ...]:
    """Return sentences on why the best setting is chosen, what would change that, and what the plan does not know."""
    return "", *in_short(page.plan, page.trials, page.goal)


def _by_case(page: Page) -> bool:
    return page.goal is None and page.plan.target is None and not page.asked


def cases(page: Page) -> tuple[str, ...]:
    """Return the best setting for several targets and kinds of data, as lines; empty if the user gave both."""
    if not _by_case(page):
        return ()
    lines = ["", "The best setting for other targets and data (--target gap=..., --task-noise ...):"]
    for kind, accuracy, item in by_case(page.plan):
        best = item.setting if math.isfinite(item.steps) else "no setting that was tried"
        lines.append(f"  gap={accuracy.gap:<6g} {kind:<22} (--task-noise {accuracy.noise:g}): {best}")
    return tuple(lines)


def _range(item: Forecast, trial: Trial) -> tuple[float, float]:
    low, high = (
        steps * item.seconds_per_step if math.isfinite(steps) else math.inf
        for steps in (min(trial.steps), max(trial.steps))
    )
    return low, high


def _places(plan: Plan, items: Sequence[Forecast]) -> list[int]:
    """Return places among distinct settings, without gaps; settings that behave alike share a place."""
    place: dict[str, int] = {}
    ahead = 0
    alike = {(item.load, item.missing, item.steps, item.scores.tobytes()): item for item in reversed(plan.ranked)}
    for item in plan.ranked:
        first = alike[item.load, item.missing, item.steps, item.scores.tobytes()]
        if first is item:
            ahead += 1
            place[item.setting] = ahead
        else:
            place[item.setting] = place[first.setting]
    return [place[item.setting] for item in items]


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g}%" if share < 0.1 else f"{share:,.0%}"


def _times(factor: float) -> str:
    if math.isnan(factor):
        return NOTHING
    return "never" if factor == 0.0 else "∞" if math.isinf(factor) else f"{factor:.3g}"


def _time(unit: Unit, seconds: float | None, item: Forecast, trial: Trial | None) -> str:
    if seconds is None or trial is None:
        return ""
    return f"> {_write(unit, trial.ended_at * item.seconds_per_step)}" if trial.unfinished else _write(unit, seconds)


def _write(unit: Unit, value: float) -> str:
    return "never" if math.isinf(value) else NOTHING if math.isnan(value) else f"{value / unit.size:.4g}"


def _band(unit: Unit, ends: tuple[float, float]) -> str:
    low, high = ends
    if math.isinf(low):
        return NOTHING
    return f"{_write(unit, low)} to {'?' if math.isinf(high) else _write(unit, high)}"


def _plain(text: str) -> Any:
    from rich.text import Text

    return Text(text)

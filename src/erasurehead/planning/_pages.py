"""What notebooks show of a plan: its first settings, uncoded, and the setting in use."""

from __future__ import annotations

from erasurehead.errors import counted
from erasurehead.planning._planner import Plan
from erasurehead.reports._rendering import Column, as_html, measured_column
from erasurehead.reports._units import plain_unit, time_unit

_FIRST = 8


def plan_page(plan: Plan) -> str:
    """Return the ranking of a plan as HTML."""
    shown = {item.setting for item in (plan.uncoded, plan.current, *plan.distinct[:_FIRST]) if item is not None}
    items = [item for item in plan.ranked if item.setting in shown]
    target = ("As 1 exact", "step") if plan.target is None else ("To the", "target")
    columns = [
        Column(("Setting",), [item.setting for item in items]),
        measured_column(("Time per", "step"), [item.seconds_per_step for item in items], time_unit),
        Column(("Gradient", "lost (%)"), [f"{100 * item.missing:.1f}" for item in items]),
        measured_column(target, [item.seconds_to_target for item in items], time_unit),
        measured_column(("Speed-up", "over uncoded"), [plan.speed_up(item) for item in items], plain_unit, "×"),
    ]
    title = f"Plan for {counted('worker', plan.n_workers)}, {plan.delays}, late work: {plan.late}"
    return as_html(columns, [f"The best of {counted('setting', len(plan.ranked))}. –: never."], title)

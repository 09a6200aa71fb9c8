"""The figure of a plan: time per step and lost gradient of every setting, and the first settings of the ranking."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from erasurehead.errors import counted
from erasurehead.planning._forecasts import Forecast
from erasurehead.planning._planner import Plan
from erasurehead.planning._trials import Trial
from erasurehead.reports import _canvas as canvas
from erasurehead.reports._canvas import FAINT, INK, Axes, scheme_style
from erasurehead.reports._units import Unit, time_unit

_BARS = 8
_LATE = {"preempt": "dropped", "carry": "carried on"}
_WIDE = 20.0  # ratio of the longest to the shortest time above which the axis is logarithmic


def draw_plan(
    plan: Plan,
    folder: Path | str,
    formats: Sequence[str] = ("png", "svg"),
    trials: Sequence[Trial] = (),
    goal: tuple[str, float] | None = None,
) -> list[Path]:
    """Draw a plan as the figure `tradeoff`: residual against time per step, next to the time to the target.

    Arguments:
        plan: the plan.
        folder: folder for the files, created if it does not exist.
        formats: file formats, among `"png"`, `"svg"` and `"pdf"`.
        trials: trials of its settings on data, if any; their times to the target replace the predicted ones.
        goal: metric and value that the trials were to reach.

    Returns:
        The files written.

    Raises:
        InvalidArgument: if a format is not known, or the folder cannot be created.
        MissingExtra: if matplotlib is not installed.
    """
    formats = canvas.check_formats(formats)
    with canvas.drawing():
        place = canvas.prepare_folder(folder)
        count = f"{counted('setting', len(plan.ranked))} for {counted('worker', plan.n_workers)}"
        figure = canvas.new_figure(11.0, 5.4, f"Plan: {count}, late work {_LATE.get(plan.late, plan.late)}")
        left, right = figure.subplots(1, 2, width_ratios=(1.25, 1.0))
        draw_tradeoff(left, plan)
        if trials and goal is not None:
            draw_trials(right, plan, trials, goal)
        else:
            draw_ranking(right, plan)
        keys = left.get_legend_handles_labels()
        figure.legend(
            *keys, loc="outside lower left", ncols=6, title="Scheme; larger dots: more load", alignment="left"
        )
        return canvas.save(figure, place, "tradeoff", formats)


def plot_plan(plan: Plan, ax: Axes | None, kind: str) -> Axes:
    """Draw a plan: see `Plan.plot`."""

    def tradeoff(axes: Axes) -> None:
        draw_tradeoff(axes, plan)
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), title="Larger dots: more load", alignment="left")

    drawings = {"ranking": partial(draw_ranking, plan=plan), "tradeoff": tradeoff}
    return canvas.plot(ax, kind, drawings, (8.0, 5.0))


def draw_tradeoff(axes: Axes, plan: Plan) -> None:
    """Draw the residual against the time per step, with a line through the Pareto front.

    Arguments:
        axes: where to draw.
        plan: the plan.
    """
    shown = [item for item in plan.ranked if math.isfinite(item.seconds_per_step)]
    unit = time_unit([item.seconds_per_step for item in shown])
    for kind in dict.fromkeys(map(_kind, shown)):
        own = [item for item in shown if _kind(item) == kind]
        style = scheme_style(kind)
        axes.scatter(
            [item.seconds_per_step / unit.size for item in own],
            [100 * item.missing for item in own],
            s=[14 + 6 * item.load for item in own],
            color=style.colour,
            marker=style.marker,
            alpha=0.6,
            linewidth=0,
            label=kind.replace("_", " "),
        )
    front = plan.front
    axes.plot(
        [item.seconds_per_step / unit.size for item in front],
        [100 * item.missing for item in front],
        color=INK,
        linewidth=1.0,
        marker=".",
        markersize=4,
        zorder=3,
        label="Pareto front",
    )
    if shown and max(item.seconds_per_step for item in shown) > _WIDE * min(item.seconds_per_step for item in shown):
        axes.set_xscale("log")
        canvas.plain_ticks(axes.xaxis)
    top = max((100 * item.missing for item in shown), default=0.0)
    axes.set_ylim(-0.04 * max(top, 1.0), 1.12 * max(top, 1.0))
    _name(axes, plan, unit.size)
    axes.grid(color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.set_xlabel(f"time per step ({unit.name})")
    axes.set_ylabel("gradient lost: residual / tasks (%)")
    axes.set_title("What a step costs, and what it loses")


def draw_ranking(axes: Axes, plan: Plan) -> None:
    """Draw the predicted time to the target of the first settings, of uncoded, and of the current setting.

    Arguments:
        axes: where to draw.
        plan: the plan.
    """
    chosen = _first(plan)
    unit = time_unit([item.seconds_to_target for item in chosen])
    _bars(axes, [(item.setting, item.seconds_to_target, item.band) for item in chosen], unit, plan.best.setting)
    what = "time to the target" if plan.target is not None else "time for the progress of one exact step"
    axes.set_xlabel(f"{what} ({unit.name})")
    axes.set_title("Predicted mean, and its 95% band")


def draw_trials(axes: Axes, plan: Plan, trials: Sequence[Trial], goal: tuple[str, float]) -> None:
    """Draw the time to the target of settings that were tried on data.

    Arguments:
        axes: where to draw.
        plan: the plan.
        trials: the trials, in the order in which to draw them.
        goal: metric and value that the trials were to reach.
    """
    shown = [trial for trial in trials if not trial.given_up][:_BARS]
    unit = time_unit([trial.median for trial in shown])
    _bars(axes, [(trial.setting, trial.median, trial.band) for trial in shown], unit, plan.best.setting)
    axes.set_xlabel(f"time to {goal[0]} {goal[1]:g} ({unit.name})")
    axes.set_title("Tried on the data: median and range")


def _bars(axes: Axes, bars: Sequence[tuple[str, float, tuple[float, float]]], unit: Unit, best: str) -> None:
    """Draw times with their bands, one below the other; as dots if bars would hide how the short times differ."""
    times = [middle for _, middle, _ in bars if 0.0 < middle < math.inf]
    ends = [end for _, _, band in bars for end in band if math.isfinite(end)]
    wide = bool(times) and max(times) > _WIDE * min(times)
    end = max([*ends, *times], default=unit.size)
    low_end = 0.5 * min(times) if wide else 0.0
    for place, (name, middle, (low, high)) in enumerate(bars):
        style = scheme_style(name)
        if not math.isfinite(middle):
            axes.annotate(" not reached", (0.0, place), xycoords=("axes fraction", "data"), va="center", fontsize=9)
            continue
        strength = 0.85 if name == best else 0.45
        if wide:
            axes.plot(middle / unit.size, place, style.marker, color=style.colour, markersize=9, alpha=strength)
        else:
            axes.barh(place, middle / unit.size, color=style.colour, alpha=strength, height=0.7)
        band = max(low, low_end) / unit.size, min(high, 1.3 * end) / unit.size  # unbounded bands are cut
        axes.plot(band, [place, place], color=INK, linewidth=1.4)
    axes.set_yticks(range(len(bars)), [_short(name) for name, _, _ in bars], fontsize=9)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.grid(color=FAINT, linewidth=0.5, axis="x")
    axes.set_axisbelow(True)
    if wide:
        axes.set_xscale("log")
        axes.set_xlim(low_end / unit.size, 1.3 * end / unit.size)
        canvas.plain_ticks(axes.xaxis)
    else:
        axes.set_xlim(0.0, 1.08 * end / unit.size)


def _name(axes: Axes, plan: Plan, size: float) -> None:
    """Label the points of the best setting, of uncoded and of the current setting."""
    named = {"best": plan.best, "uncoded": plan.uncoded} | ({} if plan.current is None else {"current": plan.current})
    texts: dict[str, list[str]] = {}
    for label, item in named.items():
        texts.setdefault(item.setting, []).append(label)
    for item in {item.setting: item for item in named.values()}.values():
        if not math.isfinite(item.seconds_per_step):
            continue
        at = item.seconds_per_step / size, 100 * item.missing
        axes.plot(*at, "o", markersize=11, markerfacecolor="none", markeredgecolor=INK, markeredgewidth=1.2)
        label, right = (
            ", ".join(texts[item.setting]),
            axes.transData.transform(at)[0] > axes.bbox.x0 + axes.bbox.width / 2,
        )
        axes.annotate(
            label,
            at,
            textcoords="offset points",
            xytext=(-7 if right else 7, 8),
            ha="right" if right else "left",
            fontsize=9.5,
            color=INK,
        )


def _first(plan: Plan) -> list[Forecast]:
    chosen = list(plan.distinct[:_BARS])
    for item in (plan.current, plan.uncoded):
        if item is not None and item not in chosen:
            chosen.append(item)
    return chosen


def _kind(item: Forecast) -> str:
    return item.setting.partition("(")[0]


def _short(setting: str) -> str:
    """Return a setting for an axis: its name on one line, its arguments on the next."""
    name, bracket, arguments = setting.partition("(")
    return f"{name}\n{arguments.removesuffix(')')}" if bracket and arguments != ")" else name

"""Pictures of runs without a coordinator: links and backup workers over time, loss and distance from consensus."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.storage.folders import Folder
from erasurehead.consensus._graphs import Graph, Link
from erasurehead.consensus._result import ConsensusRun
from erasurehead.consensus._rows import MeanRow, PeerRow
from erasurehead.reports import _canvas as canvas, _html as html
from erasurehead.reports._canvas import FAINT, INK, Axes
from erasurehead.reports._run_pages import summary_page

LINKS, PROGRESS = "links", "consensus"
"""The names of the pictures, without suffixes."""

_WORK, _WAIT = "#0072B2", "#E69F00"
_NO_STEPS = "#D9D9D9"
_BINS = 60
_MAX_LABELLED = 40
"""Largest number of peers that are drawn one by one."""


def draw_links(
    graph: Graph,
    rows: Sequence[PeerRow],
    title: str,
    folder: Path | Folder,
    formats: Sequence[str] = ("png", "svg"),
) -> list[Path]:
    """Draw the graph, the links over time, and the activity of the peers.

    Arguments:
        graph: the graph of peers.
        rows: the rows of the run, at least one.
        title: title of the picture.
        folder: folder for the files, or an open one.
        formats: file formats, among `png`, `svg`, `pdf`.

    Returns:
        The paths of the files.
    """
    with canvas.drawing():
        figure = canvas.new_figure(13.0, 8.4, title)
        grid = figure.add_gridspec(2, 2, width_ratios=(1.0, 1.5))
        _graph(figure.add_subplot(grid[0, 0]), graph, rows)
        _links_over_time(figure.add_subplot(grid[0, 1]), graph, rows)
        _backups(figure.add_subplot(grid[1, 0]), rows)
        _gantt(figure.add_subplot(grid[1, 1]), graph, rows)
        return canvas.save(figure, folder, LINKS, formats)


def draw_progress(
    runs: Mapping[str, Sequence[MeanRow]],
    seconds: Mapping[str, float],
    title: str,
    folder: Path | Folder,
    formats: Sequence[str] = ("png", "svg"),
) -> list[Path]:
    """Draw loss of the mean model and distance from consensus over time, and the time of a step, by policy.

    Arguments:
        runs: evaluations of the mean model, by policy.
        seconds: mean seconds per step of a peer, by policy.
        title: title of the picture.
        folder: folder for the files, or an open one.
        formats: file formats, among `png`, `svg`, `pdf`.

    Returns:
        The paths of the files.
    """
    with canvas.drawing():
        figure = canvas.new_figure(14.0, 4.6, title)
        loss, distance, step = figure.subplots(1, 3)
        _over_time(loss, runs, distance=False)
        _over_time(distance, runs, distance=True)
        if len(runs) > 1:
            loss.legend(fontsize=9, title="Policy", alignment="left")
        colours = [canvas.run_style(index + 1).colour for index in range(len(runs))]
        canvas.named_bars(step, list(runs), [seconds[name] for name in runs], colours, "s")
        step.set_title("Time of a step")
        step.set_xlabel("seconds of the clock")
        return canvas.save(figure, folder, PROGRESS, formats)


def _over_time(axes: Axes, runs: Mapping[str, Sequence[MeanRow]], distance: bool) -> None:
    """Draw the loss of the mean model over time, or how far the peers are from it."""
    for index, (policy, means) in enumerate(runs.items()):
        style, rows = canvas.run_style(index + 1), means[1:] if distance else means
        values = [row.distance if distance else row.objective for row in rows]
        line = {"color": style.colour, "linestyle": style.line, "linewidth": 1.8, "label": policy}
        axes.plot([row.time for row in rows], values, **line)
        if any(value > 0.0 for value in values):  # else models always agree
            axes.set_yscale("log")
            canvas.plain_ticks(axes.yaxis)
    axes.set_title("Peers' distance from their mean" if distance else "Loss of the mean model")
    axes.set_ylabel("root mean square distance" if distance else "objective, all training data")
    axes.set_xlabel("seconds of the clock")
    axes.grid(color=FAINT, linewidth=0.5)


def plot_run(run: ConsensusRun, ax: Axes | None, kind: str) -> Axes:
    """Draw a run without a coordinator: see `ConsensusRun.plot`."""
    drawings: dict[str, Callable[[Axes], None]] = {
        "progress": lambda axes: _over_time(axes, {run.policy: run.means}, distance=False),
        "distance": lambda axes: _over_time(axes, {run.policy: run.means}, distance=True),
    }
    if run.rows:
        drawings["graph"] = lambda axes: _graph(axes, run.graph, run.rows)
        drawings["links"] = lambda axes: _links_over_time(axes, run.graph, run.rows)
        drawings["timeline"] = lambda axes: _gantt(axes, run.graph, run.rows)
    return canvas.plot(ax, kind, drawings)


def run_page(run: ConsensusRun) -> str:
    """Return a run without a coordinator as HTML."""
    values = [run.means[place].objective for place in html.sampled(len(run.means))]
    summary = {"status": run.status, "reason": run.stopped, **(run.summary() if values else {})}
    drawing = html.curve(values, "objective of the mean model")
    return summary_page(f"{run.policy} on {run.graph}", summary, below=drawing)


def _positions(n_peers: int) -> Array:
    angles = 2.0 * math.pi * np.arange(n_peers) / n_peers + math.pi / 2.0
    return np.column_stack([np.cos(angles), np.sin(angles)])


def _link_usage(graph: Graph, rows: Sequence[PeerRow]) -> dict[Link, float]:
    """Return for each link the fraction of the steps of its ends in which it was realised."""
    met = dict.fromkeys(graph.edges, 0)
    steps = np.zeros(graph.n_peers)
    for row in rows:
        steps[row.peer] += 1
        for other in row.links:
            pair = (min(row.peer, other), max(row.peer, other))
            met[pair] = met.get(pair, 0) + 1
    return {pair: count / max(1.0, float(steps[pair[0]] + steps[pair[1]])) for pair, count in met.items()}


def _seconds_per_gradient(graph: Graph, rows: Sequence[PeerRow]) -> Array:
    took: list[list[float]] = [[] for _ in range(graph.n_peers)]
    for row in rows:
        took[row.peer].append(row.ready - row.begin)
    return np.array([float(np.mean(own)) if own else math.nan for own in took])


def _graph(axes: Axes, graph: Graph, rows: Sequence[PeerRow]) -> None:
    positions, seconds = _positions(graph.n_peers), _seconds_per_gradient(graph, rows)
    for (low, high), share in _link_usage(graph, rows).items():
        ends = positions[[low, high]]
        axes.plot(*ends.T, color=_WORK, linewidth=0.6 + 5.0 * share, alpha=0.25 + 0.75 * min(1.0, share), zorder=1)
    axes.scatter(*positions.T, s=260, c=[_fill_colour(own, seconds) for own in seconds], edgecolors=INK, zorder=2)
    if graph.n_peers <= _MAX_LABELLED:
        for peer, position in enumerate(positions):
            axes.annotate(graph.label(peer), position, ha="center", va="center", fontsize=9, zorder=3)
    axes.set_title("Links, by use (slow peers orange)")
    axes.set_xlim(-1.25, 1.25)
    axes.set_ylim(-1.2, 1.2)
    axes.set_aspect("equal")
    axes.set_axis_off()


def _fill_colour(own_seconds: float, seconds: Array) -> str:
    median = float(np.nanmedian(seconds))
    return FAINT if math.isnan(own_seconds) else _WAIT if own_seconds > 1.8 * median else "white"


def _links_over_time(axes: Axes, graph: Graph, rows: Sequence[PeerRow]) -> None:
    end, bins, places = _binned(rows)
    numbers = {pair: number for number, pair in enumerate(sorted({*graph.edges, *_link_usage(graph, rows)}))}
    met, steps = np.zeros((len(numbers), bins)), np.zeros((graph.n_peers, bins))
    for row, index in zip(rows, places, strict=True):
        steps[row.peer, index] += 1
        for other in row.links:
            met[numbers[min(row.peer, other), max(row.peer, other)], index] += 1
    both = np.array([steps[low] + steps[high] for low, high in numbers])
    shares = np.divide(met, both, out=np.full_like(met, np.nan), where=both > 0)
    axes.set_facecolor(_NO_STEPS)
    image = axes.imshow(
        shares,
        aspect="auto",
        cmap="Blues",
        vmin=0.0,
        vmax=1.0,
        extent=(0.0, end, len(numbers) - 0.5, -0.5),
        interpolation="nearest",
    )
    axes.figure.colorbar(image, ax=axes, label="share of its ends' steps", pad=0.01)
    axes.set_title("Active links (dark), backup links (light)")
    axes.set_xlabel("seconds of the clock; grey: no step of either end ended")
    axes.set_ylabel("link")
    if len(numbers) <= 30:
        names = [f"{graph.label(low)}-{graph.label(high)}" for low, high in numbers]
        axes.set_yticks(range(len(numbers)), names, fontsize=7)


def _binned(rows: Sequence[PeerRow]) -> tuple[float, int, list[int]]:
    """Return when the last step ended, a second on if nothing takes any time; how many bins; and that of each row."""
    end = max(row.end for row in rows) or 1.0
    bins = max(8, min(_BINS, len(rows) // 40))  # such that each has some steps
    return end, bins, [min(bins - 1, int(bins * row.end / end)) for row in rows]


def _backups(axes: Axes, rows: Sequence[PeerRow]) -> None:
    end, bins, places = _binned(rows)
    most = max(max(row.backups for row in rows), 1)
    counts = np.zeros((most + 1, bins))
    np.add.at(counts, ([row.backups for row in rows], places), 1.0)
    shares = counts / np.maximum(counts.sum(axis=0), 1.0)
    middle = (np.arange(bins) + 0.5) * end / bins
    bottom = np.zeros(bins)
    for number in range(most + 1):
        shade = number / most
        colour = tuple((1.0 - shade) * np.array([0.84, 0.91, 0.97]) + shade * np.array([0.84, 0.37, 0.0]))
        label = str(number) if most < 8 or number in (0, most // 2, most) else None
        axes.bar(middle, shares[number], width=end / bins, bottom=bottom, color=colour, label=label)
        bottom += shares[number]
    axes.set_facecolor(_NO_STEPS)
    axes.set_ylim(0.0, 1.0)
    axes.set_xlim(0.0, end)
    axes.set_title("Backup workers: neighbours not waited for")
    axes.set_ylabel("share of steps")
    axes.set_xlabel("seconds of the clock; grey: no step ended")
    axes.legend(
        ncols=8,
        fontsize=8,
        loc="upper left",
        bbox_to_anchor=(-0.02, -0.16),
        columnspacing=1.2,
        title="Neighbours not waited for",
        alignment="left",
    )


def _gantt(axes: Axes, graph: Graph, rows: Sequence[PeerRow]) -> None:
    steps = sorted(row.end - row.begin for row in rows)
    begin = 0.4 * max(row.end for row in rows)
    end = begin + (14.0 * steps[len(steps) // 2] or _binned(rows)[0])
    shown = range(min(graph.n_peers, _MAX_LABELLED))
    seen = [row for row in rows if row.end >= begin and row.begin <= end]
    for peer in shown:
        own = [row for row in seen if row.peer == peer]
        for colour, bars in (
            (_WORK, [(row.begin, row.ready - row.begin) for row in own]),
            (_WAIT, [(row.ready, row.end - row.ready) for row in own]),
        ):
            axes.broken_barh(bars, (peer - 0.31, 0.62), facecolor=colour, linewidth=0.0)
        axes.vlines([row.end for row in own], peer - 0.42, peer + 0.42, color=INK, linewidth=0.8)
    axes.set_xlim(begin, end)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_yticks(list(shown), [graph.label(peer) for peer in shown])
    axes.set_title("Peers: computing (blue), waiting (orange), mixing (line)")
    axes.set_xlabel("seconds of the clock")
    axes.set_ylabel("peer")

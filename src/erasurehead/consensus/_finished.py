"""Finished runs, with and without a coordinator, read from their run folders to be compared."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import cast

from erasurehead._internal.documents import Entries, PlainData
from erasurehead._internal.user_files import StrPath
from erasurehead.consensus._rows import MeanRow
from erasurehead.datasets._published.public import NAMES
from erasurehead.errors import DataError, counted
from erasurehead.reports._finished import LOSS, Curve, FinishedComparison, FinishedRun
from erasurehead.runs import RunFolder
from erasurehead.runs._names import CONFIG, EVALUATIONS, MEANS
from erasurehead.runs._targets import parse_target
from erasurehead.training._result import Evaluation


def compare_finished(folders: Sequence[StrPath], target: tuple[str, float] | str | None = None) -> FinishedComparison:
    """Compare finished runs on the same data, with or without a coordinator.

    Arguments:
        folders: run folders, at least two; speed-ups are relative to the first.
        target: metric and value to reach, such as `("accuracy", 0.85)` or `"accuracy=0.85"`; by default one that
            all runs have reached.

    Raises:
        DataError: if one is not a run folder, has nothing to compare, or is a run on other data.
        InvalidArgument: if there are fewer than two, or the target was not measured.
    """
    runs, data = [finished_run(folder) for folder in folders], [_data(folder) for folder in folders]
    compared: tuple[str, str] | None = None  # the first folder that has a fingerprint of its data, and that
    for folder, (name, rows, fingerprint) in zip([os.fspath(one) for one in folders], data, strict=True):
        if (name, rows) != data[0][:2]:
            raise DataError(
                f"{folder!r} is a run on {name} ({counted('row', rows)}), and {os.fspath(folders[0])!r} one on "
                f"{data[0][0]} ({counted('row', data[0][1])}): only runs on the same data can be compared."
            )
        compared = compared or ((folder, fingerprint) if fingerprint else None)
        if fingerprint and compared is not None and fingerprint != compared[1]:
            raise DataError(
                f"{folder!r} and {compared[0]!r} are both runs on {name} ({counted('row', rows)}), but not on the same "
                "numbers: the rows, the test rows or the encoding of the columns differ. Only runs on the same data "
                "can be compared."
            )
    return FinishedComparison.of(runs, parse_target(target) if isinstance(target, str) else target)


def finished_run(folder: StrPath) -> FinishedRun:
    """Return the recorded result of a run.

    Arguments:
        folder: folder of a run, with or without a coordinator.

    Raises:
        DataError: if there is no finished run, it took no steps, or its records are damaged.
    """
    opened = RunFolder.open(folder)
    if opened.summary.get("status", "running") == "running":
        raise DataError(f"{os.fspath(folder)!r} has no summary: the run is still in progress, or was killed.")
    if damage := opened.damage(CONFIG):
        raise DataError(damage)
    for name in filter(opened.lost, (CONFIG, EVALUATIONS, MEANS)):
        raise DataError(f"There is no {name} in {os.fspath(folder)!r} any more, which the run wrote.")
    run = _of_peers(opened) if "consensus" in opened.tables else _with_coordinator(opened)
    if not run.steps:
        raise DataError(f"{os.fspath(folder)!r} is a run without any steps, so there is nothing to compare.")
    return run


def _data(folder: StrPath) -> tuple[str, int, str]:
    """Return name, number of training rows and fingerprint of the data of a run; the latter is empty for shards."""
    summary = cast("PlainData", RunFolder.open(folder).summary.get("data", {}))
    return str(summary.get("name")), int(summary.get("train_rows") or 0), str(summary.get("fingerprint") or "")


def _facts(tables: Entries) -> PlainData:
    delays, run = tables.get("delays", {}), tables.get("run", {})
    return {
        "problem": _problem(tables),
        "first model": run.get("initial", "zeros"),
        "delays": delays.get("model"),
        "late work": delays.get("late"),
        "engine": run.get("engine"),
    }


def _problem(tables: Entries) -> str | None:
    """Return what is minimised, as text: equal texts are equal objectives of the same data."""
    problem, peers = tables.get("problem", {}), tables.get("consensus", {})
    if (loss := problem.get("loss")) is None:
        return None
    parts = [loss, f"l2 {problem.get('l2', 0.0):g}"]
    if l1 := problem.get("l1"):
        parts.append(f"l1 {l1:g}")
    if problem.get("penalize_intercept", tables.get("data", {}).get("source") in NAMES):
        parts.append("on the intercept, too")
    if weight := problem.get("class_weight"):
        parts.append(f"class weights {weight}")
    parts.append(peers.get("model", "linear"))
    if hidden := peers.get("hidden"):
        parts.append(f"{hidden} hidden units")
    return ", ".join(parts)


def _curves(rows: Sequence[MeanRow] | Sequence[Evaluation]) -> dict[str, Curve]:
    """Return the values over time of each metric of the last of the evaluations."""
    return {
        metric: tuple((row.time, row.metrics[metric]) for row in rows if metric in row.metrics)
        for metric in (rows[-1].metrics if rows else ())
    }


def _of_peers(opened: RunFolder) -> FinishedRun:
    summary, evaluations = opened.summary, opened.rows(MEANS, MeanRow)
    peers = int(summary.get("peers", 0))
    return FinishedRun(
        f"{summary.get('policy')} on {summary.get('graph')}",
        True,
        peers,
        summary.get("engine") == "virtual",
        summary.get("steps", 0) / max(1, peers),
        float(summary.get("seconds", 0.0)),
        float(summary.get("seconds_per_step") or float("nan")),
        {LOSS: tuple((row.time, row.objective) for row in evaluations), **_curves(evaluations)},
        _facts(opened.tables),
        "" if summary["status"] == "finished" else str(summary.get("reason") or summary["status"]),
    )


def _with_coordinator(opened: RunFolder) -> FinishedRun:
    run, tables = opened.run, opened.tables
    losses = [(row.begin, row.loss) for row in run.steps if row.loss is not None and not row.rejected]
    if run.final is not None and run.final.share == 1.0:
        losses.append((run.seconds, run.final.objective))
    workers = tables.get("run", {}).get("workers") or len({row.worker for row in run.arrivals})
    return FinishedRun(
        run.scheme,
        False,
        int(workers),
        run.engine == "virtual",
        float(run.steps_taken),
        run.seconds,
        run.seconds_per_step,
        {LOSS: tuple(losses), **_curves(run.evaluations)},
        _facts(tables),
        run.stopped,
    )

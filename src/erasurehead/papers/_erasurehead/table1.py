"""Table 1: the data sets, as loaded, beside what the paper prints."""

from __future__ import annotations

from collections.abc import Mapping

from erasurehead.optimizers._schedules import Geometric
from erasurehead.papers._erasurehead.bench import Bench
from erasurehead.papers._erasurehead.published import TABLE1, TITLES
from erasurehead.papers._exhibit import Exhibit
from erasurehead.papers._numbers import FigureTable
from erasurehead.schemes._text import parse_rate

_MODELS = {"logistic": "logistic", "least_squares": "least squares"}


def table1(benches: Mapping[str, Bench], id: str) -> Exhibit:
    """Return the table, one row for each of its entries."""
    rows = [row for name, bench in benches.items() for row in _entries(name, bench)]
    numbers = FigureTable.of(("data set", "data", "entry", "paper", "here", "difference"), rows)
    notes = [
        *(bench.described for bench in benches.values()),
        "Rows are those of the training part; a fifth of the rows was set aside for testing.",
        "Dimensions are those after one-hot encoding, with the constant column.",
    ]
    return Exhibit(id, "table-1", "Table 1: the data sets", notes, numbers, numbers)


def _entries(name: str, bench: Bench) -> list[tuple[str, str, str, str, str, str]]:
    printed, experiment = TABLE1[name], bench.experiment
    data, rate = experiment.data, experiment.config.optimizer.rate
    pairs = [
        ("# data points", f"{printed.rows:,}", f"{data.n_train:,}", printed.remark),
        ("model", printed.model, _MODELS[data.task], ""),
        ("dimension", f"{printed.dimension:,}", f"{data.n_columns:,}", ""),
        ("learning rate", printed.rate, _rate(rate), ""),
    ]
    rows: list[tuple[str, str, str, str, str, str]] = []
    for entry, paper, here, remark in pairs:
        differs = "none" if paper == here else _why(bench) or ("" if remark else "differs")
        rows.append((TITLES[name], bench.kind, entry, paper, here, "; ".join(filter(None, (differs, remark)))))
    return rows


def _why(bench: Bench) -> str:
    if bench.is_synthetic and bench.settings.rows is not None:
        return f"a synthetic stand-in of {bench.settings.rows:,} rows"
    return "only a part of the data is available" if bench.part else ""


def _rate(rate: float | str | None) -> str:
    assert rate is not None  # the published one, where none is given
    schedule = parse_rate(rate)
    return f"{schedule.rate:g} * {schedule.factor:g}^t" if isinstance(schedule, Geometric) else f"{schedule(0):g}"

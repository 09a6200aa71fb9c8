"""Which key of a run file each option of a run stands for, and how its text becomes the value of that key."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from typing import Any

KEYS: Mapping[str, str] = {
    "data": "data.source",
    "path": "data.path",
    "data_at": "data.worker_path",
    "twin": "data.twin",
    "rows": "data.rows",
    "label": "data.target",
    "drop": "data.drop",
    "delimiter": "data.delimiter",
    "one_hot": "data.one_hot",
    "categorical": "data.categorical",
    "test_fraction": "data.test_fraction",
    "loss": "problem.loss",
    "l2": "problem.l2",
    "optimizer": "optimizer.name",
    "rate": "optimizer.rate",
    "momentum": "optimizer.momentum",
    "delays": "delays.model",
    "late": "delays.late",
    "engine": "run.engine",
    "address": "run.address",
    "workers": "run.workers",
    "steps": "run.steps",
    "evaluate_every": "run.evaluate_every",
    "initial": "run.initial",
    "seed": "run.seed",
    "out": "run.out",
    "overwrite": "run.overwrite",
    "records": "run.records",
    "access": "run.access",
    "checkpoint_every": "checkpoints.every_steps",
    "checkpoint_seconds": "checkpoints.every_seconds",
    "keep_checkpoints": "checkpoints.keep_finished",
    "on_death": "survive.death",
    "replacements": "survive.replacements",
    "on_loss": "survive.lost",
    "grow": "survive.grow",
    "on_suspicion": "survive.suspected",
    "suspect_after": "survive.suspect_after",
    "verify": "survive.verify",
}
"""Option, as the field of `RunOptions` is called -> section and key."""


def value_of(option: str, given: Any) -> Any:
    """Return what a run file would have in place of what was given as an option."""
    return _READ[option](given) if option in _READ else given


def _number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _names(text: str) -> list[str]:
    """Return names with commas between them; one that has a comma itself is quoted."""
    read = [name for line in csv.reader([text], skipinitialspace=True) for name in line]
    return [name.strip() for name in read if name.strip()]


def _names_or_all(text: str) -> str | list[str]:
    return "all" if text.strip() == "all" else _names(text)


_READ: Mapping[str, Callable[[str], Any]] = {"drop": _names, "one_hot": _names_or_all, "rate": _number}
"""How options that are texts become the values of a run file."""

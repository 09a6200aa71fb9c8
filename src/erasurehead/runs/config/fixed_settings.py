"""Which settings determine a run, and must not change when it is continued from a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from erasurehead.runs.config.sections import Config

_FREE = frozenset(
    {
        "data.source",
        "data.path",
        "data.worker_path",
        "run.engine",
        "run.address",
        "run.steps",
        "run.until",
        "run.patience",
        "run.max_seconds",
        "run.tolerance",
        "run.out",
        "run.overwrite",
        "run.access",
        "run.records",
        "run.start_limit",
        "run.start_patience",
    }
)
"""Keys that may change: where things are, and how long the run is. Data are identified by their fingerprint."""

_FREE_SECTIONS = frozenset({"checkpoints", "faults"})


def determining(config: Config) -> dict[str, Any]:
    """Return the settings that determine a run, as plain data: values by key, such as `"problem.l2"`.

    >>> "run.steps" in determining(Config()), determining(Config())["run.seed"]
    (False, 0)
    """
    found: dict[str, Any] = {}
    for name, value in config.model_dump(mode="json").items():
        if name in _FREE_SECTIONS:
            continue
        if not isinstance(value, Mapping):
            found[name] = value
            continue
        section = cast("Mapping[str, Any]", value)
        found |= {f"{name}.{key}": item for key, item in section.items() if f"{name}.{key}" not in _FREE}
    return found


def with_defaults(before: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result of `determining`, perhaps from an earlier version, completed with defaults."""
    return {**determining(Config()), **before}

"""The options of a run, all together, and the run file that they amount to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from erasurehead.cli.options.data import DataOptions
from erasurehead.cli.options.delays import DelayOptions
from erasurehead.cli.options.keys import KEYS, value_of
from erasurehead.cli.options.model import ModelOptions
from erasurehead.cli.options.output import RecordOptions
from erasurehead.cli.options.survival import SurvivalOptions
from erasurehead.cli.options.workers import WorkerOptions
from erasurehead.cli.ranks import stand_by

if TYPE_CHECKING:
    from erasurehead.config import Config


@dataclass(frozen=True)  # whose fields are those of the last base first: the order in which help lists them
class RunOptions(SurvivalOptions, RecordOptions, WorkerOptions, DelayOptions, ModelOptions, DataOptions):
    """What a run file can say, as options; None is what was not given."""

    def tables(self) -> dict[str, Any]:
        """Return what was given, as a run file would have it."""
        tables: dict[str, Any] = {}
        for name, key in KEYS.items():
            value = getattr(self, name)
            if value is not None:
                section, _, entry = key.partition(".")
                tables.setdefault(section, {})[entry] = value_of(name, value)
        return tables

    def config(self, run_file: str | None, **more: Any) -> Config:
        """Return the configuration: the options, before the run file, before the defaults.

        Arguments:
            run_file: path of a TOML file, if any.
            **more: top-level keys that were given as options.
        """
        from erasurehead.config import build_config, merged, overridden, read_tables

        given = merged(self.tables(), {key: value for key, value in more.items() if value is not None})
        tables = {} if run_file is None else read_tables(run_file)
        stand_by(given, tables)
        return build_config(overridden(tables, given), self.spelled())

    def spelled(self) -> Mapping[str, str]:
        """Return key -> option, for those that were given."""
        return {
            KEYS[field.name]: f"--{field.name.replace('_', '-')}"
            for field in fields(self)
            if getattr(self, field.name) is not None
        }

"""The options that commands share: those of a run file, as its keys describe them, and how a command speaks."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from erasurehead.cli.ranks import stand_by
from erasurehead.runs.config.keys import Key, keys

if TYPE_CHECKING:
    from erasurehead.runs.config import Config


def option(*names: str, text: str, panel: str, metavar: str | None = None) -> Any:
    """Return a typer option without a default of its own: what is not given is left to the run file."""
    return typer.Option(*names, help=text, rich_help_panel=panel, metavar=metavar, show_default=False)


def _field(key: Key) -> str:
    """Return how the field of `RunOptions` for a key is called."""
    return key.option.removeprefix("--").replace("-", "_")


_KEYS: Mapping[str, Key] = {_field(key): key for key in keys() if key.options}

KEYS: Mapping[str, str] = {name: key.path for name, key in _KEYS.items()}
"""Option, as the field of `RunOptions` is called -> section and key."""


def shared(path: str, *, text: str = "", panel: str = "", default: bool = False, off: bool = True) -> Any:
    """Return the option of a key of a run file, for a command of another kind than those that take all of them.

    Arguments:
        path: of the key, such as `"run.workers"`.
        text: help, if it means something else here.
        panel: of the help, if not that of the key.
        default: whether the help shows the default that the command has.
        off: whether a switch can be switched off, if the key's own option can.
    """
    key = next(key for key in keys() if key.path == path)
    names = key.options if off else (key.option, *key.options[1:])
    return typer.Option(
        *names, help=text or key.help, rich_help_panel=panel or key.panel, metavar=key.metavar or None,
        show_default=default,
    )  # fmt: skip


def value_of(option: str, given: Any) -> Any:
    """Return what a run file would have in place of what was given as an option."""
    key = _KEYS.get(option)
    if key is None or key.kind not in _READ:
        return given
    return given.strip() if given.strip() in key.values else _READ[key.kind](given)


def _number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _names(text: str) -> str | list[str]:
    """Return names with commas between them; one that has a comma itself is quoted."""
    read = [name for line in csv.reader([text], skipinitialspace=True) for name in line]
    return [name.strip() for name in read if name.strip()]


_READ: Mapping[str, Callable[[str], Any]] = {"texts": _names, "number or text": _number}
"""How options that are texts become the values of a run file, by the kind of the key."""


@dataclass(frozen=True)
class OutputOptions:
    """How a command speaks."""

    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print JSON on stdout, and nothing else there.",
            rich_help_panel="Output",
        ),
    ] = False
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            help="No progress, no explanations; warnings and results only.",
            rich_help_panel="Output",
        ),
    ] = False


def _options(group: type[RunOptions]) -> type[RunOptions]:
    """Give a class a field for each option of a run file, None by default, and make a dataclass of it."""
    group.__annotations__ = {name: Annotated[key.type | None, shared(key.path)] for name, key in _KEYS.items()}
    for name in _KEYS:
        setattr(group, name, None)
    return dataclass(frozen=True)(group)


@_options
class RunOptions:
    """What a run file can say, as options; None is what was not given."""

    if TYPE_CHECKING:

        def __init__(self, **given: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...

    def tables(self) -> dict[str, Any]:
        """Return what was given, as a run file would have it."""
        tables: dict[str, Any] = {}
        for name, key in _KEYS.items():
            value = getattr(self, name)
            if value is not None:
                tables.setdefault(key.section, {})[key.name] = value_of(name, value)
        return tables

    def config(self, run_file: str | None, **more: Any) -> Config:
        """Return the configuration: the options, before the run file, before the defaults.

        Arguments:
            run_file: path of a TOML file, if any.
            **more: top-level keys that were given as options.
        """
        from erasurehead.runs.config import build_config, merged, overridden, read_tables

        given = merged(self.tables(), {key: value for key, value in more.items() if value is not None})
        tables = {} if run_file is None else read_tables(run_file)
        stand_by(given, tables)
        return build_config(overridden(tables, given), self.spelled())

    def spelled(self) -> Mapping[str, str]:
        """Return key -> option, for those that were given."""
        return {key.path: key.option for name, key in _KEYS.items() if getattr(self, name) is not None}

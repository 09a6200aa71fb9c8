"""Options that commands share: those made from the keys of run files, and those on output."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import typer
from pydantic import BaseModel

from erasurehead._internal.documents import Entries, PlainData
from erasurehead.cli._grouping import DECLARED
from erasurehead.cli._ranks import stand_by
from erasurehead.errors import InvalidArgument
from erasurehead.runs._config import Config, Key, build_config, keys, merged, overridden, read_tables
from erasurehead.runs._config.sections import OF_FILES


def option(
    names: str,
    text: str,
    *,
    panel: str | None = None,
    metavar: str | None = None,
    default: Any = None,
    shown: bool = False,
    min: int | None = None,
) -> Any:
    """Return an option, as the default of a parameter of a command or of a field of a group of options.

    Arguments:
        names: spellings, such as `"--steps, -n"`.
        text: help text.
        panel: panel of the help in which the option is listed.
        metavar: name of the value in the help.
        default: the value if the option is not given.
        shown: whether the help shows the default.
        min: the least value of a number.
    """
    spelled = names.replace(",", " ").split()
    declared = typer.Option(*spelled, help=text, rich_help_panel=panel, metavar=metavar, show_default=shown, min=min)
    return field(default=default, metadata={DECLARED: declared})


def argument(metavar: str, text: str, *, default: Any = MISSING) -> Any:
    """Return an argument of a command, as the default of its parameter; it must be given, unless it has a default.

    Arguments:
        metavar: name of the value in the help.
        text: help text.
        default: the value if the argument is not given.
    """
    declared = typer.Argument(metavar=metavar, help=text, show_default=False)
    return field(default=default, metadata={DECLARED: declared})


def pictures(text: str, name: str = "figures", default: bool = True) -> Any:
    """Return the option on whether pictures are drawn, given what they are."""
    names, help = f"--{name}/--no-{name}", f"Draw {text} (needs matplotlib)."
    return option(names, help, panel="Output", shown=True, default=default)


def folder(text: str) -> Any:
    """Return the option on the folder in which a command leaves something, given its help text."""
    return option("--out, -o", text, panel="Output", metavar="FOLDER")


def _field(key: Key) -> str:
    """Return the name of the field of an option in a group of options."""
    return key.option.removeprefix("--").replace("-", "_")


_KEYS: Mapping[str, Key] = {_field(key): key for key in keys() if key.options}

KEYS: Mapping[str, str] = {name: key.path for name, key in _KEYS.items()}
"""For each option, by its field in `RunOptions`, its section and key."""


def shared(
    path: str, *, text: str = "", panel: str = "", default: Any = None, shown: bool = False, off: bool = True
) -> Any:
    """Return the option of a single key of a run file, for commands that do not take all of them.

    Arguments:
        path: path of the key, such as `"run.workers"`.
        text: help text, if not that of the key.
        panel: panel of the help, if not that of the key.
        default: the value if the option is not given.
        shown: whether the help shows the default.
        off: whether a switch has a form that turns it off, if the key's option has one.
    """
    key = next(key for key in keys() if key.path == path)
    return option(
        ", ".join(key.options if off else (key.option, *key.options[1:])),
        text or key.help,
        panel=panel or key.panel,
        metavar=key.metavar or None,
        default=default,
        shown=shown,
    )


ALLOW_UNSEEN: Any = option(
    "--allow-unseen",
    "Go on if more than half of the rows have a value in a column that training never saw.",
    panel="Data",
    default=False,
)


THRESHOLD: Any = option(
    "--threshold",
    "Predict the second of two classes where its probability is above this; by default 0.5.",
    panel="Data",
    metavar="P",
)


def value_of(option: str, given: Any) -> Any:
    """Convert the value of an option to the corresponding value in a run file.

    Arguments:
        option: name of the option, as the field of `RunOptions`.
        given: value of the option.
    """
    key = _KEYS.get(option)
    return given if key is None else _value(key, given)


def _value(key: Key, given: Any) -> Any:
    if key.path == "data.missing" and any(not text.partition(",")[0].strip() for text in given):
        return ["", *_names(given)]  # only here does an empty name mean something
    if key.path == "data.interactions":
        return [_names([names]) for names in given]
    if key.kind == "texts":  # one text for each time that the option was given
        return next((text.strip() for text in given if text.strip() in key.values), _names(given))
    may_be_text = key.type is str and key.kind in ("number", "number or text")
    return _number(given) if may_be_text and given.strip() not in key.values else given


def _number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _names(texts: Sequence[str]) -> list[str]:
    """Split names at commas and ends of lines; a name that contains one must be quoted."""
    lines = csv.reader(io.StringIO("\n".join(texts), newline=""), skipinitialspace=True)
    read = [name for line in lines for name in line]
    return [name.strip() for name in read if name.strip()]


@dataclass(frozen=True)
class OutputOptions:
    """Options on the output of a command."""

    as_json: bool = option("--json", "Print JSON on stdout, and nothing else there.", panel="Output", default=False)
    quiet: bool = option(
        "--quiet, -q", "No progress, no explanations; warnings and results only.", panel="Output", default=False
    )


@dataclass(frozen=True)
class VerboseOptions(OutputOptions):
    """Options on the output of a command with machinery that not everybody wants to see."""

    verbose: bool = option(
        "--verbose, -v", "Also say how it is done: code, wait rule, workers, steps.", panel="Output", default=False
    )


FILE_KEYS = tuple(f"data.{name}" for name in OF_FILES)
"""Keys on how a file is read, for commands that read one without training."""


def tables_of(given: Entries) -> PlainData:
    """Return options of data and of what is trained as tables of a run file.

    Arguments:
        given: their values by the names of their fields; None or empty for those that were not given.
    """
    chosen = {name: key for name, key in _KEYS.items() if key.section in ("data", "problem")}
    return _tables(chosen, {name: given.get(name) or None for name in chosen})


def _tables(chosen: Mapping[str, Key], given: Entries) -> PlainData:
    tables: PlainData = {}
    for name, key in chosen.items():
        if given[name] is not None:
            tables.setdefault(key.section, {})[key.name] = _value(key, given[name])
    return tables


class FileOptions:
    """The keys of a run file as options; None for those that were not given."""

    option_keys: ClassVar[Mapping[str, Key]]

    if TYPE_CHECKING:

        def __init__(self, **given: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...

    def tables(self) -> PlainData:
        """Return the options that were given, as tables of a run file."""
        return _tables(self.option_keys, {name: getattr(self, name) for name in self.option_keys})

    def spelled(self) -> Mapping[str, str]:
        """Return the names of the options that were given, by the path of their key."""
        return {key.path: key.option for name, key in self.option_keys.items() if getattr(self, name) is not None}


Options = TypeVar("Options", bound=FileOptions)


def options_of(
    file: type[BaseModel], *paths: str, texts: Mapping[str, str] | None = None
) -> Callable[[type[Options]], type[Options]]:
    """Return a decorator that makes a class a dataclass with a field for each option of a run file, None by default.

    Arguments:
        file: model of the run file.
        *paths: the keys whose options are wanted, such as `"data.path"`, of a command without run files, in which
            nothing needs to be switched off that is not the default; by default all that have one.
        texts: help texts by key, where that of the key does not fit the command.
    """

    def fill(group: type[Options]) -> type[Options]:
        by_path = {key.path: key for key in keys(file) if key.options}
        group.option_keys = {_field(by_path[path]): by_path[path] for path in paths or by_path}
        group.__annotations__ = {  # options that take lists can be given several times, and add up
            name: (list[str] if key.kind == "texts" else key.type) | None for name, key in group.option_keys.items()
        }
        for name, key in group.option_keys.items():
            text = (texts or {}).get(key.path, key.help)
            on_alone = bool(paths) and not key.default
            names = ", ".join((key.option, *key.options[1:]) if on_alone else key.options)
            setattr(group, name, option(names, text, panel=key.panel, metavar=key.metavar or None))
        return dataclass(frozen=True)(group)

    return fill


@options_of(Config)
class RunOptions(FileOptions):
    """The keys of run files for training with a coordinator."""

    def config(self, run_file: str | None, **more: Any) -> Config:
        """Return the configuration; options take precedence over the run file, and the run file over the defaults.

        If the engine is MPI, this does not return on ranks other than the coordinator's.

        Arguments:
            run_file: path of a TOML file, if any.
            **more: top-level keys that were given as options.

        Raises:
            InvalidArgument: if a value is not valid, or the run file is for training without a coordinator.
        """

        given = merged(self.tables(), {key: value for key, value in more.items() if value is not None})
        tables = {} if run_file is None else read_tables(run_file)
        if "consensus" in tables:
            raise InvalidArgument(
                "RUN_FILE",
                "must have no section [consensus] where there is a coordinator",
                str(run_file),
                "erasurehead consensus takes it",
            )
        stand_by(given, tables)
        return build_config(overridden(tables, given))

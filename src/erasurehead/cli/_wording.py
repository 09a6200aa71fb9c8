"""Errors in terms of the command line: arguments named by the library are replaced by the options that users type."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Any, cast

from typer import BadParameter, echo
from typer.core import TyperCommand

from erasurehead.cli._options import tables_of, value_of
from erasurehead.cli._proposals import proposed
from erasurehead.errors import UNSAID, InvalidArgument, UndeclaredText
from erasurehead.runs._config.keys import keys
from erasurehead.runs._config.toml import located

_WORDS: Mapping[str, str] = {
    "columns": "--column",
    "folder": "--out",
    "goal": "--target",
    "interactions": "--interaction",
    "max_steps": "--steps",
    "n_rows": "--rows",
    "n_tasks": "--tasks",
    "n_workers": "--workers",
    "settings": "--scheme",
    "task": "--loss",
}
"""For subjects of errors, the option that they are about, if its name is different."""

_PLACES: Mapping[str, str] = {"delays.model": "what", "model": "what", "name": "code", "data.source": "sources"}
"""For subjects of errors, the argument of the command that they are about, if its name is different."""

_SECTIONS = frozenset(key.section for key in keys() if key.options)
"""Sections of run files; some of them have the same name as an option."""

_OTHER_SECTIONS = frozenset({"consensus", "run"})
"""Sections with keys that occur only in run files of other commands, where options have the names of the keys."""

_MAY_BE_EMPTY = frozenset({"address", "missing"})
"""Options whose own check has a better message for an empty text, or in which it means the empty field."""

_TYPED = "erasurehead.typed"
"""Where the context of a command has the words that were typed."""

_ARGUMENTS, _OPTIONS, _HELP = "Arguments", "Options", "Help"
_LAST: Mapping[str, int] = {_ARGUMENTS: -1, "Output": 1, _HELP: 2}
"""Where the help has a list of options that is not between the others."""

_SPELLED: Mapping[str, str] = {key.path: key.option for key in keys() if key.options}


class Command(TyperCommand):
    """A command whose errors name options and values as the user typed them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:

        given = dict[str, Any]()
        ctx.meta[_TYPED] = [*args]
        try:
            given, _, order = self.make_parser(ctx).parse_args([*args])
            if not ctx.resilient_parsing:
                _refuse_repeated(order)
            return super().parse_args(ctx, args)
        except BadParameter as error:
            parameter: Any = error.param
            if parameter is None or "issing" in type(error).__name__:
                raise
            raise InvalidArgument(_named(parameter), _rule(error.message), given.get(parameter.name)) from None
        except Exception as error:  # raised by typer, which may include a copy of click, or by click; by --help, too
            unknown = str(getattr(error, "option_name", ""))
            if unknown and (sentence := self._elsewhere(unknown, ctx.command_path)):
                raise InvalidArgument(unknown, "must be left out", sentence=sentence) from None
            raise

    def _elsewhere(self, option: str, command: str) -> str:
        """Return what to type in place of an option that does not exist; empty if nobody can tell."""
        arguments = [str(parameter.metavar) for parameter in self.params if _placed(parameter)]
        if option == "--target" and any("--label" in parameter.opts for parameter in self.params):
            reason = "There is no option --target here: it is the METRIC=VALUE of compare and plan."
            return f"{reason} The column to predict is --label, and the metric at which training ends --until."
        if any(_placed(parameter) and option == f"--{parameter.name}" for parameter in self.params):
            return f"There is no option {option} here: type {command} {' '.join(arguments)}."
        printed = f"There is no option {option} here: to have a file of what is printed, type {command} ... > FILE."
        return printed if option == "--out" else ""

    common: Mapping[str, str] = {}
    """The options that `--help` shows, each with a text that is shorter than its own, or an empty one; the others are
    left to `--help-all`. Without any, it shows all."""

    def get_params(self, ctx: Any) -> list[Any]:
        params = super().get_params(ctx)
        if self.common and self._help_all is None:
            self._help_all = copy(params[-1])  # that of --help
            self._help_all.__dict__.update(
                name="help_all",
                opts=["--help-all"],
                help=f"Show all {sum(not _placed(one) for one in self.params)} options and exit.",
                callback=self._show_all,
            )
        return [*params, self._help_all] if self.common else params

    _help_all: Any = None

    def _show_all(self, ctx: Any, parameter: Any, wanted: bool) -> None:
        if wanted and not ctx.resilient_parsing:
            whole = copy(self)
            whole.common = {}
            echo(whole.get_help(ctx))
            ctx.exit()

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write usage and explanation as typer does, and below them the options, which need all 80 columns."""
        panels = dict[str, list[tuple[str, str]]]()
        intro = copy(self)
        intro.add_help_option, intro.common = False, {}
        intro.params = [copy(parameter) for parameter in self.params if _placed(parameter)]
        for argument in intro.params:
            vars(argument)["hidden"] = True
        super(Command, intro).format_help(ctx, formatter)
        for parameter in self._listed(ctx):
            names, text = parameter.get_help_record(ctx)
            if _placed(parameter):
                names = parameter.metavar
            elif self.common:
                names, text = names.partition(" / ")[0], self.common.get(parameter.opts[0]) or text
            panel = _OPTIONS if self.common else getattr(parameter, "rich_help_panel", None)
            heading = _ARGUMENTS if _placed(parameter) else panel
            panels.setdefault(heading or (_HELP if parameter.name == "help" else _OPTIONS), []).append((names, text))
        for heading in sorted(panels, key=lambda heading: _LAST.get(heading, 0)):
            with formatter.section(heading):
                formatter.write_dl(panels[heading])

    def _listed(self, ctx: Any) -> list[Any]:
        """Return the arguments and options that the help lists."""
        listed, order = self.get_params(ctx), [*self.common, "--help", "--help-all"]
        if not self.common:
            return listed
        places = [min((order.index(name) for name in one.opts if name in order), default=-1) for one in listed]
        shown = [(place, one) for place, one in zip(places, listed, strict=True) if place >= 0 or _placed(one)]
        return [one for _, one in sorted(shown, key=lambda pair: pair[0])]

    def invoke(self, ctx: Any) -> Any:

        try:
            _refuse_empty(ctx)
            return super().invoke(ctx)
        except InvalidArgument as error:
            raise in_users_words(error, ctx) from None
        except UndeclaredText as error:
            if at_a_terminal() and (command := _proposed(ctx)):
                raise UndeclaredText(f"{error}\nThis command takes the file as it is:\n  {command}") from None
            raise


def at_a_terminal() -> bool:
    """Whether errors are read by somebody who can type another command."""
    return sys.stderr.isatty()


def _proposed(ctx: Any) -> str:
    """Return the whole command for a file with columns of texts; empty if there is none."""

    tables = tables_of(ctx.params)
    source = (ctx.params.get("sources") or [None])[0]
    if source is not None:
        tables.setdefault("data", {})["source"] = source
    return proposed(ctx.command.name, ctx.meta[_TYPED], tables) if "source" in tables.get("data", {}) else ""


def _placed(parameter: Any) -> bool:
    """Whether a parameter of a command is an argument, and no option."""
    return parameter.param_type_name == "argument"


def _named(parameter: Any) -> str:
    """Return the name of an option or an argument, as errors show it."""
    return parameter.metavar.strip("[].") if _placed(parameter) else parameter.opts[0]


def _rule(message: str) -> str:
    """Convert typer's message about a value of the wrong type or out of range to a rule, such as "must be a number"."""
    if "range" not in message and "integer" in message:
        return "must be a whole number"
    if message.startswith("Input should "):  # a message of pydantic, which newer versions of typer use
        rule = f"must {message.removeprefix('Input should ').partition(', unable')[0].removesuffix('.')}"
        return rule.replace("a valid number", "a number").replace("greater than or equal to", "at least")
    return "must be a number" if "float" in message else f"must be valid: {message.removesuffix('.')}"


def _refuse_repeated(typed: list[Any]) -> None:
    """Raise if an option of one value is among those that were typed more than once: typer silently takes the last."""
    for one in typed:
        if (times := typed.count(one)) > 1 and not one.multiple and (not one.is_flag or one.secondary_opts):
            hint = "put the rows of several files into one" if one.name == "data" else ""
            raise InvalidArgument(one.opts[0], f"must be given once, and not {times} times", hint=hint)


def _refuse_empty(ctx: Any) -> None:
    """Raise if an empty text was given, which would otherwise silently be replaced by the default."""

    for parameter in ctx.command.params:
        given: Any = ctx.params.get(parameter.name)
        texts = cast("list[Any]", given if isinstance(given, list) else [given])
        if parameter.name not in _MAY_BE_EMPTY and any(isinstance(text, str) and not text.strip() for text in texts):
            hint = "" if parameter.required else "leave it out for the default"
            raise InvalidArgument(_named(parameter), "must not be empty", "", hint)


def in_users_words(error: InvalidArgument, ctx: Any) -> InvalidArgument:
    """Return an error that names the option instead of the library's argument, and shows the value as it was typed.

    If the value is from a run file, the error names the key and its line in the run file. If it is neither from an
    option nor from a run file, the subject is unchanged.

    Arguments:
        error: error raised by the library.
        ctx: click context of the command, with the user's arguments.
    """
    subject = error.subject
    if error.sentence:  # it may name keys of a run file for which options were typed
        keys_in_it = r"\b([a-z]+\.\w+|scheme(?= was ))"
        error = error.but(sentence=re.sub(keys_in_it, lambda key: _as_option(key[0], ctx), error.sentence))
    parameter = _parameter(subject, ctx)
    if parameter is None or (not _placed(parameter) and not _typed(parameter, ctx) and _file(ctx)):
        if parameter is None or "." in subject or subject in _SECTIONS:
            return _in_file(error, subject, ctx)
        key = _key(parameter.opts, subject)
        return _in_file(error.about(key) if key != subject else error, key, ctx)
    if _placed(parameter):
        return _as_typed(error.about(_named(parameter)), parameter, ctx)
    return _as_typed(error.about(_option(subject)), parameter, ctx)


def _option(subject: str) -> str:
    if subject.startswith("--"):
        return subject
    section, _, key = subject.rpartition(".")
    name = key if section in _OTHER_SECTIONS else subject
    return _SPELLED.get(subject) or _WORDS.get(subject) or f"--{name.replace('_', '-')}"


def _parameter(subject: str, ctx: Any) -> Any:
    """Return the option or the argument of a command that an error is about; None if it is about neither."""
    for parameter in ctx.command.params if subject else ():
        if _option(subject) in parameter.opts:
            return parameter
        if _placed(parameter) and parameter.name in (
            subject,
            f"{subject}s",
            subject.lower(),
            _PLACES.get(subject),
        ):
            return parameter
    return None


def _as_option(key: str, ctx: Any) -> str:
    """Return the option that was typed for a key of a run file; the key if none was."""
    parameter = _parameter(key, ctx) if key.partition(".")[0] in {*_SECTIONS, "scheme"} else None
    return _option(key) if parameter is not None and _typed(parameter, ctx) else key


def _typed(parameter: Any, ctx: Any) -> bool:
    source = ctx.get_parameter_source(parameter.name)
    return source is not None and source.name == "COMMANDLINE"


def _as_typed(error: InvalidArgument, parameter: Any, ctx: Any) -> InvalidArgument:
    """Return an error that shows the typed text if its value was converted from that text, or is a part of it."""

    value = ctx.params.get(parameter.name)
    given = ",".join(cast("list[str]", value)) if isinstance(value, list | tuple) else value
    if error.within or error.value is UNSAID or not isinstance(given, str) or not _typed(parameter, ctx):
        return error
    if str(error.value) == given:
        return error
    meant = value_of(parameter.name, value)
    if _plain(error.value) == _plain(meant):
        return error.but(value=given)
    return error.but(typed=repr(given)) if isinstance(error.value, str) and error.value in given else error


def _in_file(error: InvalidArgument, key: str, ctx: Any) -> InvalidArgument:
    """Return an error with the line of its key in the run file, if the key is from one."""

    file = _file(ctx)
    return error if file is None else located(error, key, file)


def _file(ctx: Any) -> Path | None:
    """Return the run file of a command, which is that of the run if it is resumed; None if there is none."""
    if ctx.params.get("run_file") is not None:
        return Path(ctx.params["run_file"]).expanduser()
    if ctx.params.get("resume") is not None:
        return Path(ctx.params["resume"]).expanduser() / "config.toml"
    return None


def _key(options: list[str], subject: str) -> str:
    """Return the key of a run file for the spellings of an option, or the subject if there is none."""
    return next((key for key, spelled in _SPELLED.items() if spelled in options), subject)


def _plain(value: Any) -> Any:
    return [*cast("tuple[Any, ...]", value)] if isinstance(value, tuple | list) else value

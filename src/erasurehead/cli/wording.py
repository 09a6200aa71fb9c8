"""Errors in the user's words: the library names arguments and keys of run files, where the user typed an option."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from typer.core import TyperCommand

from erasurehead.cli.options.keys import KEYS
from erasurehead.errors import InvalidArgument

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
    "survive.death": "--on-death",
    "survive.lost": "--on-loss",
    "survive.suspected": "--on-suspicion",
}
"""What an error begins with -> the option that it is about, where that is not of the same name."""

_PLACES: Mapping[str, str] = {"delays.model": "what", "name": "code"}
"""What an error begins with -> the argument of the command that it is about, where that is not of the same name."""

_SPELLED: Mapping[str, str] = {key: f"--{name.replace('_', '-')}" for name, key in KEYS.items()}

_SUBJECT = re.compile(r"([a-z][a-z0-9_.]*)(?: and ([a-z][a-z0-9_.]*))?(?= )(?! \(--)")


class Command(TyperCommand):
    """A command whose errors name what the user typed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # of typer, which has click built in, or of click itself
            unknown = getattr(error, "option_name", None) == "--target"
            if unknown and any("--label" in parameter.opts for parameter in self.params):
                raise InvalidArgument(
                    "There is no option --target here: it is the METRIC=VALUE of train, compare and plan."
                    " The column to predict is --label."
                ) from None
            raise

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except InvalidArgument as error:
            raise InvalidArgument(in_users_words(str(error), ctx)) from None


def in_users_words(text: str, ctx: Any) -> str:
    """Return what an `InvalidArgument` says, with the option in place of the argument that it begins with.

    The subject is left alone where the command has no such option, or where the value stands in a run file.

    Arguments:
        text: begins with what it is about, such as `"one_hot must name columns of shop.csv"`.
        ctx: of the command, with what the user typed.
    """
    text = text.replace(", but it is None", "", 1)  # it was not given, which goes without saying
    found = _SUBJECT.match(text)
    if found is None:
        return text
    spelled = " and ".join(_spelled(word, ctx) for word in found.groups() if word)
    return spelled + text[found.end() :]


def _spelled(word: str, ctx: Any) -> str:
    option = _SPELLED.get(word) or _WORDS.get(word) or f"--{word.replace('_', '-')}"
    for parameter in ctx.command.params:
        if option in parameter.opts:
            source = ctx.get_parameter_source(parameter.name)
            typed = source is not None and source.name == "COMMANDLINE"
            return option if typed or not _elsewhere(ctx) else _key(option, word)
        if parameter.param_type_name == "argument" and parameter.name in (word, f"{word}s", _PLACES.get(word)):
            return str(parameter.metavar or word).strip("[].")
    return word


def _elsewhere(ctx: Any) -> bool:
    """Say whether what was not typed may stand in a run file, or in the folder of a run that goes on."""
    return any(ctx.params.get(name) is not None for name in ("run_file", "resume"))


def _key(option: str, word: str) -> str:
    """Return how a run file calls what an option is about."""
    return next((key for key, spelled in _SPELLED.items() if spelled == option), word)

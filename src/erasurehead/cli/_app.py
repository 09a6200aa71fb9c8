"""The command-line application: registers all commands, and turns errors into sentences and exit codes."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Generator
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from erasurehead._internal.plain_text import visible
from erasurehead._internal.signals import stopped_by, terminable
from erasurehead._internal.user_files import as_named, printable
from erasurehead.cli._streams import BAD_INPUT, FAILED, INTERRUPTED, lead_nowhere
from erasurehead.errors import DataError, ErasureHeadError, InvalidArgument, MissingExtra

_COMMANDS = {
    "train": "Train one model, and record the run in a folder.",
    "resize": "Add workers to a run in progress, or remove some.",
    "watch": "Look at a run in a browser while it goes on.",
    "report": "Write what a run did as a page in one file that can be mailed.",
    "compare": "Race several schemes: same data, same delays, same first model.",
    "consensus": "Train without a coordinator: peers average with their neighbours, and wait only for some of them.",
    "data": "Show which data sets of the paper are available, or what a file contains.",
    "shard": "Cut a file into shards, so that each worker reads its own part of the data.",
    "predict": "Apply a trained model to rows that need no labels.",
    "evaluate": "Measure a trained model on labelled rows that it was not trained on.",
    "coefficients": "Print the coefficients of a linear model, the largest first.",
    "plan": "Plan a run before you start it: which code, what redundancy, how long to wait.",
    "plan-network": "Plan how ranks that train a network should meet: wait, or which way instead.",
    "drill": "Rehearse the faults that clusters inflict on a run: does it survive them?",
    "drill lives": "Rehearse many short runs, each killed in a different way and then resumed.",
    "drill peers": "Rehearse faults of peers that train without a coordinator.",
    "reproduce": "Reproduce a published paper: figures and tables, with their numbers.",
    "decompile": "Print a JAX function, or its gradient, as Python to read, edit and run.",
    "codes": "Look up gradient codes: list all, show one, compare several.",
    "config": "Look up what a run file may contain.",
    "delays": "Fit and show delays.",
}
"""The commands, with the first sentence of their help. Each has a module, with its help text in `HELP` and the command
in `run`, whose dataclass parameters are groups of options; the most common of many options are in `COMMON`: see
`Command.common`. One with subcommands has these in `COMMANDS`; those of one that is a command itself are here."""

_HELP = """
Train on many machines without waiting for the slow ones.

Train on a file of your own, and predict with the model:

  [bold]erasurehead train --data houses.csv --label price --categorical \\
      --out runs/houses[/bold]

  [bold]erasurehead predict runs/houses new_houses.csv[/bold]

Find out from recorded delays what to do about slow workers:

  [bold]erasurehead plan --trace latencies.csv[/bold]

Or watch the schemes of the paper race on a virtual clock, in seconds:

  [bold]erasurehead compare --engine virtual --synthetic always[/bold]
"""


class _Group(TyperGroup):
    """Turns errors into a sentence on stderr and an exit code; only unexpected errors have a traceback."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; help and version are printed here, so that errors in writing them are handled."""
        try:
            with _visible_usage():
                return super().parse_args(ctx, args)
        except OSError as error:
            raise _unwritten(error) from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[:1] == ["resume"]:
            ctx.fail("To resume a run: erasurehead train --resume FOLDER.")
        if (words := " ".join(args[:2])) in _COMMANDS:
            args = [words, *args[2:]]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        from erasurehead.cli._output import sentences

        try:
            with terminable(), sentences(), _visible_usage():  # ends what a command has started, whatever ends it
                return super().invoke(ctx)
        except (InvalidArgument, DataError, MissingExtra) as error:
            raise _exit(str(error), BAD_INPUT) from None
        except ErasureHeadError as error:
            raise _exit(str(error), FAILED) from None
        except MemoryError as error:
            hint = "use fewer workers or peers, rows or columns, or a machine with more memory"
            raise _exit(f"There is not enough memory for this ({error or 'none is left'}); {hint}.", FAILED) from None
        except KeyboardInterrupt as error:
            reason = stopped_by(error)
            raise _exit(f"{reason[0].upper()}{reason[1:]}.", INTERRUPTED) from None
        except BrokenPipeError as error:
            raise _unwritten(error) from None
        except OSError as error:
            raise _exit(_of_system(error), BAD_INPUT if error.errno in _OF_NAMES else FAILED) from None


@contextlib.contextmanager
def _visible_usage() -> Generator[None]:
    """Let errors in how a command is typed, which typer prints, quote words that can all be seen."""
    try:
        yield
    except Exception as error:
        message: Any = getattr(error, "message", None)
        if hasattr(error, "format_message") and isinstance(message, str):
            error.__dict__["message"] = visible(message)
        raise


_OF_NAMES = (errno.ENAMETOOLONG, errno.ELOOP)
"""Errors of the operating system about names that no file can have."""


def _of_system(error: OSError) -> str:
    """Return a sentence on an error of the operating system, and on what to do about it."""

    what = printable(str(error.filename)) if error.filename else "A file or a connection"
    sentence = f"{what} cannot be used: {error.strerror or error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        sentence += "; free some space, or name another folder (--out)"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        sentence += "; name a place where this user may read and write"
    elif error.errno in (errno.EMFILE, errno.ENFILE):
        sentence += "; raise the number of files that may be open (ulimit -n)"
    return f"{sentence}."


def _unwritten(error: OSError) -> typer.Exit:
    """Return the exit of a command whose output cannot be written: code 0 if the reader has gone."""
    lead_nowhere()
    if isinstance(error, BrokenPipeError):
        return typer.Exit(0)
    return _exit(f"Nothing can be written to standard output: {error.strerror}.", FAILED)


def _exit(sentence: str, code: int) -> typer.Exit:

    typer.echo(f"erasurehead: {visible(as_named(sentence))}", err=True)
    return typer.Exit(code)


def build(chosen: str = "") -> typer.Typer:
    """Return the application.

    Arguments:
        chosen: what was typed first; if it is not empty, only the command of that name is loaded, and of the others
            there are only name and help.
    """
    app = typer.Typer(
        name="erasurehead",
        cls=_Group,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=_HELP)(_main)
    for name, text in _COMMANDS.items():
        if chosen not in ("", name.partition(" ")[0]):
            app.command(name, help=text)(_version)
            continue
        from erasurehead.cli._grouping import with_groups
        from erasurehead.cli._wording import Command

        module: Any = import_module(f"erasurehead.cli._{name.replace('-', '_').replace(' ', '_')}")
        if hasattr(module, "run"):
            kind = type("Command", (Command,), {"common": getattr(module, "COMMON", {})})
            app.command(name, cls=kind, help=module.HELP)(with_groups(module.run))
            continue
        inner = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help=module.HELP)
        for word, (command, help) in module.COMMANDS.items():
            inner.command(word, cls=Command, help=help)(with_groups(command))
        app.add_typer(inner, name=name)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(import_module("erasurehead").__version__)
        raise typer.Exit


def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", callback=_version)] = False,
) -> None:
    return

"""Options and functions to read the traces that users name: a file with column names, or the folder of a run."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from erasurehead.cli.options import option
from erasurehead.cli.screen import Screen

if TYPE_CHECKING:
    from erasurehead.delays import Delays, Trace

_TRACE = "Trace"


@dataclass(frozen=True)
class TraceOptions:
    """Options for reading a trace file."""

    column: Annotated[
        list[str] | None,
        option(
            "--column",
            panel=_TRACE,
            metavar="OURS=THEIRS",
            text="Which column of the file is our worker, step, seconds, load or censored: --column seconds=latency. "
            "Repeat it for each; columns that already have these names need not be given.",
        ),
    ] = None
    where: Annotated[
        list[str] | None,
        option(
            "--where",
            panel=_TRACE,
            metavar="COLUMN=VALUE",
            text="Take only the rows with this value: --where region=Tokyo. If repeated, all must hold.",
        ),
    ] = None
    unit: Annotated[
        str | None,
        option("--unit", panel=_TRACE, metavar="UNIT", text="Unit of the delays: s (the default), ms, us, ns."),
    ] = None

    def read(self, place: str, screen: Screen) -> Trace:
        """Read a trace, and print warnings about it.

        Arguments:
            place: path of a file, or of the folder of a run.
            screen: prints the warnings.

        Raises:
            DataError: if it is a folder without a trace, or the file cannot be read as a trace.
        """
        from erasurehead.delays import read_trace
        from erasurehead.errors import DataError
        from erasurehead.runs.names import ARRIVALS

        path = Path(place).expanduser()
        if path.is_dir():
            path = path / ARRIVALS
            if not path.is_file():
                raise DataError(f"{place} is a folder without {ARRIVALS}; name a trace file, or the folder of a run.")
        with warned(screen):
            columns, where = pairs("--column", self.column or ()), pairs("--where", self.where or ())
            return read_trace(path, columns, where, self.unit or "s")


def pairs(name: str, texts: Sequence[str]) -> dict[str, str]:
    """Parse `KEY=VALUE` options.

    Arguments:
        name: name of the option, for error messages.
        texts: values of the option.

    Raises:
        InvalidArgument: if a value is not written `KEY=VALUE`.
    """
    from erasurehead.errors import invalid

    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not (equals and key and value):
            raise invalid(name, "must be written KEY=VALUE", text)
        found[key] = value
    return found


def read_model(text: str, screen: Screen) -> Delays:
    """Parse a delay model, and print its warnings, such as one about an infinite mean.

    Arguments:
        text: the delay model, written as in a run file.
        screen: prints the warnings.
    """
    from erasurehead.runs.config.parts import build_delays

    with warned(screen):
        return build_delays(text)


@contextlib.contextmanager
def warned(screen: Screen) -> Generator[None]:
    """Print the warnings raised in this block as sentences, each of them once."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        yield
    for sentence in dict.fromkeys(str(item.message) for item in said):
        screen.warn(sentence)

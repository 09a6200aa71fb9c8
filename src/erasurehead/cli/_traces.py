"""Options and functions to read the traces that users name: a file with column names, or the folder of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from erasurehead.cli._options import option
from erasurehead.errors import DataError, invalid
from erasurehead.runs._names import ARRIVALS

if TYPE_CHECKING:
    from erasurehead.delays import Trace

_TRACE = "Trace"


@dataclass(frozen=True)
class TraceOptions:
    """Options for reading a trace file."""

    column: list[str] | None = option(
        "--column",
        "Which column of the file is our worker, step, seconds, load or censored: --column seconds=latency. "
        "Repeat it for each; columns that already have these names need not be given.",
        panel=_TRACE,
        metavar="OURS=THEIRS",
    )
    where: list[str] | None = option(
        "--where",
        "Take only the rows with this value: --where region=Tokyo. If repeated, all must hold.",
        panel=_TRACE,
        metavar="COLUMN=VALUE",
    )
    unit: str | None = option(
        "--unit", "Unit of the delays: s (the default), ms, us, ns.", panel=_TRACE, metavar="UNIT"
    )

    def read(self, place: str) -> Trace:
        """Read a trace.

        Arguments:
            place: path of a file, or of the folder of a run.

        Raises:
            DataError: if it is a folder without a trace, or the file cannot be read as a trace.
        """
        from erasurehead.delays import Trace

        path = Path(place).expanduser()
        if path.is_dir():
            path = path / ARRIVALS
            if not path.is_file():
                raise DataError(f"{place} is a folder without {ARRIVALS}; name a trace file, or the folder of a run.")
        columns, where = pairs("--column", self.column or ()), pairs("--where", self.where or ())
        return Trace.read(path, columns, where, self.unit or "s")


def pairs(name: str, texts: Sequence[str]) -> dict[str, str]:
    """Parse `KEY=VALUE` options.

    Arguments:
        name: name of the option, for error messages.
        texts: values of the option.

    Raises:
        InvalidArgument: if a value is not written `KEY=VALUE`.
    """

    values: dict[str, str] = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not (equals and key and value):
            raise invalid(name, "must be written KEY=VALUE", text)
        values[key] = value
    return values

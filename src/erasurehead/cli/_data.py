"""`erasurehead data`: which data sets are available, and where they were looked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from erasurehead._internal.documents import PlainData
from erasurehead._internal.plain_text import visible
from erasurehead.cli._options import FILE_KEYS, FileOptions, OutputOptions, argument, options_of
from erasurehead.cli._output import Screen
from erasurehead.errors import InvalidArgument, counted
from erasurehead.runs._config import Config, DataSection, build_config, merged

if TYPE_CHECKING:
    from rich.table import Table

    from erasurehead.datasets._preprocessing.column_uses import ColumnUse

_WIDEST = 40  # letters of a column's name in one line of a table, which fits on 80 columns

_WAYS = """
Public files are looked for at --path; else in the folder that the environment
variable ERASUREHEAD_DATA names, and its subfolders amazon, kc_housing and
covertype; else in scikit-learn's cache (~/scikit_learn_data, or the folder
that SCIKIT_LEARN_DATA names); else on the network. A synthetic stand-in needs
none of these: --synthetic always, when training.
"""

HELP = f"""
Show which data sets of the paper are available, or what a file contains.

[bold]erasurehead data[/bold]
  List all three, without reading them.

[bold]erasurehead data amazon --path ~/downloads[/bold]
  Read one, and print its shape.

[bold]erasurehead data houses.csv --label price --categorical --drop address[/bold]
  A file of your own: can it be read, and how are its columns encoded? Each is
  the label, a number, one-hot with its number of levels, or left out; a
  warning names columns in which hardly any value occurs twice, and those that
  say what the label says.
{_WAYS}"""


@options_of(Config, "data.path", *FILE_KEYS, texts={"data.path": "Where to look for public files."})
class ReadingOptions(FileOptions):
    """Options on where data are, and how a file is read."""


def run(
    *,
    sources: list[str] | None = argument(
        "NAME|FILE...", "Data sets or files to read; by default, only list which data sets are available.", default=None
    ),
    reading: ReadingOptions,
    output: OutputOptions,
) -> None:
    """Show which data are available."""
    from erasurehead.runs._config import parts

    screen = Screen(output)
    if not sources:
        for key, option in reading.spelled().items():
            if key != "data.path":
                raise InvalidArgument(option, "must come with a file to be read")
        places = _look(reading.path)
        screen.result({"data": places}, _places(places), _WAYS.rstrip())
        return
    sections: list[DataSection] = []
    for source in sources:
        sections.append(build_config(merged({"data": {"source": source}}, reading.tables())).data)
        parts.check_data_keys(sections[-1])
    read: list[PlainData] = []
    shown: list[Any] = []
    for section in sections:
        screen.starting(f"reading {section.source}")
        facts, uses = _read(section)
        for warning in facts["warnings"]:
            screen.warn(warning)
        read.append({**facts, "table": [use.as_dict() for use in uses]})
        shown += [_described(facts), *([_table(uses)] if uses else [])]
    screen.result({"data": read}, *shown)


def _look(path: str | None) -> list[PlainData]:
    from erasurehead.datasets._published.public import available

    return [
        {
            "name": place.name,
            "file": None if place.file is None else str(place.file),
            "part": place.part,
            "cache": None if place.cache is None else str(place.cache),
            "looked": list(place.looked),
        }
        for place in available(path)
    ]


def _read(section: DataSection) -> tuple[PlainData, tuple[ColumnUse, ...]]:
    from erasurehead.datasets import Dataset
    from erasurehead.datasets._preprocessing.column_uses import column_uses
    from erasurehead.datasets._preprocessing.table_encoding import TableEncoding
    from erasurehead.runs._config import parts
    from erasurehead.runs._summaries import describe

    data = parts.load_data(section, None)
    uses = data.uses if isinstance(data, Dataset) else ()
    if not uses and isinstance(data.encoding, TableEncoding):
        uses = column_uses(data.encoding)
    return describe(data), uses


def _table(uses: tuple[ColumnUse, ...]) -> Table:
    """Return a table of how each column is encoded."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1), pad_edge=False)
    table.add_column("Column", overflow="fold", max_width=_WIDEST)
    table.add_column("Becomes")
    table.add_column("Missing", justify="right")
    table.add_column("Nearly unique")
    for use in uses:
        becomes = f"one-hot, {counted('level', use.width)}" if use.becomes == "one-hot" else use.becomes
        missing = "" if use.missing is None else f"{use.missing:,}"
        table.add_row(Text(visible(use.name, keep="")), becomes, missing, "yes" if use.nearly_unique else "")
    return table


def _places(places: list[PlainData]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for heading in ("Data set", "File", "Looked for in"):
        table.add_column(heading, overflow="fold")
    for place in places:
        part = f" ({place['part']})" if place["part"] else ""
        where = (
            f"{place['file']}{part}" if place["file"] else place["cache"] or "not found (--synthetic makes a stand-in)"
        )
        table.add_row(place["name"], where, ", ".join(place["looked"]))
    return table


def _described(facts: PlainData) -> str:

    shape = (
        f"{facts['train_rows']:,} x {facts['columns']:,} for training, {counted('row', facts['test_rows'])} for testing"
    )
    return "\n".join(
        [f"{facts['name']}: {facts['task']}, {shape} ({facts['source']})", *(f"  {note}" for note in facts["notes"])]
    )

"""`erasurehead data`: which data are there, and where they were looked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from erasurehead.cli.options import OutputOptions, option
from erasurehead.cli.screen import Screen

if TYPE_CHECKING:
    from rich.table import Table

_WAYS = """
Public files are looked for at --path; else in the folder that the environment
variable ERASUREHEAD_DATA names, and its subfolders amazon, kc_housing and
covertype; else in scikit-learn's cache (~/scikit_learn_data, or the folder
that SCIKIT_LEARN_DATA names); else on the network. A synthetic twin needs
none of these: --twin always, when training.
"""

HELP = f"""
Say which data sets of the paper are there, and what is in a file.

[bold]erasurehead data[/bold]
  All three, without reading them.

[bold]erasurehead data amazon --path ~/downloads[/bold]
  Read one, and tell its shape.

[bold]erasurehead data houses.csv --target price --categorical[/bold]
  A file of your own: can it be read, and what becomes of its columns?
{_WAYS}"""


def run(
    *,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME|FILE...", help="Data sets to read; none to look only.", show_default=False),
    ] = None,
    path: Annotated[
        str | None, option("--path", panel="Data", metavar="PLACE", text="Where to look for public files.")
    ] = None,
    label: Annotated[
        str | None, option("--target", "--label", panel="Data", metavar="COLUMN", text="Column to predict.")
    ] = None,
    one_hot: Annotated[
        str | None,
        option("--one-hot", panel="Data", metavar="A,B,...|all", text="Columns whose distinct values become columns."),
    ] = None,
    categorical: Annotated[
        bool | None, option("--categorical", panel="Data", text="One-hot encode every column of texts.")
    ] = None,
    output: OutputOptions,
) -> None:
    """Say which data are there."""
    from erasurehead.cli.options import RunOptions

    screen = Screen(output)
    if not names:
        found = _look(path)
        screen.result({"data": found}, _places(found), _WAYS.rstrip())
        return
    read: list[dict[str, Any]] = []
    for name in names:
        options = RunOptions(data=name, path=path, label=label, one_hot=one_hot, categorical=categorical)
        screen.say(f"reading {name} ...")
        read.append(_read(options))
    screen.result({"data": read}, *(_described(facts) for facts in read))


def _look(path: str | None) -> list[dict[str, Any]]:
    from erasurehead.datasets.public import available

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


def _read(options: Any) -> dict[str, Any]:
    from erasurehead.config import parts
    from erasurehead.experiment import describe

    section = options.config(None).data
    parts.check_data_keys(section)
    return describe(parts.load_data(section, None))


def _places(found: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for heading in ("Data set", "File", "Looked for in"):
        table.add_column(heading, overflow="fold")
    for place in found:
        held = f" ({place['part']})" if place["part"] else ""
        where = f"{place['file']}{held}" if place["file"] else place["cache"] or "not there (--twin stands in)"
        table.add_row(place["name"], where, ", ".join(place["looked"]))
    return table


def _described(facts: dict[str, Any]) -> str:
    shape = f"{facts['train_rows']:,} x {facts['columns']:,} for training, {facts['test_rows']:,} rows for testing"
    return "\n".join(
        [f"{facts['name']}: {facts['task']}, {shape} ({facts['source']})", *(f"  {note}" for note in facts["notes"])]
    )

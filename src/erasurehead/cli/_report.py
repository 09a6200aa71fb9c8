"""`erasurehead report`: what a run did, as a page in one file that can be mailed."""

from __future__ import annotations

from pathlib import Path

from erasurehead.cli._options import OutputOptions, argument, option
from erasurehead.cli._output import Screen

HELP = """
Write what a run did as a page in one file that can be mailed.

[bold]erasurehead report runs/houses[/bold]
  Writes houses.html: the page of erasurehead watch, as it is now. It needs no
  network and no other file.

[bold]erasurehead report runs/compare-1 --out race.html[/bold]
  All runs of a comparison, or of a drill, with their losses in one figure.
"""


def run(
    *,
    folder: str = argument("RUN", "The folder of a run, a comparison or a drill, or the record of a team of networks."),
    out: str | None = option(
        "--out, -o", "The file; by default the folder's name with .html, here.", panel="Output", metavar="FILE"
    ),
    overwrite: bool = option("--overwrite", "Replace a file that is there.", panel="Output", default=False),
    output: OutputOptions,
) -> None:
    """Write what a run did as a page in one file that can be mailed."""
    from erasurehead.watch import write_report

    place = write_report(folder, out or f"{Path(folder).expanduser().absolute().name or 'report'}.html", overwrite)
    Screen(output).result({"report": str(place)}, f"the report is in {place}")

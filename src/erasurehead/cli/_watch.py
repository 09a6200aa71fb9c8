"""`erasurehead watch`: look at a run on a page in the browser while it goes on."""

from __future__ import annotations

import time
from pathlib import Path

from erasurehead.cli._options import OutputOptions, argument, option
from erasurehead.cli._output import Screen

HELP = """
Look at a run in a browser while it goes on.

[bold]erasurehead watch runs/houses[/bold]
  Prints the address of a page: who works, waits, is late, suspected or dead
  now; what each worker did in each step; loss, waiting, residual and bytes;
  deaths and notices. Drag to zoom. Ctrl-C ends the watch, not the run.

[bold]erasurehead watch runs/compare-1[/bold]
  All runs of a comparison, or of a drill, with their losses in one figure.

[bold]erasurehead watch versions.jsonl[/bold]
  A team of networks, by the file that record= of team.optimizer names.

Finished runs are shown, too. The page can be reached from this machine only,
and by nobody who does not know its address; it changes nothing. From another
machine: ssh -L 8000:127.0.0.1:8000 HOST, and --port 8000 there.
"""

_PAUSE = 0.25  # seconds between two looks at what is new


def run(
    *,
    folder: str = argument("RUN", "The folder of a run, a comparison or a drill, or the record of a team of networks."),
    port: int = option(
        "--port",
        "The port of this machine to serve the page on; 0 for a free one.",
        panel="Output",
        metavar="N",
        shown=True,
        min=0,
        default=0,
    ),
    output: OutputOptions,
) -> None:
    """Look at a run in a browser while it goes on."""
    from erasurehead.errors import counted
    from erasurehead.watch._server import serving
    from erasurehead.watch._watch import Watch

    screen, watch = Screen(output), Watch(Path(folder))
    with serving(watch, port) as address:
        screen.result({"address": address, "runs": [run.place.name for run in watch.runs]}, address)
        screen.say(f"watching {counted('run', len(watch.runs))} in {folder}; Ctrl-C ends this, not the run")
        gone = ""
        while True:
            more = watch.read()
            if watch.gone and watch.gone != gone:
                screen.warn(watch.gone)
            gone = watch.gone
            time.sleep(0.0 if more else _PAUSE)

"""`erasurehead resize`: change the number of workers of a run in progress."""

from __future__ import annotations

from pathlib import Path

from erasurehead.cli._options import OutputOptions, argument
from erasurehead.cli._output import Screen
from erasurehead.errors import counted

HELP = """
Add workers to a run in progress, or remove some.

[bold]erasurehead resize runs/houses 20[/bold]
  From its next step on, the run in that folder has 20 workers.

The code is resized for them. Only workers that need data which they do not
hold receive any, and no step is lost. The run reports what it did, and from
then on every record contains the number of workers.
"""


def run(
    *,
    folder: str = argument("RUN", "The run's folder."),
    workers: int = argument("WORKERS", "Number of workers that the run should have."),
    output: OutputOptions,
) -> None:
    """Add workers to a run in progress, or remove some."""
    from erasurehead.runs._control import ask_for_workers

    screen = Screen(output)
    ask_for_workers(Path(folder), workers)
    sentence = f"{folder} is asked to continue with {counted('worker', workers)}"
    screen.result({"folder": folder, "workers": workers}, sentence)

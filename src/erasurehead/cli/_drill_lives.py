"""`erasurehead drill lives`: many short runs, each killed in another way, and resumed."""

from __future__ import annotations

import typer

from erasurehead.cli._drill import KEYS, SCHEME, TEXTS, SubjectOptions
from erasurehead.cli._options import OutputOptions, argument, folder, option, options_of
from erasurehead.cli._output import Screen
from erasurehead.runs._config import Config

HELP = """
Rehearse many short runs, each killed in a different way and then resumed.

[bold]erasurehead drill lives 200 --workers 6[/bold]
  Two hundred lives: workers, the coordinator or both are killed, at the
  start, in the middle of a step or while files are written.

[bold]erasurehead drill lives 30 --workers 6 --engine processes[/bold]
  The same with real processes, one life after the other. It works likewise
  with mpi and ray.

There is one verdict for all. Only the folders of lives that have broken a
promise are kept, and the exit code is 1 if there is one.
"""


_DELAYS = TEXTS["delays.model"].replace("mean=0.5", "mean=0.05")


@options_of(Config, *KEYS, texts={**TEXTS, "delays.model": _DELAYS})
class LifeOptions(SubjectOptions):
    """Options on the run that is made over and over."""


def run(
    *,
    lives: int = argument("LIVES", "Number of lives."),
    seed: int = option("--seed", "Seed of the strikes; by default 0.", panel="Fault schedule", metavar="N", default=0),
    scheme: str | None = SCHEME,
    subject: LifeOptions,
    out: str | None = folder("Folder for lives that broke a promise, and the report; by default a new one in drills."),
    output: OutputOptions,
) -> None:
    """Rehearse many lives."""
    from erasurehead.drills._lives import Lives

    screen = Screen(output)
    findings = Lives(subject.of_scheme(scheme), lives, seed, out).run(screen.say)
    broken = [f"life {one.number}, {one.strike}: {text}" for one in findings.broken for text in one.broken]
    screen.result(findings.as_dict(), "\n".join([*broken, f"{findings.verdict}; the report is in {findings.folder}"]))
    if not findings.passed:
        raise typer.Exit(1)

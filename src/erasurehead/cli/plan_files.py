"""The files of a plan: the run file, the trace from which delays are drawn, the ranking, and the picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from erasurehead._internal.atomic_files import write_whole
from erasurehead.cli.options import RunOptions
from erasurehead.cli.plan_costs import on_shared_cores
from erasurehead.cli.plan_pages import Page
from erasurehead.cli.planned_delays import TRACE, Planned
from erasurehead.cli.screen import Screen
from erasurehead.errors import MissingExtra, invalid
from erasurehead.reports.canvas import prepare_folder
from erasurehead.runs.config import build_config, to_toml
from erasurehead.runs.jsonl import to_text
from erasurehead.runs.names import RUNS, check_writable, next_free

if TYPE_CHECKING:
    from collections.abc import Mapping

RUN, PLAN = "run.toml", "plan.json"
PROCESSES = 64
"""Largest number of workers for which a run file uses processes; more would slow each other down on one machine."""
_STAND_IN = {"source": "amazon", "synthetic": "always", "rows": 6000}


def folder(out: str | None, overwrite: bool) -> Path:
    """Return the folder for the files, and check it early, before anything takes time.

    Arguments:
        out: path of the folder; None for a new one in `runs`.
        overwrite: whether an earlier plan in the folder may be replaced.

    Raises:
        InvalidArgument: if it holds an earlier plan, or cannot be written to.
    """
    if out is None:
        return next_free(RUNS, "plan")
    place = Path(out).expanduser()
    if (place / RUN).exists() and not overwrite:
        raise invalid("--out", "must not hold an earlier plan", out, "add --overwrite to replace it")
    check_writable(place, "The folder")
    return place


def write(
    place: Path, page: Page, facts: dict[str, Any], found: Planned, options: RunOptions, figures: bool, screen: Screen
) -> list[Path]:
    """Write all files of a plan, and return their paths.

    Arguments:
        place: the folder.
        page: the plan, with trials if there were any.
        facts: the page as plain data.
        found: the delays and workers of the plan.
        options: options of the command for the run file.
        figures: whether to draw the picture.
        screen: prints a warning if there is no picture.
    """
    prepare_folder(place, "private")
    tables = run_tables(page, options)
    build_config(tables)  # checks that the run file will be valid
    head = f"# Made by erasurehead plan. To run it: erasurehead train {place / RUN}\n"
    if options.data is None:
        head += (
            "# No data were given: synthetic data like the paper's are used. To train on yours, replace all of [data] "
            'by source = "FILE" and target = "COLUMN".\n'
        )
    write_whole(place / RUN, [f"{head}{to_toml(tables)}".encode()])
    write_whole(place / PLAN, [to_text(facts).encode()])
    files = [place / RUN, place / PLAN]
    if found.trace is not None:
        from erasurehead.delays import write_trace

        write_trace(found.trace, place / TRACE)
        files.append(place / TRACE)
    return [*files, *(_drawn(place, page, screen) if figures else ())]


def last_words(files: list[Path], place: Path, page: Page, options: RunOptions) -> str:
    """Return sentences on what was written, how to run it, and how the run may differ from the prediction.

    Arguments:
        files: the files written.
        place: their folder.
        page: the plan.
        options: options of the command.
    """
    said = [f"{', '.join(path.name for path in files)} in {place}"]
    if options.data is None:
        said.append(
            "The run file trains on a synthetic stand-in of the paper's data; to train on yours, replace all of [data] "
            'by source = "FILE" and target = "COLUMN".'
        )
    engine = run_tables(page, options)["run"]["engine"]
    if options.engine is None and engine == "virtual":
        said.append(
            f"It runs on a virtual clock, because {page.plan.n_workers:,} processes are too many for one machine."
        )
    if engine == "processes" and page.plan.seconds_per_task > 0.0:
        said.append(
            "On processes, computing takes as long as it takes; --engine virtual counts "
            f"{page.plan.seconds_per_task:g} s a task, as the plan does."
        )
        said += on_shared_cores(page.plan)
    return "\n".join([*said, f"erasurehead train {place / RUN}"])


def run_tables(page: Page, options: RunOptions) -> dict[str, Any]:
    """Return the run file of the best setting as plain data: the plan's delays and workers, and the user's options.

    Arguments:
        page: the plan.
        options: options of the command.
    """
    given = options.tables()
    kept = ("problem", "optimizer", "checkpoints", "faults")
    sections: dict[str, Mapping[str, Any]] = {key: given[key] for key in kept if key in given}
    sections["data"] = _STAND_IN
    if options.data is not None:
        own = Path(options.data).expanduser()
        sections["data"] = {**given["data"], **({"source": str(own.absolute())} if own.is_file() else {})}
    run = {key: value for key, value in given.get("run", {}).items() if key not in ("out", "overwrite", "workers")}
    engine = "processes" if page.plan.n_workers <= PROCESSES else "virtual"
    return page.plan.run_file(None, **sections, run={"engine": engine, **run})


def _drawn(place: Path, page: Page, screen: Screen) -> list[Path]:
    from erasurehead.planning.pictures import draw_plan

    try:
        return draw_plan(page.plan, place, trials=page.trials, goal=page.goal)
    except MissingExtra as missing:
        screen.warn(f"No picture: {missing}")
        return []

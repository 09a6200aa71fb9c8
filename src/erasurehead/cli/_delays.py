"""`erasurehead delays`: describe traces, and fit distributions to them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from erasurehead.cli._options import OutputOptions, argument, folder, option, pictures
from erasurehead.cli._output import Screen
from erasurehead.cli._traces import TraceOptions
from erasurehead.errors import counted
from erasurehead.runs._names import RUNS, check_writable, next_free

HELP = """
Fit and show delays.

[bold]erasurehead delays show latencies.csv[/bold]
  How long delays are, how unequal within a step, and who is always slow.

[bold]erasurehead delays fit latencies.csv[/bold]
  Which distribution is it? All families, ranked, with a picture.

[bold]erasurehead delays fit aws.csv.gz --column step=round \\
    --column seconds=latency_s --where region=Canada --where load=0.5[/bold]
  A file with other column names: say which of them is which.

[bold]erasurehead delays fit runs/houses[/bold]
  Every run is a trace: give its folder.

A trace has a line for each delay, with the columns worker, step, seconds and,
if needed, load (tasks computed) and censored (1 if the worker was not waited
for, and is known only to be slower). CSV, Parquet, or the arrivals.jsonl of a
run.
"""

_FIT = """
Fit distributions to a trace, and rank them.

[bold]erasurehead delays fit latencies.csv[/bold]

[bold]erasurehead delays fit latencies.csv --unit ms --family weibull \\
    --family lognormal --out fits[/bold]

Fits are by maximum likelihood, which takes censoring into account, and ranked
by Akaike's criterion (AIC), where differences below 2 mean nothing. The gap
is the largest distance of the P-P plot from the diagonal; beside it stands
the gap that chance alone would leave.
"""

_SHOW = """
Describe a trace or a delay model.

[bold]erasurehead delays show latencies.csv[/bold]

[bold]erasurehead delays show 'pareto(0.1, 1.5)' --workers 30[/bold]
"""

_WHAT = "Fit"


def fit(
    *,
    trace: str = argument("TRACE", "A file, or a run folder."),
    reading: TraceOptions,
    family: list[str] | None = option(
        "--family",
        "exponential, shifted_exponential, weibull, shifted_weibull, lognormal, shifted_lognormal, pareto. "
        "Repeat it for each; by default all.",
        panel=_WHAT,
        metavar="NAME",
    ),
    scale_with_load: bool = option(
        "--scale-with-load", "Fit seconds per task: delays grow with the load.", panel=_WHAT, default=False
    ),
    out: str | None = folder("Folder for the picture; by default a new one in runs."),
    figures: bool = pictures("a picture"),
    output: OutputOptions,
) -> None:
    """Fit distributions to a trace."""
    from erasurehead.cli import _delay_pages as pages
    from erasurehead.delays import fit_trace, slow_workers
    from erasurehead.delays._families import family as find_family
    from erasurehead.reports._delay_pictures import draw_fits

    screen = Screen(output)
    if figures and out is not None:
        check_writable(Path(out).expanduser(), "The folder")
    for name in family or ():
        find_family(name)
    samples = reading.read(trace)
    fits = fit_trace(samples, family, scale_with_load)
    slow = slow_workers(samples)
    files: list[Path] = []
    if figures:
        with screen.drawing("picture"):
            files = draw_fits(samples, fits, next_free(RUNS, "fit") if out is None else out, scale_with_load)
    data = {
        "trace": pages.trace_facts(samples),
        "fits": [pages.fit_facts(item, fits[0]) for item in fits],
        "ruled_out": dict(fits.ruled_out),
        "slow_workers": [asdict(item) for item in slow],
        "files": [str(path) for path in files],
    }
    shown = [pages.title(samples), pages.fits_table(fits), *pages.fit_notes(fits), *pages.slow_lines(slow)]
    if files:
        shown.append(f"picture: {', '.join(map(str, files))}")
    screen.result(data, *shown)


def show(
    *,
    what: str = argument("TRACE|MODEL", "A file, a run folder, or a model."),
    reading: TraceOptions,
    workers: int = option(
        "--workers, -w",
        "Number of workers to draw for (of a model).",
        panel="Model",
        metavar="N",
        min=1,
        shown=True,
        default=30,
    ),
    steps: int = option(
        "--steps, -n",
        "Number of steps to draw (of a model).",
        panel="Model",
        metavar="N",
        min=1,
        shown=True,
        default=1000,
    ),
    output: OutputOptions,
) -> None:
    """Describe a trace or a model."""
    from erasurehead.cli import _delay_pages as pages
    from erasurehead.delays._summaries import summarize, summarize_model
    from erasurehead.delays._text import MODELS
    from erasurehead.runs._config.parts import build_delays

    screen = Screen(output)
    if ("(" in what or what in MODELS) and not Path(what).expanduser().exists():
        model = build_delays(what)
        summary = summarize_model(model, workers, steps)
        apart = ", a second apart" * model.follows_clock
        name = f"{model}: {counted('step', steps)} of {counted('worker', workers)} drawn{apart}"
        facts = {"model": str(model)}
    else:
        trace = reading.read(what)
        summary = summarize(trace)
        facts, name = {"trace": pages.trace_facts(trace)}, pages.title(trace)
    screen.result(
        {**facts, **pages.summary_facts(summary)}, name, pages.summary_table(summary), *pages.slow_lines(summary.slow)
    )


COMMANDS = {"fit": (fit, _FIT), "show": (show, _SHOW)}
"""Its subcommands, each with its help."""

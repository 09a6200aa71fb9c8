"""`erasurehead plan-network`: in which way ranks that train a network should meet, and what that gains."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, replace
from typing import TYPE_CHECKING, cast

from erasurehead.cli._options import OutputOptions, option
from erasurehead.cli._output import Screen
from erasurehead.cli._traces import TraceOptions
from erasurehead.errors import InvalidArgument, counted, invalid

if TYPE_CHECKING:
    from rich.table import Table

    from erasurehead.delays import Delays
    from erasurehead.delays._bootstrap import Keep
    from erasurehead.planning._networks import NetworkOptimizer, NetworkPlan

HELP = """
Plan how ranks that train a network should meet: wait, or which way instead.

[bold]erasurehead plan-network --trace latencies.csv \\
    --seconds-per-sample 0.002 --batch 512[/bold]
  From how long each rank took in each step, of which 0.002 s a sample are
  computing. Ranks the ways in which a team of erasurehead.torch can meet.

[bold]erasurehead plan-network --delays 'exponential(mean=0.01)' --ranks 8 \\
    --seconds-per-sample 0.002 --batch 512 --optimizer adamw \\
    --model-bytes 40e6 --mbit 20[/bold]
  From assumed delays, on lines of 20 Mbit/s.

How long steps take follows from the delays. How many of them each way needs
depends on the network: for that, there are ranges of what was measured.
"""

_DELAYS, _NETWORK = "Delays", "Network"


@dataclass(frozen=True, kw_only=True)
class NetworkOptions(TraceOptions):
    """Options on ranks, their delays, and the network."""

    trace: str | None = option(
        "--trace, -t",
        "A trace, or the folder of a run, to draw delays from. Its times include computing, which is subtracted.",
        panel=_DELAYS,
        metavar="TRACE",
    )
    delays: str | None = option(
        "--delays, -d", "A delay model, such as 'exponential(mean=0.2)'.", panel=_DELAYS, metavar="MODEL"
    )
    keep: str | None = option(
        "--keep",
        "What a draw from the trace keeps together: rounds (the default), workers, or pooled (all ranks alike, for "
        "any number of them).",
        panel=_DELAYS,
        metavar="WHAT",
    )
    ranks: int | None = option(
        "--ranks, -n", "Number of ranks; by default that of the trace.", panel=_NETWORK, metavar="N"
    )
    seconds_per_sample: str = option(
        "--seconds-per-sample",
        "Time in which a rank computes a sample, forward and backward; or one number for each rank, with commas.",
        panel=_NETWORK,
        metavar="SECONDS",
        default=MISSING,
    )
    batch: int = option(
        "--batch, -b", "Samples of a batch of all ranks together.", panel=_NETWORK, metavar="N", default=MISSING
    )
    optimizer: str = option(
        "--optimizer",
        "momentum (SGD with momentum) or adamw (Adam and its kin).",
        panel=_NETWORK,
        metavar="NAME",
        default="momentum",
        shown=True,
    )
    sorted_shards: bool = option(
        "--sorted",
        "Each rank has samples of its own kinds, such as classes; by default they are mixed.",
        panel=_NETWORK,
        default=False,
    )
    model_bytes: float = option(
        "--model-bytes",
        "Size of the model's parameters, 4 bytes each; needed with --mbit.",
        panel=_NETWORK,
        metavar="BYTES",
        default=0.0,
    )
    mbit: float = option(
        "--mbit",
        "Million bits a second of each rank's line, each way; by default sending takes no time.",
        panel=_NETWORK,
        metavar="MBIT",
        default=math.inf,
    )


def run(*, asked: NetworkOptions, output: OutputOptions) -> None:
    """Plan how ranks meet."""
    from erasurehead.planning import plan_network

    screen = Screen(output)
    seconds = _seconds(asked.seconds_per_sample)
    delays, ranks, source = _drawn(asked, seconds, screen)
    plan = plan_network(
        delays,
        ranks,
        seconds[0] if len(seconds) == 1 else seconds,
        asked.batch,
        asked.model_bytes,
        asked.mbit,
        cast("NetworkOptimizer", asked.optimizer),
        mixed=not asked.sorted_shards,
    )
    screen.say(f"{counted('rank', ranks)}, {source}")
    screen.result(
        {"ranks": ranks, "best": plan.best.name, **asdict(plan)},
        _table(plan),
        "",
        "\n".join([_choice(plan), "", *(f"{way.name}: {way.reason}" for way in plan.ways), "", *plan.remarks]),
    )


def _seconds(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        rule = "must be a number of seconds, or one for each rank with commas between them"
        raise invalid("--seconds-per-sample", rule, text) from None


def _drawn(asked: NetworkOptions, seconds: list[float], screen: Screen) -> tuple[Delays, int, str]:
    """Return the delays, for how many ranks they are, and where they come from."""
    import numpy as np

    from erasurehead.cli._plan_asked import check_drawable, check_source, come_with
    from erasurehead.delays import parse
    from erasurehead.planning._trace_delays import drawn_from

    check_source(asked.trace, asked.delays)
    of_traces = {"--keep": asked.keep, "--column": asked.column, "--where": asked.where, "--unit": asked.unit}
    come_with("--trace", asked.trace, of_traces)
    if asked.trace is None:
        if asked.ranks is None:
            raise InvalidArgument("--ranks", "must come with --delays", sentence="--delays needs --ranks: of how many?")
        return parse(cast("str", asked.delays)), asked.ranks, str(asked.delays)
    trace = asked.read(asked.trace)
    ranks, keep = trace.n_workers if asked.ranks is None else asked.ranks, cast("Keep", asked.keep or "rounds")
    check_drawable(trace, ranks, keep, "--ranks")
    if len(seconds) > 1 and not len(seconds) == ranks == trace.n_workers:
        rule = f"must be one number, or one for each of the {trace.n_workers} ranks of the trace"
        raise invalid("--seconds-per-sample", rule, asked.seconds_per_sample)
    if len(seconds) > 1:  # a load is then a second of computing for each sample
        trace = replace(trace, load=trace.load * np.array(seconds)[trace.worker])
    computing = (1.0 if len(seconds) > 1 else seconds[0]) * asked.batch / ranks
    drawn = drawn_from(
        trace, ranks, keep, "censored", computing, scale_with_load=False, warn=screen.warn, of_network=True
    )
    return drawn.delays, ranks, drawn.text


def _table(plan: NetworkPlan) -> Table:
    """Return the ways as a table, the first choice first."""
    from rich import box
    from rich.table import Table

    from erasurehead.reports._units import seconds_text

    def written(value: float, form: Callable[[float], str] = seconds_text) -> str:
        return form(value) if value < math.inf else "never"

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("Way")
    for head in ("As 1 step\nof all", "range", "Samples, × those\nof wait for all", "× wait\nfor all"):
        table.add_column(head, justify="right")
    for way in plan.ways:
        usual, least, most = (written(each, "{:.3g}".format) for each in way.needs)
        samples = usual if least == most else f"{usual} ({least} to {most})"
        band = " to ".join(dict.fromkeys(map(written, way.band)))
        times = _times(plan.waiting.seconds, way.seconds) if way is not plan.waiting else "1"
        table.add_row(way.name, written(way.seconds), band, samples, times)
    return table


def _times(whole: float, seconds: float) -> str:
    """Return how many times as fast as waiting for all a way is."""
    times = whole / seconds if seconds < math.inf else 0.0
    return "∞" if times == math.inf else f"{times:,.0f}" if times >= 100.0 else f"{times:.2g}"


def _choice(plan: NetworkPlan) -> str:
    best, whole = plan.best, plan.waiting.seconds
    if best is plan.waiting:
        return "Wait for all, with DistributedDataParallel: no other way is worth a change here."
    begun = f"{best.name}, in a script: {best.call}."
    if whole == math.inf:
        return f"{begun} Waiting for all would never end a step."
    about, least, most = (_times(whole, seconds) for seconds in (best.seconds, *best.band[::-1]))
    span = f"{least} to {most} times" if best.band[1] < math.inf else f"{most} times at most, and never at worst,"
    by_samples = f", {span} by how many samples networks have needed" * (least != most)
    return f"{begun} About {about} times as fast as waiting for all{by_samples}."

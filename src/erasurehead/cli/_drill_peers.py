"""`erasurehead drill peers`: inject crashes and a network partition into a run without a coordinator."""

from __future__ import annotations

import typer

from erasurehead.cli._drill import verdicts
from erasurehead.cli._options import FileOptions, OutputOptions, folder, option, options_of
from erasurehead.cli._output import Screen
from erasurehead.consensus._config import ConsensusConfig

HELP = """
Rehearse faults of peers that train without a coordinator.

[bold]erasurehead drill peers[/bold]
  Ten peers, a minute of virtual time: one is killed, one is killed and comes
  back, and the network is cut and heals.

[bold]erasurehead drill peers --policy 'local()' --engine processes \\
    --peers 6 --seconds 20 --delays 'exponential(mean=0.05)'[/bold]
  Real processes, and another policy of whom to wait for.

The same run is made twice: first without faults (the baseline), then with
them. The exit code is 1 if a promise was broken.
"""


@options_of(
    ConsensusConfig,
    *("consensus.peers", "consensus.graph", "consensus.policy", "delays.model", "run.engine", "run.seed"),
    texts={
        "delays.model": "Delays of the gradients, the same in both runs; by default exponential(mean=0.5, seed=0).",
        "run.engine": "virtual (the default) or processes.",
        "run.seed": "Seed of the peers that are killed or cut off, and of mini-batches.",
    },
)
class PeerOptions(FileOptions):
    """Options on the run into which faults are injected."""


def run(
    *,
    seconds: float = option(
        "--seconds",
        "Length of each run on the engine's clock; by default 60.",
        panel="Peers",
        metavar="SECONDS",
        default=60.0,
    ),
    options: PeerOptions,
    out: str | None = folder("Folder for the report; by default a new one in drills."),
    output: OutputOptions,
) -> None:
    """Rehearse what happens to peers."""
    from erasurehead.consensus._drill import PeerDrill

    screen = Screen(output)
    findings = PeerDrill(options.tables(), seconds, out=out).run(screen.say)
    screen.result(findings.as_dict(), verdicts(findings))
    if not findings.passed:
        raise typer.Exit(1)

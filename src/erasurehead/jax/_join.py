"""How a script finds its team, and runs on a virtual clock."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from erasurehead.delays import Delays
from erasurehead.jax._team import JaxTeam
from erasurehead.torch._join import joined_place
from erasurehead.torch._simulate import Event, Simulated, on_clock

Returned = TypeVar("Returned")


def join(secret_file: str | os.PathLike[str] | None = None, trusted_network: bool = False) -> JaxTeam:
    """Return this process's team; a team of one where there are no others.

    Which rank of how many this is says the launcher: `python -m erasurehead.torch.run`, mpiexec or srun.

    Arguments:
        secret_file: for ranks on several hosts: a file that only its owner can read, with the same secret on all hosts.
        trusted_network: for ranks on several hosts whose ports nobody else can reach: do without a secret.

    Raises:
        ErasureHeadError: if what the launcher says makes no sense, the ranks cannot reach each other, or this rank has
            joined already.
    """
    return JaxTeam(joined_place(secret_file, trusted_network))


def simulate(
    main: Callable[[], Returned],
    ranks: int = 10,
    delays: Delays | str | None = None,
    seconds_per_sample: float | Sequence[float] = 0.0,
    seed: int = 0,
    faults: Sequence[Event] = (),
    latency: float = 0.0,
    mbit: float = float("inf"),
) -> Simulated[Returned]:
    """Run a script's main as a team on a virtual clock.

    What ranks compile they share, if their `loss` and their optimizer are the same objects.

    Arguments:
        main, ranks, delays, seconds_per_sample, seed, faults, latency, mbit: as those of `erasurehead.torch.simulate`.

    Raises:
        InvalidArgument: if an argument breaks a rule.
        Exception: whatever `main` raises in a rank, with the rank and the time as a note.
    """
    return on_clock(main, ranks, delays, seconds_per_sample, seed, faults, latency, mbit)

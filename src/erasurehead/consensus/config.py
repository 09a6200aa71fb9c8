"""What a run file of `erasurehead consensus` may say."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from erasurehead._internal.storage import Access
from erasurehead.runs.config.sections import CheckpointsSection, DataSection, ProblemSection


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ConsensusSection(_Section):
    """`[consensus]`: who talks to whom, whom they wait for, and how their models move.

    Attributes:
        peers: how many.
        graph: who is whose neighbour, such as `"ring()"` or `"edges(['a-b', 'b-c'])"`.
        policy: whom a peer waits for: `full()`, `static(wait_for=2)`, `dynamic()`, `local()`, `bounded_staleness()` or
            `pairwise()`.
        mixing: with which weights neighbours average: `metropolis()`, `max_degree()` or `fixed()`.
        algorithm: `sgd()`, `momentum()`, `quasi_global()` or `gradient_tracking()`.
        split: how the samples are dealt out: `even()` or `dirichlet(alpha=0.3)`.
        batch: samples of a gradient; 0 for all that a peer has.
        rate: step size, or a schedule such as `"geometric(0.1, 0.99)"`.
        orphans: what becomes of the share of one who leaves: `out`, or `taken over` by its neighbours.
        faults: a fault schedule, as `erasurehead drill` writes it.
        notice: seconds until it is noticed that somebody is gone.
    """

    peers: int = Field(default=10, ge=2)
    graph: str = "erdos_renyi(p=0.4, seed=0)"
    policy: str = "dynamic()"
    mixing: str = "metropolis()"
    algorithm: str = "sgd()"
    split: str = "even()"
    batch: int = Field(default=32, ge=0)
    rate: float | str = 0.05
    orphans: Literal["out", "taken over"] = "out"
    faults: str | None = None
    notice: float = Field(default=1.0, ge=0, allow_inf_nan=False)


class PeerDataSection(DataSection):
    """`[data]`: as for training with a coordinator, and `mnist` (the default) or `cifar10` besides.

    Attributes:
        source: a data set of images, or one of the paper, or a file of the user's own.
    """

    source: str = "mnist"


class PeerDelaysSection(_Section):
    """`[delays]`: what a gradient takes.

    Attributes:
        model: such as `"exponential(mean=0.5, seed=0)"`; by default 1 + Exp(1) seconds, and five times as much for
            peer 0.
        late: what becomes of work that nobody waits for any more: it is carried to its end, or dropped.
        rows_every: seconds of the clock after which the next row of the model holds, for traces; by default each step
            of a peer draws its own.
        seconds_per_step: what a gradient takes besides.
        latency: seconds that a message takes.
    """

    model: str | None = None
    late: Literal["carry", "preempt"] = "carry"
    rows_every: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    seconds_per_step: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    latency: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class PeerRunSection(_Section):
    """`[run]`: how long, and where the records go.

    Attributes:
        engine: where peers run: the virtual clock, processes of this machine, or ranks of an MPI job. Real peers sit
            their delays out; `delays.seconds_per_step` and `delays.latency` are for the virtual clock.
        start_patience: seconds that ranks of MPI may be missing at the start; 30 by default.
        start_limit: seconds that the start of MPI may take in all; 120 by default.
        steps: of each peer, on the mean.
        evaluate_every: steps a peer between two looks at the mean model.
        seed: of mini-batches.
        out: the run folder; by default a new one in `runs`.
        overwrite: whether `out` may hold an earlier run, which is then removed.
        access: who may read a new run folder.
    """

    engine: Literal["virtual", "processes", "mpi"] = "virtual"
    start_patience: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    start_limit: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    steps: int = Field(default=200, ge=1)
    evaluate_every: float = Field(default=2.0, gt=0, allow_inf_nan=False)
    seed: int = Field(default=0, ge=0)
    out: str | None = None
    overwrite: bool = False
    access: Access = "private"


class ConsensusConfig(_Section):
    """All that such a run file may say.

    Attributes:
        consensus: `[consensus]`.
        data: `[data]`; `mnist` by default, or `cifar10`, or a file of the user's own.
        problem: `[problem]`.
        delays: `[delays]`.
        run: `[run]`.
        checkpoints: `[checkpoints]`.
    """

    consensus: ConsensusSection = ConsensusSection()
    data: PeerDataSection = PeerDataSection()
    problem: ProblemSection = ProblemSection()
    delays: PeerDelaysSection = PeerDelaysSection()
    run: PeerRunSection = PeerRunSection()
    checkpoints: CheckpointsSection = CheckpointsSection()

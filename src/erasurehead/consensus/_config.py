"""The run files of `erasurehead consensus`."""

from __future__ import annotations

from typing import Literal

from erasurehead.runs._config.sections import (
    CheckpointsSection,
    DataSection,
    ProblemSection,
    RecordsSection,
    Section,
    key,
)


class ConsensusSection(Section):
    """`[consensus]`: the graph of peers, their policy, and how their models move."""

    peers: int = key(10, "Number of peers.", option="--peers, -n", metavar="N", ge=2)
    graph: str = key(
        "erdos_renyi(p=0.4, seed=0)",
        "The links between peers: 'ring()', 'path()', 'torus()', 'star()', 'complete()', 'exponential()', "
        "'erdos_renyi(p=0.4, seed=0)' (the default), 'random_regular(degree=4)', 'small_world()', or "
        "\"edges(['a-b', 'b-c'])\".",
        option="--graph, -g",
        metavar="GRAPH",
    )
    policy: str = key(
        "dynamic()",
        "Whom a peer waits for: 'full()', 'static(wait_for=2)', 'dynamic()' (cb-DyBW, the default), 'local()', "
        "'bounded_staleness(steps=4)', 'pairwise()' (AD-PSGD), or \"pairwise(partners='in turn')\".",
        option="--policy",
        metavar="POLICY",
    )
    mixing: str = key(
        "metropolis()",
        "Weights with which neighbours average: metropolis (the default), max_degree or fixed.",
        option="--mixing",
        metavar="MIXING",
    )
    algorithm: str = key(
        "sgd()",
        "How models move: 'sgd()' (the default), 'momentum(0.5)', 'quasi_global()' or 'gradient_tracking()'.",
        option="--algorithm",
        metavar="ALGORITHM",
    )
    split: str = key(
        "even()",
        "How the samples are split among the peers: 'even()' (the default) or 'dirichlet(alpha=0.3)'.",
        option="--split",
        metavar="SPLIT",
    )
    model: Literal["linear", "network"] | None = key(
        None,
        "The model: linear (the default), or network (one hidden layer, for classes; the default with --hidden).",
        option="--model",
        metavar="MODEL",
    )
    hidden: int = key(
        0,
        "Units of the hidden layer of a network (64 by default).",
        option="--hidden",
        metavar="N",
        ge=0,
        le=10_000_000,
    )
    batch: int = key(
        32, "Samples per gradient; 0 for all samples of a peer.", option="--batch", metavar="N", ge=0, le=10_000_000
    )
    rate: float | str = key(
        0.05, "Step size, or a schedule such as 'geometric(0.1, 0.99)'.", option="--rate", metavar="NUMBER|SCHEDULE"
    )
    orphans: Literal["out", "taken over"] = key(
        "out",
        "What happens to the samples of a peer that is gone: out (left out, the default), or taken over by its "
        "neighbours.",
        option="--orphans",
        metavar="WHAT",
    )
    faults: str | None = key(
        None,
        "A fault schedule of kills, stops and disconnections, as erasurehead drill writes it.",
        option="--faults",
        metavar="FILE",
    )
    notice: float = key(
        1.0,
        "Seconds until the other peers notice that a peer is gone.",
        option="--notice",
        metavar="SECONDS",
        ge=0,
        allow_inf_nan=False,
    )


class PeerDataSection(DataSection):
    """`[data]`: as for training with a coordinator, and also `mnist` (the default) or `cifar10`."""

    source: str = key(
        "mnist",
        "A data set of images: mnist (the default) or cifar10; or a data set of the paper, or your own file, as for "
        "erasurehead train.",
        option="--data, -d",
        metavar="NAME|FILE",
    )
    rows: int | None = key(
        None,
        "Number of training rows of mnist or cifar10 to read (10,000 by default), or of a synthetic stand-in.",
        option="--rows",
        metavar="N",
        ge=1,
    )


class PeerDelaysSection(Section):
    """`[delays]`: how long gradients take."""

    model: str | None = key(
        None,
        "Seconds that a gradient takes, such as 'exponential(mean=0.5)'; by default 1 + Exp(1), and five times as much "
        "for peer 0.",
        option="--delays",
        metavar="MODEL",
    )
    late: Literal["carry", "preempt"] = key(
        "carry",
        "What happens to a gradient that no peer waits for any more: carry (it is finished, the default) or preempt "
        "(it is dropped).",
        option="--late",
        metavar="HOW",
    )
    rows_every: float | None = key(
        None,
        "For traces: seconds of the clock after which the next row of the delay model applies; by default each step of "
        "a peer draws its own.",
        option="--rows-every",
        metavar="SECONDS",
        ge=1e-6,
        allow_inf_nan=False,
    )
    seconds_per_step: float = key(
        0.0, "On the virtual clock: seconds that are added to each gradient.", ge=0, allow_inf_nan=False
    )
    latency: float = key(
        0.0,
        "On the virtual clock: seconds that a message takes.",
        option="--latency",
        metavar="SECONDS",
        ge=0,
        allow_inf_nan=False,
    )


class _PeerTrainingSection(Section):
    """The engine, and the length of the run."""

    engine: Literal["virtual", "processes", "mpi"] = key(
        "virtual",
        "Where peers run: virtual (the default: a clock on which waiting takes no time), processes, or mpi, with one "
        "more rank than peers. Real peers sit out their delays.",
        option="--engine, -e",
        metavar="ENGINE",
        panel="Peers",
    )
    start_limit: float | None = key(
        None, "For MPI: seconds that the start of all ranks may take.", gt=0, allow_inf_nan=False
    )
    steps: int = key(200, "Steps per peer, on average.", option="--steps", metavar="N", panel="Output", ge=1)
    evaluate_every: float = key(
        2.0,
        "Steps per peer between two evaluations of the mean model.",
        option="--evaluate-every",
        metavar="N",
        panel="Output",
        ge=1e-3,
        le=1e9,
        allow_inf_nan=False,
    )
    model_of: int | None = key(
        None,
        "The peer whose model is saved; by default the mean model of all present peers.",
        option="--model-of",
        metavar="PEER",
        panel="Output",
        ge=0,
    )
    seed: int = key(
        0,
        "Seed of mini-batches, and of the first model of a network.",
        option="--seed",
        metavar="N",
        panel="Output",
        ge=0,
    )


class PeerRunSection(RecordsSection, _PeerTrainingSection):
    """`[run]`: the engine, the length of the run, and where its records go."""


class ConsensusConfig(Section):
    """A run file for training without a coordinator."""

    consensus: ConsensusSection = ConsensusSection()
    data: PeerDataSection = PeerDataSection()
    problem: ProblemSection = ProblemSection()
    delays: PeerDelaysSection = PeerDelaysSection()
    run: PeerRunSection = PeerRunSection()
    checkpoints: CheckpointsSection = CheckpointsSection()

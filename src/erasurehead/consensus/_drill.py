"""A fault-injection drill of peers: the same run without and with faults, and whether the guarantees held."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import final

from erasurehead._internal.documents import Entries, PlainData
from erasurehead._internal.rng import stream
from erasurehead._internal.storage.folders import Folder
from erasurehead._internal.user_files import StrPath
from erasurehead.consensus._experiment import ConsensusExperiment
from erasurehead.consensus._injected_faults import Crash, NetworkPartition, PeerFault, partitioned
from erasurehead.consensus._plans import ConsensusPlan
from erasurehead.consensus._result import ConsensusRun
from erasurehead.consensus._rows import PeerRow
from erasurehead.consensus._training import run_plan
from erasurehead.consensus._training_options import TrainingOptions
from erasurehead.consensus._views import NetworkView
from erasurehead.drills._drill import unused
from erasurehead.drills._verdicts import SOON, DrillVerdict, Judged
from erasurehead.errors import check_count, counted, invalid, real
from erasurehead.runs._config import merged

SECONDS = 60.0
"""How long each of the two runs takes by default, by the engine's clock."""

ENGINES = ("virtual", "processes")
"""The engines of drills of peers. MPI ranks are started by mpiexec, and not by a drill."""

_PROPAGATION = {"virtual": 0.0, "processes": 0.1}  # seconds until all peers know of a view change
_UNLIMITED = 10_000_000  # steps; a drill ends by the clock
# Fractions of the baseline's total progress, which is its first objective minus its best one:
_MAX_SETBACK = 0.25  # by which a view change may raise the objective of the mean model
_MAX_LAG = 0.1  # by which the faulty run may be behind the baseline run at the end


DEFAULTS: Entries = {
    "consensus": {"orphans": "taken over", "notice": 0.0},
    "data": {"synthetic": "always", "rows": 2000},
    "delays": {"model": "exponential(mean=0.5, seed=0)"},
}
"""What runs of drills of peers take by default, as tables of a run file."""


@final
class PeerDrill:
    """A run of peers that is to be drilled.

    Arguments:
        tables: tables of its run file, above `DEFAULTS`; it has at least 4 peers.
        seconds: duration of each of the two runs, by the engine's clock; at least 1.
        faults: the injected faults; by default, one after the other, a peer crashes for good, another one crashes and
            rejoins, and the network is partitioned and heals.
        out: its folder, which must be unused; by default a new one in `drills`.

    Attributes:
        config: the run file.
        plan: the plan of the faulty run.

    Raises:
        InvalidArgument: if an argument is invalid; raised before anything starts.
    """

    def __init__(
        self,
        tables: Entries,
        seconds: float = SECONDS,
        faults: Sequence[PeerFault] | None = None,
        out: StrPath | None = None,
    ) -> None:
        if not 1.0 <= real(seconds) < 1e6:
            raise invalid("seconds", "must be at least 1, and less than a million", seconds)
        whole = merged(DEFAULTS, tables)
        check_count("consensus.peers", whole["consensus"].get("peers", 4), 4)
        experiment = ConsensusExperiment.from_tables(whole)
        self.config, self.seconds, run = experiment.config, seconds, experiment.config.run
        if run.engine not in ENGINES:
            raise invalid("run.engine", f"must be one of {', '.join(ENGINES)} for peers", run.engine)
        faults = _drawn(experiment.plan, seconds) if faults is None else faults
        self.plan = replace(experiment.plan, faults=faults)
        self.out = unused(out, f"peers-{run.engine}-{run.seed}")

    def run(self, say: Callable[[str], None] = lambda text: None) -> PeerFindings:
        """Make both runs, and check the guarantees.

        Arguments:
            say: called with lines about the progress.
        """
        options = TrainingOptions(steps=_UNLIMITED, until=self.seconds, metrics=False)
        for fault in self.plan.faults:
            say(f"{fault.at:10.2f} s  {fault}")
        say("the baseline run ...")
        baseline = run_plan(replace(self.plan, faults=()), options, self.config.run.engine)
        say("the faulty run ...")
        faulty = run_plan(self.plan, options, self.config.run.engine)
        Folder.made(self.out).close()
        return PeerFindings(str(self.out), self, baseline, faulty).write()


def _drawn(plan: ConsensusPlan, seconds: float) -> tuple[PeerFault, ...]:
    """Return the default faults, with peers drawn at random; a side of the partition is a connected subgraph."""
    n_peers = plan.graph.n_peers
    dead, back = map(int, stream("peers of a drill", plan.seed).permutation(n_peers)[:2])
    others = NetworkView(plan.graph, frozenset({dead}))
    side, start = [back], 0
    while len(side) < n_peers // 2:  # a connected side, so that its peers can still average
        new = [peer for peer in others.neighbours[side[start]] if peer not in side]
        side += new[: n_peers // 2 - len(side)]
        start += 1
    return (
        Crash(dead, 0.2 * seconds),
        Crash(back, 0.35 * seconds, 0.5 * seconds),
        NetworkPartition(tuple(side), 0.6 * seconds, 0.75 * seconds),
    )


@final
@dataclass(frozen=True, eq=False)
class PeerFindings(Judged):
    """The findings of a drill of peers.

    Attributes:
        drill: the drill.
        baseline, faulty: the run without and with faults.
    """

    drill: PeerDrill
    baseline: ConsensusRun
    faulty: ConsensusRun

    def judge(self) -> Iterator[DrillVerdict]:
        return _verdicts(self.drill, self.baseline, self.faulty)

    def as_dict(self) -> PlainData:
        return {
            "engine": self.drill.config.run.engine,
            **self.drill.config.consensus.model_dump(include={"policy", "graph", "peers"}),
            **super().as_dict(),
            "faults": [
                {"kind": "crash" if isinstance(fault, Crash) else "partition", **asdict(fault)}
                for fault in self.drill.plan.faults
            ],
            "view_changes": [asdict(row) for row in self.faulty.view_changes],
            "runs": {"baseline": self.baseline.summary(), "faulty": self.faulty.summary()},
        }


def _verdicts(drill: PeerDrill, baseline: ConsensusRun, faulty: ConsensusRun) -> Iterator[DrillVerdict]:
    for name, run in (("baseline", baseline), ("faulty", faulty)):
        ended = not run.stopped and bool(run.rows) and run.rows[-1].end >= 0.8 * drill.seconds
        last = run.rows[-1].end if run.rows else 0.0
        reason = f": {run.stopped}" if run.stopped else ""
        taken = counted("step", run.steps)
        text = f"the {name} run took {taken}, the last of them after {last:.3g} of {drill.seconds:g} s{reason}"
        yield DrillVerdict(text, ended)
    yield from _detection_verdicts(drill, faulty)
    for row in faulty.view_changes:
        view = NetworkView(faulty.graph, frozenset(row.gone), tuple(frozenset(side) for side in row.sides))
        if not row.sides and len(view.components) > 1:
            yield DrillVerdict(
                f"after {row.time:.3g} s the graph was in {len(view.components)} parts, which no added links joined",
                False,
            )
    yield from _progress_verdicts(drill, faulty)
    owned = sum(map(len, faulty.shares))
    n_samples = drill.plan.problem.n_samples
    yield DrillVerdict(f"{owned} of {n_samples} samples belong to a peer at the end", owned == n_samples)
    yield from _objective_verdicts(baseline, faulty)


def _detection_verdicts(drill: PeerDrill, faulty: ConsensusRun) -> Iterator[DrillVerdict]:
    latencies: list[float] = []
    unnoticed = 0
    for fault in drill.plan.faults:
        for row in faulty.view_changes:
            if row.time >= fault.at and (fault.peer in row.gone if isinstance(fault, Crash) else row.sides):
                latencies.append(row.time - fault.at)
                break
        else:
            unnoticed += 1
    worst = max(latencies, default=0.0)
    text = f"{len(latencies)} of {len(latencies) + unnoticed} faults were noticed, at most {worst:.3g} s after"
    yield DrillVerdict(text, not unnoticed and worst <= SOON)


def _progress_verdicts(drill: PeerDrill, faulty: ConsensusRun) -> Iterator[DrillVerdict]:
    """Between two view changes, all present peers take steps, and none averages with a peer out of its reach."""
    n_peers, times = drill.plan.graph.n_peers, [*(row.time for row in faulty.view_changes), faulty.seconds]
    wrong: list[str] = []
    for row, end in zip(faulty.view_changes, times[1:], strict=True):
        begin = row.time + _PROPAGATION[drill.config.run.engine]
        within = [one for one in faulty.rows if begin < one.begin and one.end < end]
        if len(within) >= 5 * n_peers:  # else the time was too short to tell
            idle = set(range(n_peers)).difference(row.gone, [one.peer for one in within])
            wrong += [f"peer {peer} stood still from {row.time:.3g} to {end:.3g} s" for peer in sorted(idle)]
        for one in within:
            if not set(row.gone).isdisjoint(one.links):
                wrong.append(f"peer {one.peer} averaged with a peer that is gone after {one.end:.3g} s")
            elif _is_across(one, row.sides):
                text = "averaged with a peer on the other side of the partition"
                wrong.append(f"peer {one.peer} {text} after {one.end:.3g} s")
    yield DrillVerdict(
        wrong[0] if wrong else "after each change all remaining peers went on, and only with each other", not wrong
    )
    for fault in drill.plan.faults:
        if isinstance(fault, Crash) and fault.rejoin is not None:
            met = sum(one.peer == fault.peer and one.begin > fault.rejoin and bool(one.links) for one in faulty.rows)
            yield DrillVerdict(
                f"peer {fault.peer} rejoined, and averaged with others in {counted('step', met)}", met > 0
            )
        elif isinstance(fault, NetworkPartition) and fault.until is not None:
            met = sum(one.begin > fault.until and _is_across(one, [fault.peers]) for one in faulty.rows)
            yield DrillVerdict(f"after the partition had healed, {counted('step', met)} had links across it", met > 0)


def _is_across(row: PeerRow, sides: Sequence[Sequence[int]]) -> bool:
    return any(partitioned(row.peer, other, sides) for other in row.links)


def _objective_verdicts(baseline: ConsensusRun, faulty: ConsensusRun) -> Iterator[DrillVerdict]:
    """View changes do not set the mean model back, and both runs make about the same progress."""
    progress = baseline.means[0].objective - min(row.objective for row in baseline.means)
    worst = 0.0
    for row in faulty.view_changes:
        before = [one.objective for one in faulty.means if one.time <= row.time][-1:]
        after = [one.objective for one in faulty.means if one.time > row.time][:1]
        worst = max([worst, *(now - then for then, now in zip(before, after, strict=False))])
    limit = _MAX_SETBACK * progress
    text = f"view changes raised the objective of the mean model by at most {worst:.3g} ({limit:.3g} is allowed)"
    yield DrillVerdict(text, worst <= limit)
    apart = faulty.objective - baseline.objective
    text = f"it is {faulty.objective:.4g} at the end, and {baseline.objective:.4g} in the baseline run"
    yield DrillVerdict(text, apart <= _MAX_LAG * progress)

"""A drill of peers: the same run without and with faults, and whether what is promised of them was kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np

from erasurehead._internal.atomic_files import write_whole
from erasurehead._internal.rng import stream
from erasurehead.consensus.conduct import Conduct
from erasurehead.consensus.faults import Cut, Leave, Trouble
from erasurehead.consensus.graphs import parse_graph
from erasurehead.consensus.plans import ConsensusPlan, plan
from erasurehead.consensus.result import ConsensusRun
from erasurehead.consensus.rows import PeerRow
from erasurehead.consensus.training import carry_out
from erasurehead.consensus.views import View
from erasurehead.drills.drill import DRILLS, REPORT_FILE
from erasurehead.drills.verdicts import SOON, Verdict
from erasurehead.errors import check_count, invalid, real
from erasurehead.problems.linear import LogisticRegression
from erasurehead.runs.jsonl import to_text
from erasurehead.runs.names import next_free

ENGINES = ("virtual", "processes")
"""What peers are drilled on; ranks of MPI are started by its launcher, not by a drill."""

_WORD = {"virtual": 0.0, "processes": 0.1}  # seconds until all have heard of a change
_FEATURES, _SAMPLES, _BATCH, _RATE = 20, 2_000, 16, 0.3
_ENDLESS = 10_000_000  # steps; the clock ends a drill
_JUMP = 0.25  # of the way from the first objective to the best, that a change may set the mean model back
_BEHIND = 0.1  # of the same way, that the faulty run may be behind the baseline at the end


@final
@dataclass(frozen=True)
class PeerDrill:
    """A run of peers to be drilled.

    Arguments:
        policy: whom a peer waits for.
        graph: who is whose neighbour.
        engine: of `ENGINES`.
        peers: number of peers.
        seconds: how long each of the two runs takes, by the engine's clock.
        seed: of who is struck.
        delays: of gradients, in both runs alike.
        faults: what goes wrong; by default one peer is killed for good, one is killed and comes back, and the network
            is cut and heals, one after the other.

    Raises:
        InvalidArgument: if something does not fit, before anything starts.
    """

    policy: str = "dynamic()"
    graph: str = "erdos_renyi(p=0.4, seed=0)"
    engine: str = "virtual"
    peers: int = 10
    seconds: float = 60.0
    seed: int = 0
    delays: str = "exponential(mean=0.5, seed=0)"
    faults: tuple[Trouble, ...] | None = None
    plan: ConsensusPlan = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise invalid("engine", f"must be one of {', '.join(ENGINES)} for peers", self.engine)
        check_count("peers", self.peers, 4)
        if not 1.0 <= real(self.seconds) < 1e6:
            raise invalid("seconds", "must be at least 1, and less than a million", self.seconds)
        rng = stream("peers of a drill", self.seed)
        X = rng.standard_normal((max(_SAMPLES, 20 * self.peers), _FEATURES))
        y = np.sign(X @ rng.standard_normal(_FEATURES) + rng.standard_normal(len(X)))
        faults = self._drawn(rng) if self.faults is None else self.faults
        made = plan(
            LogisticRegression(X, y, l2=1e-3), self.graph, self.policy, peers=self.peers, rate=_RATE, batch=_BATCH,
            delays=self.delays, faults=faults, orphans="taken over", seed=self.seed,
        )  # fmt: skip
        object.__setattr__(self, "plan", made)

    def _drawn(self, rng: np.random.Generator) -> tuple[Trouble, ...]:
        """Return who is struck when, of a part of the graph and the rest for the cut."""
        dead, back = (int(peer) for peer in rng.permutation(self.peers)[:2])
        graph = parse_graph(self.graph, check_count("peers", self.peers))
        others = View(graph, frozenset({dead}))
        side, start = [back], 0
        while len(side) < self.peers // 2:  # a part that hangs together, so that it trains on
            new = [peer for peer in others.neighbours[side[start]] if peer not in side]
            side += new[: self.peers // 2 - len(side)]
            start += 1
        at = self.seconds
        return Leave(dead, 0.2 * at), Leave(back, 0.35 * at, 0.5 * at), Cut(tuple(side), 0.6 * at, 0.75 * at)

    def run(
        self, say: Callable[[str], None] = lambda text: None, out: str | os.PathLike[str] | None = None
    ) -> PeerFindings:
        """Make both runs, and return what was found.

        Arguments:
            say: is told what is going on.
            out: a folder for the report; None for a new one in `drills`.
        """
        conduct = Conduct(steps=_ENDLESS, until=self.seconds, metrics=False)
        for trouble in self.plan.troubles:
            say(f"{trouble.at:10.2f} s  {trouble}")
        say("the baseline run ...")
        made = plan(
            self.plan.problem, self.plan.graph, self.policy, rate=_RATE, batch=_BATCH, delays=self.delays,
            seed=self.seed,
        )  # fmt: skip
        baseline = carry_out(made, conduct, self.engine)
        say("the faulty run ...")
        faulty = carry_out(self.plan, conduct, self.engine)
        folder = Path(out) if out is not None else next_free(DRILLS, f"peers-{self.engine}-{self.seed}")
        folder.mkdir(parents=True, exist_ok=True)
        found = PeerFindings(self, baseline, faulty, str(folder))
        write_whole(folder / REPORT_FILE, [to_text(found.as_dict()).encode()])
        return found


@final
@dataclass(frozen=True, eq=False)
class PeerFindings:
    """What a drill of peers has found.

    Attributes:
        drill: what was drilled.
        baseline, faulty: both runs.
        folder: with the report.
        verdicts: what was promised, and whether it was kept.
    """

    drill: PeerDrill
    baseline: ConsensusRun
    faulty: ConsensusRun
    folder: str = ""
    verdicts: tuple[Verdict, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdicts", tuple(_verdicts(self.drill, self.baseline, self.faulty)))

    @property
    def passed(self) -> bool:
        """Whether every guarantee was kept."""
        return all(verdict.kept is not False for verdict in self.verdicts)

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "engine": self.drill.engine, "policy": self.drill.policy, "graph": self.drill.graph,
            "peers": self.drill.peers, "passed": self.passed, "verdicts": [vars(one) for one in self.verdicts],
            "faults": [{"kind": type(one).__name__.lower(), **asdict(one)} for one in self.drill.plan.troubles],
            "troubles": [row.as_dict() for row in self.faulty.troubles],
            "runs": {"baseline": self.baseline.summary(), "faulty": self.faulty.summary()}, "folder": self.folder,
        }  # fmt: skip


def _verdicts(drill: PeerDrill, baseline: ConsensusRun, faulty: ConsensusRun) -> Iterator[Verdict]:
    for name, run in (("baseline", baseline), ("faulty", faulty)):
        ended = not run.stopped and bool(run.rows) and run.rows[-1].end >= 0.8 * drill.seconds
        last = run.rows[-1].end if run.rows else 0.0
        said = f": {run.stopped}" if run.stopped else ""
        text = f"the {name} run took {run.steps} steps, the last of them after {last:.3g} of {drill.seconds:g} s{said}"
        yield Verdict(text, ended)
    yield from _noticed(drill, faulty)
    for row in faulty.troubles:
        view = View(faulty.graph, frozenset(row.gone), tuple(frozenset(side) for side in row.sides))
        if not row.sides and len(view.parts) > 1:
            yield Verdict(
                f"after {row.time:.3g} s the graph was in {len(view.parts)} parts, and no new links joined them", False
            )
    yield from _going_on(drill, faulty)
    held = sum(map(len, faulty.shares))
    there = drill.plan.problem.n_samples
    yield Verdict(f"{held} of {there} samples belong to a peer at the end", held == there)
    yield from _worth(baseline, faulty)


def _noticed(drill: PeerDrill, faulty: ConsensusRun) -> Iterator[Verdict]:
    after: list[float] = []
    unseen = 0
    for fault in drill.plan.troubles:
        rows = [row.time for row in faulty.troubles if row.time >= fault.at and _shows(fault, row.gone, row.sides)]
        after += [rows[0] - fault.at] if rows else []
        unseen += not rows
    text = f"{len(after)} of {len(after) + unseen} faults were noticed, at most {max(after, default=0.0):.3g} s after"
    yield Verdict(text, not unseen and max(after, default=0.0) <= SOON)


def _shows(fault: Trouble, gone: list[int], sides: list[list[int]]) -> bool:
    return fault.peer in gone if isinstance(fault, Leave) else bool(sides)


def _going_on(drill: PeerDrill, faulty: ConsensusRun) -> Iterator[Verdict]:
    """Between two changes everybody who is there takes steps, with nobody who is not, and not across a cut."""
    times = [row.time for row in faulty.troubles] + [faulty.seconds]
    wrong: list[str] = []
    for row, end in zip(faulty.troubles, times[1:], strict=True):
        gone, sides = set(row.gone), [set(side) for side in row.sides]
        within = [one for one in faulty.rows if row.time + _WORD[drill.engine] < one.begin and one.end < end]
        steps = {peer: sum(one.peer == peer for one in within) for peer in range(drill.peers)}
        enough = len(within) >= 5 * drill.peers  # or the time was too short to tell
        idle = [peer for peer, count in steps.items() if not count and peer not in gone and enough]
        wrong += [f"peer {peer} stood still from {row.time:.3g} to {end:.3g} s" for peer in idle]
        wrong += [
            f"peer {one.peer} averaged with a peer that is gone after {one.end:.3g} s"
            for one in within
            if gone & {*one.links}
        ]
        wrong += [
            f"peer {one.peer} averaged with a peer across the cut after {one.end:.3g} s"
            for one in within
            if _across(one, sides)
        ]
    yield Verdict(
        wrong[0] if wrong else "after each change all remaining peers went on, and only with each other", not wrong
    )
    for fault in drill.plan.troubles:
        if isinstance(fault, Leave) and fault.back is not None:
            met = sum(one.peer == fault.peer and one.begin > fault.back and bool(one.links) for one in faulty.rows)
            yield Verdict(f"peer {fault.peer} came back, and averaged with others in {met} steps", met > 0)
        elif isinstance(fault, Cut) and fault.until is not None:
            sides = [{*fault.peers}, {*range(drill.peers)} - {*fault.peers}]
            met = sum(one.begin > fault.until and _across(one, sides) for one in faulty.rows)
            yield Verdict(f"after the cut had healed, {met} steps had links across it", met > 0)


def _across(row: PeerRow, sides: list[set[int]]) -> bool:
    return any((row.peer in side) != (other in side) for side in sides for other in row.links)


def _worth(baseline: ConsensusRun, faulty: ConsensusRun) -> Iterator[Verdict]:
    """The mean model does not jump when the network changes, and both runs make about the same progress."""
    way = baseline.means[0].objective - min(row.objective for row in baseline.means)
    worst = 0.0
    for row in faulty.troubles:
        before = [one.objective for one in faulty.means if one.time <= row.time][-1:]
        after = [one.objective for one in faulty.means if one.time > row.time][:1]
        worst = max([worst, *(now - then for then, now in zip(before, after, strict=False))])
    text = f"changes set the mean model's objective back by at most {worst:.3g} ({_JUMP * way:.3g} is allowed)"
    yield Verdict(text, worst <= _JUMP * way)
    apart = faulty.objective - baseline.objective
    text = f"it is {faulty.objective:.4g} at the end, and {baseline.objective:.4g} in the baseline run"
    yield Verdict(text, apart <= _BEHIND * way)

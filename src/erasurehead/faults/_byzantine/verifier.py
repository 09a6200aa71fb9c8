"""The verifier: it examines the messages of a round before anything is decoded, and remembers those that it catches."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array, finite
from erasurehead._internal.documents import Entries
from erasurehead._internal.resumable import Resumable
from erasurehead.codes import GradientCode
from erasurehead.codes._smallest_lie import MISSED
from erasurehead.decoding import Decoder, make_decoder
from erasurehead.decoding._error_location import Located, locate, most_corrupted
from erasurehead.decoding._inspection import ComparableMessages, units_of
from erasurehead.decoding._layout import Layout
from erasurehead.decoding._parity_checks import Checks
from erasurehead.engines._base import MessageLost
from erasurehead.errors import check_count, invalid, numbered, real
from erasurehead.faults._byzantine.bisection import Bisection
from erasurehead.faults._byzantine.examination import NOT_FINITE, Examination, Finding, Read, Remark, Undecided
from erasurehead.faults._byzantine.prints import Prints
from erasurehead.faults._byzantine.votes import Ballot, vote

TOLERANCES: Mapping[int, float] = {8: 1e-9, 4: 1e-4, 2: 1e-2}
"""Largest difference of two honest replicas, relative to their largest element, by the bytes per number."""

SLACK: Mapping[int, float] = {8: MISSED, 4: 1e-4, 2: 1e-2}
"""Largest violation of the code's checks by honest messages, relative to the largest, by the bytes per number; and the
largest difference of a task's sum from what is claimed of it, likewise."""

_ROUNDING: Mapping[int, float] = {8: 2.0**-44, 4: 2.0**-17}  # sums with other coefficients are never equal bit for bit
_TELLING = 2  # numbers of a fingerprint that are needed to tell whether all is well


@final
class Verifier(Resumable):
    """Examines messages before anything is decoded.

    Equal messages are compared, and the minority is outvoted. Where no messages are equal, but more have arrived than
    are needed, they must satisfy the code's parity checks; a worker that is in every explanation of the violations is
    accused. What cannot be distinguished from rounding is not guessed: if a lie that small, amplified by the decoding,
    could turn the gradient by more than 1e-6 (float64; 1e-3 for float32), all of the messages are in doubt.

    All replicas must agree bit for bit until some worker shows that its machine computes differently: the first message
    of each worker that is compared may differ a little (1e-9 for float64, 1e-4 for float32, 1e-2 for shorter numbers),
    and if it does, all may from then on. Messages may violate parity checks by 1e-11, 1e-4, and 1e-2, respectively.

    Arguments:
        code: code of the messages.
        layout: where their elements belong; None if each message holds all coordinates in order.
        tolerance: largest difference of two honest replicas, relative to their largest element, whatever is observed;
            0.0 requires equal bits.
        corrupted: the most workers that may lie. With replicas, a worker is accused if more than half of those that
            answered, and more than `corrupted`, agree on something else; by default more than the code was built for
            (`corrupted`), or without that any majority of at least two. For parity checks the default is what the code
            was built for, or without that half of its tolerance, at least 1; never more than the arrived messages can
            tell nor, off the unit circle, than allows trying all sets. A given number is taken literally: where that
            many cannot be located, nobody is accused.
        seed: seed of the random projections for the checks. A worker that knows it can construct undetected lies.
        worker_ids: the id of the worker in each position of the code; None if they are the same.

    Attributes:
        accused: workers that have been caught, each with the evidence. Their messages are refused from then on.
        agreeing: how many workers must agree, at least, so that others are outvoted by them.
    """

    checkpointed = ("accused", "_exact", "_probed")

    def __init__(
        self,
        code: GradientCode,
        layout: Layout | None = None,
        *,
        tolerance: float | None = None,
        corrupted: int | None = None,
        seed: int = 0,
        worker_ids: Sequence[int] | None = None,
    ) -> None:
        if tolerance is not None and not 0.0 <= real(tolerance) < 0.5:
            raise invalid("tolerance", "must be at least 0 and less than 0.5", tolerance)
        self.code, self.layout, self.seed = code, layout, seed
        self.corrupted = None if corrupted is None else check_count("corrupted", corrupted)
        self.accused: dict[int, str] = {}
        self.agreeing = 2
        self._worker_ids: list[int] = (
            list(range(code.n_workers)) if worker_ids is None else [int(one) for one in worker_ids]
        )
        self._worker = np.asarray(self._worker_ids, dtype=np.int64)[code.owner]
        self._tolerance = tolerance
        self._exact = True  # so far all replicas have agreed bit for bit
        self._probed: set[int] = set()
        self._prints = Prints(code, layout, seed)
        self._unit_of = {message: unit for unit in units_of(code) for message in unit.messages}
        self._decoder: Decoder | None = None  # made when its weights are first needed
        self._checks: dict[tuple[int, ...], Checks] = {}
        self._seconds, self._rounds, self._compared = 0.0, 0, 0
        self._reported: set[str] = set()
        self._latest: dict[ComparableMessages, tuple[tuple[int, ...], frozenset[int], Finding]] = {}
        self._convicted: dict[int, tuple[str, Entries]] = {}  # and not told yet
        self._moot: dict[int, str] = {}  # workers who could not be told apart, and why

    def begin(self, again: bool = False) -> None:
        """Forget the last round's messages: a new order has been submitted.

        Arguments:
            again: whether it is for the same step: who could not be told apart in it is not questioned again.
        """
        self._rounds += 1
        if not again:
            self._moot.clear()
        self._reported.clear()
        self._latest.clear()

    def examine(
        self, arrived: Iterable[int], read: Read, pending: Iterable[int] = (), asks: bool = False
    ) -> Examination:
        """Examine the messages of this round that have arrived.

        Call it before decoding, when the wait rule has said stop. `Examination.settle` updates the view, and if that
        changes anything the rule must be asked again. What has been compared is not compared again.

        Arguments:
            arrived: all messages that have arrived and were not refused, including held ones.
            read: returns the vector of a message.
            pending: messages that may still come in this round. What is in doubt, and cannot be resolved by these,
                is refused.
            asks: whether workers can be questioned: who differ, and are not outvoted, are then `disputes`.
        """
        here, hoped = sorted(arrived), set(pending)
        hoped -= set(here)
        vectors, refused = self._vectors(here, read)
        begin = time.perf_counter()  # reading is not included: an engine may compute a message when it is read
        accused, held, compared = {worker: why for worker, (why, _) in self._convicted.items()}, dict[int, str](), 0
        undecided, error, disputes = list[Undecided](), 0.0, list[tuple[int, int]]()
        for finding in self._findings(vectors, hoped, self._moot if asks else None):
            disputes += [finding.dispute] if finding.dispute is not None else []
            undecided += finding.undecided
            error = max(error, finding.error)
            accused |= finding.accused
            refused |= finding.refused
            held |= finding.held
            compared += finding.compared
        self.accused |= accused
        guilty = {m: f"worker {w} lies" for m in here if (w := int(self._worker[m])) in accused}
        refused |= {message: why for message, why in guilty.items() if message not in refused}
        held = {message: why for message, why in held.items() if message not in refused}
        sound = tuple(message for message in here if message not in refused and message not in held)
        self._compared += compared
        self._seconds += (seconds := time.perf_counter() - begin)
        remarks = self._remarks(accused, refused, guilty, held)
        positions = np.unique(self.code.owner[np.isin(self._worker, list(accused))]).tolist()
        self._convicted.clear()
        return Examination(
            accused,
            refused,
            held,
            sound,
            tuple(positions),
            compared,
            seconds,
            remarks,
            tuple(undecided),
            error,
            tuple(disputes),
        )

    def _vectors(self, messages: Iterable[int], read: Read) -> tuple[dict[int, Array], dict[int, str]]:
        """Return the vectors that are to be compared, and why others are refused."""
        vectors: dict[int, Array] = {}
        refused: dict[int, str] = {}
        for message in messages:
            if (worker := int(self._worker[message])) in self.accused:
                refused[message] = f"worker {worker} was put aside, because {self.accused[worker]}"
                continue
            if worker in self._convicted:
                continue
            try:
                vectors[message] = read(message)
            except MessageLost as lost:
                refused[message] = str(lost)
        return vectors, refused

    def question(self, messages: tuple[int, int], read: Read) -> Bisection:
        """Return the search for what two workers contradict each other about: see `Examination.disputes`."""
        vectors = read(messages[0]), read(messages[1])
        rounding = max(SLACK.get(vectors[0].dtype.itemsize, 1e-2), self._tolerance or 0.0)
        return Bisection(messages, vectors, len(self.code.tasks_of_message(messages[0])), rounding)

    def task_of(self, found: Bisection) -> int:
        """Return the task that is left of a search."""
        return int(self.code.tasks_of_message(found.messages[0])[found.first])

    def judge(self, found: Bisection, truth: float | None, why: str) -> None:
        """Convict who has lied of two workers that were questioned; the next examination accuses them.

        Arguments:
            found: the search, which has come to an end.
            truth: what is right of the task that is left; None if that is not known, or they did not answer: nobody is
                convicted then, and their messages are refused.
            why: why that is so, or why it would be if neither claim is farther from the truth than by rounding.
        """
        workers, task = [int(self._worker[message]) for message in found.messages], self.task_of(found)
        evidence = {"task": task, "right": truth, "rounds": found.rounds, "numbers": 2 * found.rounds, "computed": 1}
        for place in [] if truth is None else found.contradicted(truth):
            claim, other = found.claims[place], workers[1 - place]
            lie = (
                f"its message {found.messages[place]} differs from that of worker {other}, and comes to {claim:.6g} "
                f"for task {task}, where {truth:.6g} is right"
            )
            own = {"claimed": claim if math.isfinite(claim) else None, "against": other}
            self._convicted[workers[place]] = lie, {**evidence, **own}
        if not self._convicted.keys() & {*workers}:
            self._moot.update(dict.fromkeys(workers, why))
        self._latest.clear()

    def examine_earlier(self, vectors: Mapping[int, Array]) -> Examination:
        """Examine the messages of an earlier round of which one has arrived late; no more of them are waited for.

        Arguments:
            vectors: vectors of all its messages that have arrived, by row.
        """
        current, self._latest = self._latest, {}  # which the round that goes on still needs
        try:
            return self.examine(vectors, vectors.__getitem__)
        finally:
            self._latest = current

    def joined(self, worker: int) -> None:
        """Record that a new process has a worker's number: it is not accused, and its machine is unknown."""
        self.accused.pop(worker, None)
        self._convicted.pop(worker, None)
        self._probed.discard(worker)

    def resized(self, code: GradientCode, layout: Layout | None, worker_ids: Sequence[int] | None = None) -> Verifier:
        """Return a verifier for a resized code, with what this one knows about the workers; all as for `Verifier`."""
        new = Verifier(
            code, layout, tolerance=self._tolerance, corrupted=self.corrupted, seed=self.seed, worker_ids=worker_ids
        )
        new.restore(self.state())
        new._seconds, new._rounds, new._compared = self._seconds, self._rounds, self._compared
        return new

    def cost(self, seconds: float) -> VerificationCost:
        """Return what verification has cost.

        Arguments:
            seconds: total seconds of the same rounds, in real time.
        """
        rounds = max(1, self._rounds)
        share = self._seconds / seconds if seconds > 0.0 else None
        return VerificationCost(self._seconds / rounds, share, self._compared / rounds)

    def _findings(self, vectors: Mapping[int, Array], hoped: set[int], moot: Mapping[int, str] | None) -> list[Finding]:
        alone = [message for message in vectors if message not in self._unit_of]
        bad = {message: NOT_FINITE for message in alone if not finite(vectors[message])}
        findings = [Finding(refused=bad)]
        by_unit: dict[ComparableMessages, dict[int, Array]] = {}
        for message, vector in vectors.items():
            if message in self._unit_of:
                by_unit.setdefault(self._unit_of[message], {})[message] = vector
        for unit, theirs in by_unit.items():
            waiting = frozenset(hoped.intersection(unit.messages))
            key = tuple(theirs)
            if (earlier := self._latest.get(unit)) is not None:
                messages, expected, finding = earlier
                if messages == key and (expected == waiting or not finding.held):  # nothing new could change it
                    findings.append(replace(finding, compared=0, unlike=frozenset()))
                    continue
            solved = not unit.equal or len({vector.shape for vector in theirs.values()}) > 1  # of other supports
            finding = self._solve(unit, theirs, bool(waiting)) if solved else self._vote(theirs, waiting, moot)
            self._latest[unit] = key, waiting, finding
            findings.append(finding)
        return findings

    def _vote(self, vectors: Mapping[int, Array], waiting: frozenset[int], moot: Mapping[int, str] | None) -> Finding:
        owner = {message: int(self._worker[message]) for message in vectors}
        pending = frozenset(int(self._worker[message]) for message in waiting) - self.accused.keys()
        strict = self._tolerance is None and self._exact and self._probed.issuperset(owner.values())
        stated = self._stated(next(iter(vectors.values())).dtype)
        needed = max(self.agreeing, (self._built_for or 0) + 1) if self.corrupted is None else self.corrupted + 1
        finding = vote(Ballot(owner, pending, 0.0 if strict else stated, needed, moot), vectors)
        if strict and finding.dispute is not None:  # perhaps by rounding, and no majority says that it is no more
            finding = vote(Ballot(owner, pending, stated, needed, moot), vectors)
        if finding.unlike:
            self._exact = False
        if len(vectors) > 1 and not finding.held and not finding.refused:
            self._probed.update(owner.values())
        return finding

    def _solve(self, unit: ComparableMessages, vectors: Mapping[int, Array], more: bool) -> Finding:
        bad = {message: NOT_FINITE for message, vector in vectors.items() if not finite(vector)}
        left = [message for message in vectors if message not in bad]
        if len(left) < 2 or not self._prints.comparable(vectors):
            return Finding(refused=bad)
        checks = self._checks_of(unit, tuple(left))
        compared = len(checks.table)
        if not compared and self.corrupted is None:
            return Finding(refused=bad, error=math.inf)
        corrupted, strict, size = self._most(checks), self.corrupted is not None, vectors[left[0]].dtype.itemsize
        rounding = _ROUNDING.get(size, 1e-2)
        few = self._prints.of(left, vectors, _TELLING)
        if checks.hold(few, rounding):
            located = locate(checks, few, corrupted, rounding, size, strict)
            if located.settled:
                return Finding(refused=bad, compared=compared, error=located.error)
        stated = SLACK.get(size, 1e-2) if self._tolerance is None else self._tolerance
        located = locate(checks, self._prints.of(left, vectors), corrupted, max(stated, rounding), size, strict)
        return self._finding_from(located, checks, bad, more)

    def _finding_from(self, located: Located, checks: Checks, bad: Mapping[int, str], more: bool) -> Finding:
        """Return the finding that follows from the located errors."""
        why = "its messages contradict those of the others, which agree without them"
        if not located.settled:
            why = "its messages contradict those of the others, whichever other workers lie"
        accused = {self._worker_ids[position]: why for position in located.guilty}
        withheld = checks.messages[np.isin(checks.owner, located.suspected)].tolist()
        reasons = dict.fromkeys(withheld, located.why)
        undecided = (
            Undecided(tuple(self._worker_ids[position] for position in located.suspected), False, located.why),
        )
        return Finding(
            accused,
            dict(bad) if more else {**bad, **reasons},
            reasons if more else {},
            compared=len(checks.table),
            undecided=() if located.settled else undecided,
            error=located.error if located.settled else 0.0,
        )

    def _checks_of(self, unit: ComparableMessages, messages: tuple[int, ...]) -> Checks:
        if messages not in self._checks:
            if len(self._checks) >= 8:
                self._checks.pop(next(iter(self._checks)))
            if self._decoder is None:
                self._decoder = make_decoder(self.code)
            here = np.array(messages, dtype=np.int64)
            decoding = self._decoder.decode(here)
            weights = np.zeros((self.code.n_pieces, self.code.n_messages))
            weights[:, decoding.messages] = decoding.weights
            self._checks[messages] = Checks.of(self.code, here, weights[:, here], np.array(unit.messages))
        return self._checks[messages]

    @property
    def _built_for(self) -> int | None:
        """The number of liars that the code was built for; None if for none."""
        return self.code.structure.corrupted

    def _most(self, checks: Checks) -> int:
        if self.corrupted is not None:
            return max(0, self.corrupted - len(self.accused.keys() & set(self._worker_ids)))
        wanted = self._built_for if self._built_for is not None else (self.code.tolerance or 0) // 2
        if checks.left is not None:
            beyond = max(0, 2 * wanted - (self.code.tolerance or 0))  # float64 tolerates fewer gaps than the code does
            wanted = min(wanted, (checks.left + beyond) // 2)
        return most_corrupted(checks, max(1, wanted))

    def _stated(self, dtype: np.dtype[Any]) -> float:
        return TOLERANCES.get(dtype.itemsize, 1e-2) if self._tolerance is None else self._tolerance

    def _remarks(
        self,
        accused: Mapping[int, str],
        refused: Mapping[int, str],
        guilty: Mapping[int, str],
        held: Mapping[int, str],
    ) -> tuple[Remark, ...]:
        """Return the new remarks; messages with the same reason are grouped."""
        remarks = [
            Remark(
                "lied",
                (worker,),
                (),
                why,
                f"worker {worker} lies, and is put aside: {why}",
                self._convicted.get(worker, ("", {}))[1],
            )
            for worker, why in accused.items()
        ]
        reasons: dict[tuple[bool, str], list[int]] = {}
        for message, why in {**refused, **held}.items():
            if message not in guilty:
                reasons.setdefault((message in held, why), []).append(message)
        for (waits, why), messages in reasons.items():
            senders: list[int] = self._worker[messages].tolist()
            text = f"{numbered('message', messages)} {'held' if waits else 'refused'}: {why}"
            kind = "held" if waits else "refused"
            remarks.append(Remark(kind, tuple(dict.fromkeys(senders)), tuple(sorted(messages)), why, text))
        new = tuple(remark for remark in remarks if remark.text not in self._reported)
        self._reported.update(remark.text for remark in new)
        return new


@dataclass(frozen=True)
class VerificationCost:
    """The cost of examining messages.

    Attributes:
        seconds: seconds per step.
        share: fraction of the time of a step; None if that is not known.
        comparisons: comparisons of whole vectors per step.
    """

    seconds: float
    share: float | None
    comparisons: float

    def __str__(self) -> str:
        share = "" if self.share is None else f" ({self.share:.1%} of the step)"
        each = f"{1e3 * self.seconds:.3g} ms a step{share}"
        return f"verification cost {each}, with {self.comparisons:.1f} comparisons a step"

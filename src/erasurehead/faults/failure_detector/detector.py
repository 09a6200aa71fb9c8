"""Who seems to hang: one deadline, derived from the answers so far, instead of a hierarchy of time-outs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Tree
from erasurehead.engines.base import LateWork
from erasurehead.errors import check_count, invalid, real
from erasurehead.faults.failure_detector.silence_law import Law
from erasurehead.faults.failure_detector.window import Silence, Window

_PRIOR = 5.0
"""So many answers of the usual speed are assumed of a worker before its own are counted."""

_FADING = 0.98
"""What a worker's record is worth after each further answer."""

_FAR = 3.0
"""A suspect that answers sooner than this many times the usual was slow; later, it hung."""

_FEW = 0.2
"""Share of the workers that may be suspected at once before it is taken for a sign that all have become slower."""

_NEW = 0.2
"""The law is learned again when this share of its samples is new."""


@final
class FailureDetector:
    """Suspects workers that have been silent for longer than is likely.

    It is told when a worker has something to answer and when it is heard of, and learns from that how long answers
    take. Silence counts only while an order is in hand, over as many orders as it lasts, and is measured by its hazard:
    the probability that a worker that works is silent for as long is exp(-hazard). A worker whose answers have always
    taken longer than others' is given as much longer. Nobody is suspected before `least` answers were seen.

    All times are seconds by the caller's clock, virtual or real.

    Arguments:
        floor: seconds of silence in all below which nobody is suspected, at least 0.
        chance: probability, in (0, 0.5), that a worker that works is suspected before its next answer.
        after: suspect after this many seconds of silence in all, whatever was learned; None derives it.
        late: what a worker does when a newer order is out: `"preempt"` drops the old one, so that its silence on that
            has ended with nothing learned but its length; `"carry"` finishes it.
        least: answers to be seen first, at least 20.
        window: how many of the latest samples are learned from, at least `least`.

    Attributes:
        suspects: who is suspected, each with a sentence that says why.

    Source: an accrual detector after Hayashibara, Défago, Yared and Katayama, The phi accrual failure
    detector (SRDS 2004); theirs fits a normal distribution to the intervals between heartbeats.
    """

    def __init__(
        self,
        floor: float = 1.0,
        chance: float = 1e-4,
        after: float | None = None,
        late: LateWork = "preempt",
        least: int = 30,
        window: int = 1000,
    ) -> None:
        if not (math.isfinite(real(floor)) and floor >= 0.0):
            raise invalid("floor", "must be a finite number of seconds, at least 0", floor)
        if not 0.0 < real(chance) < 0.5:
            raise invalid("chance", "must be greater than 0 and less than 0.5", chance)
        if after is not None and not (math.isfinite(real(after)) and after > 0.0):
            raise invalid("after", "must be a positive number of seconds", after)
        if late not in ("preempt", "carry"):
            raise invalid("late", "must be 'preempt' or 'carry'", late)
        self.floor, self.chance, self.after = float(floor), chance, after
        self.late: LateWork = late
        self.least = check_count("least", least, at_least=20)
        window = check_count("window", window, at_least=self.least)
        self.suspects: dict[int, str] = {}
        self._workers: dict[int, Silence] = {}
        self._window = Window(window)
        self._law: Law | None = None
        self._learned = 0, 0  # samples and answers that there were when the law was learned
        self._next: float | None = None  # None: to be worked out
        self._priced = -1.0, 0.0, 0.0  # the latest silence whose hazard was looked up: many have dropped one order

    @property
    def law(self) -> Law | None:
        """What has been learned; None before there were answers enough."""
        return self._law

    def ordered(self, worker: int, now: float) -> None:
        """Record that a worker has been given an order."""
        state = self._workers.get(worker) or self._known(worker)
        if state.since is not None:
            if self.late == "carry":
                return
            self._drop(worker, state, now)
        state.since = now
        state.due = self._next = None
        if self._law is not None and self._window.taken - self._learned[0] >= _NEW * len(self._window):
            self._learn(now)

    def heard(self, worker: int, now: float, began: float | None = None, done: bool = True) -> str:
        """Record an answer; a suspect is cleared by it.

        Arguments:
            worker: its id.
            now: the time, in seconds.
            began: when it began to work on what it answers, if that is known; it may be an earlier order.
            done: whether that was all that it has in hand: False if more messages, or an answer to a newer order, are
                to come.

        Returns:
            A sentence if it was suspected, else "".
        """
        state = self._workers.get(worker) or self._known(worker)
        start = state.since
        if began is not None:
            start = began if state.heard is None else max(began, state.heard)
        if start is not None:
            if self._law is not None:
                self._record(state, self._law, now, start)
            # Who hung for a while is no proof that answers are slow; if many did, it is the law that has changed.
            hung = worker in self.suspects and now - start > _FAR * (self.usual() or math.inf)
            if not hung or len(self.suspects) > _FEW * len(self._workers):
                self._window.add(now - start, False, worker)
        silent = state.silent + (0.0 if state.since is None else now - state.since)
        state.silent = state.body = state.beyond = 0.0
        state.orders = 0
        state.heard, state.due = now, None
        state.since = None if done else now
        if self._window.answers >= (self.least if self._law is None else 2 * self._learned[1]):
            self._learn(now)
        if self.suspects.pop(worker, None) is None:
            return ""
        self._next = None
        return f"worker {worker} does not hang: it answered after {silent:.3g} s"

    def dropped(self, worker: int, now: float) -> None:
        """Record that an order is withdrawn, and that the worker has nothing to answer until the next one."""
        state = self._workers.get(worker)
        if state is not None and state.since is not None:
            self._drop(worker, state, now)
            state.since = state.due = None

    def failed(self, worker: int) -> None:
        """Record that a worker said that it cannot answer: it does not hang, and has nothing in hand."""
        state = self._workers.get(worker)
        if state is not None:
            self._workers[worker] = Silence(heard=state.heard, answers=state.answers, hazard=state.hazard)
        self.suspects.pop(worker, None)

    def left(self, worker: int) -> None:
        """Forget a worker: it has died, or another takes its number."""
        self._workers.pop(worker, None)
        self.suspects.pop(worker, None)

    def check(self, now: float) -> list[int]:
        """Return who is suspected since the last check, ascending; `suspects` says why. Cheap before `next_check`."""
        if now < self.next_check():
            return []
        found: list[int] = []
        self._next = math.inf
        for worker, state in self._workers.items():
            if state.since is None or worker in self.suspects:
                continue
            earliest = self._earliest(state)
            if now >= earliest:
                state.due = earliest = state.since + self._deadline(state)
                if now >= earliest - 1e-9 * max(1.0, abs(now)):
                    self.suspects[worker] = self._sentence(worker, state, now)
                    found.append(worker)
                    continue
            self._next = min(self._next, earliest)
        return sorted(found)

    def next_check(self) -> float:
        """Return when to `check` again if nothing is heard until then; inf if there is no need."""
        if self._next is None:  # once a step, over all workers: a call for each would cost as much again
            floor, first = self.floor if self.after is None else self.after, math.inf
            for worker, state in self._workers.items():
                if state.since is None or worker in self.suspects:
                    continue
                left = floor - state.silent
                earliest = state.due if state.due is not None else state.since + (left if left > 0.0 else 0.0)
                if earliest < first:
                    first = earliest
            self._next = first
        return self._next

    def silence(self, worker: int, now: float) -> float:
        """Return for how many seconds a worker has had something to answer since it was last heard of."""
        state = self._workers.get(worker) or Silence()
        return state.silent + (0.0 if state.since is None else now - state.since)

    def deadline(self, worker: int) -> float | None:
        """Return after how many seconds, counted from its present order or last sign of life, a worker is suspected.

        None if it has nothing to answer, or too little was seen to tell.
        """
        state = self._workers.get(worker)
        if state is None or state.since is None:
            return None
        seconds = self._deadline(state)
        return seconds if math.isfinite(seconds) else None

    def usual(self) -> float | None:
        """Return within how many seconds an answer comes in all but `chance` of the cases; None if it is not known."""
        return None if self._law is None else self._law.seconds(-math.log(self.chance))

    def state(self) -> dict[str, Tree]:
        """Return all that `restore` needs to go on to the bit."""
        return {
            "suspects": {str(worker): why for worker, why in sorted(self.suspects.items())},
            "workers": {str(worker): silence.state() for worker, silence in sorted(self._workers.items())},
            "window": self._window.state(),
            "learned": list(self._learned),
            "law": None if self._law is None else self._law.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; floor, chance and window must be those of the run that it was taken from."""
        self.suspects = {int(worker): str(why) for worker, why in state["suspects"].items()}
        self._workers = {int(worker): Silence(**values) for worker, values in state["workers"].items()}
        self._window.restore(state["window"])
        self._learned = int(state["learned"][0]), int(state["learned"][1])
        self._law = None if state["law"] is None else Law.restored(state["law"])
        self._next, self._priced = None, (-1.0, 0.0, 0.0)

    def _known(self, worker: int) -> Silence:
        state = self._workers.get(worker)
        if state is None:
            state = self._workers[worker] = Silence()
        return state

    def _record(self, state: Silence, law: Law, now: float, start: float) -> None:
        """Record how unlikely a silence was that has ended in an answer."""
        seconds = max(0.0, now - start)
        body, beyond = law.body(seconds), law.beyond(seconds)
        if state.since is not None and start >= state.since:  # else it was at this work in earlier orders already
            body, beyond = body + state.body, beyond + state.beyond
        state.answers = _FADING * state.answers + 1.0
        # A silence too long to be believed says no more of a worker's speed than that it was late.
        state.hazard = _FADING * state.hazard + min(law.hazard(body, beyond), -math.log(self.chance))

    def _drop(self, worker: int, state: Silence, now: float) -> None:
        assert state.since is not None
        seconds = now - state.since
        self._window.add(seconds, True, worker)
        state.silent += seconds
        state.orders += 1
        if self._law is not None:
            if self._priced[0] != seconds:
                self._priced = seconds, self._law.body(seconds), self._law.beyond(seconds)
            state.body += self._priced[1]
            state.beyond += self._priced[2]

    def _learn(self, now: float) -> None:
        """Learn from the latest samples, and from those who are silent now; not from the silence of suspects."""
        if self._window.kept_answers < self.least:
            return
        seconds, censored = self._window.samples(list(self.suspects))
        longest = float(seconds[~censored].max())  # a worker that hangs must not pass for proof that answers are slow
        silent = [
            min(now - state.since, longest)
            for worker, state in self._workers.items()
            if state.since is not None and worker not in self.suspects
        ]
        self._law = Law.of(
            np.concatenate([seconds, np.array(silent)]),
            np.concatenate([censored, np.ones(len(silent), dtype=bool)]),
        )
        self._learned = self._window.taken, self._window.answers
        self._next, self._priced = None, (-1.0, 0.0, 0.0)
        for state in self._workers.values():
            state.due = None

    def _earliest(self, state: Silence) -> float:
        """Return a time before which a worker is not suspected."""
        assert state.since is not None
        if state.due is not None:
            return state.due
        return state.since + max(0.0, (self.floor if self.after is None else self.after) - state.silent)

    def _deadline(self, state: Silence) -> float:
        if self.after is not None:
            return max(0.0, self.after - state.silent)
        if self._law is None:
            return math.inf
        slowness = max(1.0, (state.hazard + _PRIOR) / (state.answers + _PRIOR))
        seconds = self._law.seconds(-math.log(self.chance) * slowness, state.body, state.beyond)
        return max(seconds, self.floor - state.silent, 0.0)

    def _sentence(self, worker: int, state: Silence, now: float) -> str:
        silent = self.silence(worker, now)
        orders = f", over {state.orders + 1} orders" if state.orders else ""
        text = f"worker {worker} is suspected to hang: silent for {silent:.3g} s{orders}; "
        usual = self.usual()
        if self.after is not None or usual is None or self._law is None:
            return f"{text}{self.after:g} s were allowed"
        cases, by = f"{round(1.0 / self.chance):,}", f"(by {self._law.answers:,} arrivals)"
        if state.orders:
            return f"{text}that happens less than once in {cases} times {by}"
        return (
            f"{text}an answer takes less than {usual:.3g} s in {round(1.0 / self.chance) - 1:,} of {cases} cases {by}"
        )

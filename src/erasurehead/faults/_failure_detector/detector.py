"""Detects workers that hang, by deadlines that are derived from the answers so far."""

from __future__ import annotations

import math
from typing import final

import numpy as np

from erasurehead._internal.late_work import LateWork
from erasurehead._internal.resumable import Resumable
from erasurehead.errors import check_count, check_not_negative, check_positive, invalid, real
from erasurehead.faults._failure_detector.silence_law import FEW, Law
from erasurehead.faults._failure_detector.window import Silence, Window

_PRIOR_ANSWERS = 5.0
"""Number of answers at the common speed that are assumed for a worker in addition to its own."""

_DISCOUNT = 0.98
"""Factor by which earlier answers of a worker are discounted with each further answer."""

_HUNG_FACTOR = 3.0
"""A suspect that answers within this many times the usual time was slow; otherwise, it hung."""

_MAX_SUSPECTED = 0.2
"""Fraction of suspected workers above which answers are assumed to have become slower in general."""

_RELEARN_AFTER = 0.2
"""The law is fitted again when this fraction of its samples is new."""


@final
class FailureDetector(Resumable):
    """Suspects workers that have been silent for longer than is likely.

    It is told when a worker gets an order and when it answers, and learns from that how long answers take. Silence is
    the time without an answer while the worker has an order, over any number of orders, and is measured by its hazard:
    the probability that a working worker is silent for that long is exp(-hazard). A worker whose answers have always
    taken longer than others' is given correspondingly more time; and the fewer answers have been seen, the more is
    given to all.

    All times are seconds by the caller's clock, virtual or real.

    Arguments:
        floor: total seconds of silence below which no worker is suspected, at least 0.
        chance: probability, in (0, 0.5), that a working worker is suspected before its next answer.
        after: suspect after this many seconds of silence in total, whatever was learned; None derives it from the
            answers.
        late: what a worker does when there is a newer order: `"preempt"` drops the old one, so that its silence is a
            censored sample; `"carry"` finishes it.
        window: number of latest samples that are learned from, at least 30.

    Attributes:
        suspects: the suspected workers, each with the reason as a sentence.

    Source: an accrual detector after Hayashibara, Défago, Yared and Katayama, The phi accrual failure
    detector (SRDS 2004); theirs fits a normal distribution to the intervals between heartbeats.
    """

    checkpointed = ("suspects", "_workers", "_window", "_learned", "_law")
    records = (
        Silence,
        Law,
    )

    def __init__(
        self,
        floor: float = 1.0,
        chance: float = 1e-4,
        after: float | None = None,
        late: LateWork = "preempt",
        window: int = 1000,
    ) -> None:
        check_not_negative("floor", floor, "must be a finite number of seconds, at least 0")
        if not 0.0 < real(chance) < 0.5:
            raise invalid("chance", "must be greater than 0 and less than 0.5", chance)
        if after is not None:
            check_positive("after", after, "must be a positive number of seconds")
        if late not in ("preempt", "carry"):
            raise invalid("late", "must be 'preempt' or 'carry'", late)
        self.floor, self.chance, self.after = float(floor), chance, after
        self._most = -math.log(chance)  # the hazard of a silence after which a worker is suspected
        self.late: LateWork = late
        window = check_count("window", window, at_least=FEW)
        self.suspects: dict[int, str] = {}
        self._workers: dict[int, Silence] = {}
        self._window = Window(window)
        self._law: Law | None = None
        self._learned = 0, 0  # numbers of samples and answers at the last fit
        self._next: float | None = None  # None if it must be computed
        self._last_hazard = -1.0, 0.0, 0.0  # a cache of one silence: many workers drop the same order

    @property
    def law(self) -> Law | None:
        """The learned law; None before there are enough answers."""
        return self._law

    def ordered(self, worker: int, now: float, times: float = 1.0) -> None:
        """Record that a worker is sent an order.

        Arguments:
            worker: its id.
            now: the time, in seconds of the engine's clock.
            times: how many times as much work as usual it is; an answer may take so many times as long.
        """
        state = self._workers.get(worker) or self._silence_of(worker)
        if state.since is not None:
            if self.late == "carry":
                state.ahead = times
                return
            self._drop(worker, state, now)
        state.since, state.times, state.ahead = now, times, times
        state.due = self._next = None
        if self._law is not None and self._window.taken - self._learned[0] >= _RELEARN_AFTER * len(self._window):
            self._learn(now)

    def heard(self, worker: int, now: float, began: float | None = None, done: bool = True) -> str:
        """Record an answer; it clears a suspect.

        Arguments:
            worker: its id.
            now: the time, in seconds.
            began: when it began to work on the answered order, which may be an earlier one; None if unknown.
            done: whether it has nothing else to answer: False if more messages, or an answer to a newer order, are
                to come.

        Returns:
            A sentence if it was suspected, else "".
        """
        state = self._workers.get(worker) or self._silence_of(worker)
        start = state.since
        if began is not None:
            start = began if state.heard is None else max(began, state.heard)
        if start is not None:
            if self._law is not None:
                self._record(state, self._law, now, start)
            # A worker that hung does not show that answers are slow; if many did, the law has changed.
            seconds = (now - start) / state.times
            hung = worker in self.suspects and seconds > _HUNG_FACTOR * (self.usual() or math.inf)
            if not hung or len(self.suspects) > _MAX_SUSPECTED * len(self._workers):
                self._window.add(seconds, False, worker)
        silent = state.silent + (0.0 if state.since is None else now - state.since)
        state.silent = state.body = state.beyond = 0.0
        state.orders = 0
        state.heard, state.due = now, None
        state.since, state.times = None if done else now, state.ahead
        if self._window.answers <= FEW or self._window.answers >= 2 * self._learned[1]:
            self._learn(now)
        if self.suspects.pop(worker, None) is None:
            return ""
        self._next = None
        return f"worker {worker} does not hang: it answered after {silent:.3g} s"

    def dropped(self, worker: int, now: float) -> None:
        """Record that an order is withdrawn now, so that the worker has nothing to answer until the next one."""
        state = self._workers.get(worker)
        if state is not None and state.since is not None:
            self._drop(worker, state, now)
            state.since = state.due = None

    def failed(self, worker: int) -> None:
        """Record that a worker reported that it cannot answer: it does not hang, and has nothing to answer."""
        state = self._workers.get(worker)
        if state is not None:
            self._workers[worker] = Silence(heard=state.heard, answers=state.answers, hazard=state.hazard)
        self.suspects.pop(worker, None)

    def left(self, worker: int) -> None:
        """Forget a worker: it has died, or been replaced."""
        self._workers.pop(worker, None)
        self.suspects.pop(worker, None)

    def check(self, now: float) -> list[int]:
        """Return the workers newly suspected, ascending; `suspects` says why. Cheap before `next_check`."""
        if now < self.next_check():
            return []
        new: list[int] = []
        self._next = None
        floor = self.floor if self.after is None else self.after
        for worker, state in self._workers.items():
            if state.since is None or worker in self.suspects:
                continue
            left = floor - state.silent
            earliest = state.due if state.due is not None else state.since + (left if left > 0.0 else 0.0)
            if now >= earliest:
                state.due = earliest = state.since + self._deadline(state)
                if now >= earliest - 1e-9 * max(1.0, abs(now)):
                    self.suspects[worker] = self._reason(worker, state, now)
                    new.append(worker)
        return sorted(new)

    def next_check(self) -> float:
        """Return when to call `check` again if nothing is heard until then; inf if there is no need."""
        if self._next is None:  # once per step, inline over all workers: a call for each would double the cost
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
        """Return for how many seconds, by now, a worker has had something to answer since it was last heard from."""
        state = self._workers.get(worker) or Silence()
        return state.silent + (0.0 if state.since is None else now - state.since)

    def deadline(self, worker: int) -> float | None:
        """Return after how many seconds, counted from its present order or last sign of life, a worker is suspected.

        None if it has nothing to answer, or no answers have been seen.
        """
        state = self._workers.get(worker)
        if state is None or state.since is None:
            return None
        seconds = self._deadline(state)
        return seconds if math.isfinite(seconds) else None

    def usual(self) -> float | None:
        """Return the seconds within which an answer comes in all but `chance` of the cases; None if unknown."""
        return None if self._law is None else self._law.seconds(self._most)

    def _silence_of(self, worker: int) -> Silence:
        state = self._workers.get(worker)
        if state is None:
            state = self._workers[worker] = Silence()
        return state

    def _record(self, state: Silence, law: Law, now: float, start: float) -> None:
        """Record how unlikely a silence was that ended in an answer."""
        seconds = max(0.0, now - start) / state.times
        body, beyond = law.body(seconds), law.beyond(seconds)
        if state.since is not None and start >= state.since:  # otherwise it had begun this work in earlier orders
            body, beyond = body + state.body, beyond + state.beyond
        state.answers = _DISCOUNT * state.answers + 1.0
        # An implausibly long silence says no more about a worker's speed than that it was late.
        state.hazard = _DISCOUNT * state.hazard + min(law.hazard(body, beyond), self._most)

    def _drop(self, worker: int, state: Silence, now: float) -> None:
        assert state.since is not None
        state.silent += now - state.since
        seconds = (now - state.since) / state.times
        self._window.add(seconds, True, worker)
        state.orders += 1
        if self._law is not None:
            if self._last_hazard[0] != seconds:
                self._last_hazard = seconds, self._law.body(seconds), self._law.beyond(seconds)
            state.body += self._last_hazard[1]
            state.beyond += self._last_hazard[2]

    def _learn(self, now: float) -> None:
        """Learn from the latest samples, and from the present silence of workers that are not suspected."""
        if not self._window.kept_answers:
            return
        seconds, censored = self._window.samples(list(self.suspects))
        longest = float(seconds[~censored].max())  # hanging is no evidence that answers are slow
        silent = [
            min((now - state.since) / state.times, longest)
            for worker, state in self._workers.items()
            if state.since is not None and worker not in self.suspects
        ]
        self._law = Law.of(
            np.concatenate([seconds, np.array(silent)]),
            np.concatenate([censored, np.ones(len(silent), dtype=bool)]),
        )
        self._learned = self._window.taken, self._window.answers
        self._next, self._last_hazard = None, (-1.0, 0.0, 0.0)
        for state in self._workers.values():
            state.due = None

    def _deadline(self, state: Silence) -> float:
        if self.after is not None:
            return max(0.0, self.after - state.silent)
        if self._law is None:
            return math.inf
        slowness = max(1.0, (state.hazard + _PRIOR_ANSWERS) / (state.answers + _PRIOR_ANSWERS))
        seconds = state.times * self._law.seconds(self._most * slowness, state.body, state.beyond)
        return max(seconds, self.floor - state.silent, 0.0)

    def _reason(self, worker: int, state: Silence, now: float) -> str:
        silent = self.silence(worker, now)
        orders = f", over {state.orders + 1} orders" if state.orders else ""
        text = f"worker {worker} is suspected to hang: silent for {silent:.3g} s{orders}; "
        if self.after is not None or self._law is None:
            return f"{text}{self.after:g} s were allowed"
        cases, by = round(1.0 / self.chance), f"(by {self._law.answers:,} arrivals)"
        if state.orders:
            return f"{text}that happens less than once in {cases:,} times {by}"
        usual = state.times * self._law.seconds(self._most)
        return f"{text}an answer takes less than {usual:.3g} s in {cases - 1:,} of {cases:,} cases {by}"

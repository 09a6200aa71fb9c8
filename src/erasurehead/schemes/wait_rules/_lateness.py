"""Rules for training with late messages: `arrivals(count)`, `aged(most)` and `heard()`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.codes import GradientCode
from erasurehead.decoding import Decoder
from erasurehead.errors import check_count, invalid
from erasurehead.schemes.wait_rules._base import Verdict, WaitRule, WrittenRule, scaled_count
from erasurehead.schemes.wait_rules._view import View


@final
@dataclass(frozen=True, repr=False)
class Arrivals(WrittenRule):
    """Stop after a number of messages of any round: late ones count like those in time.

    For aggregations that take late work. `arrivals(1)` moves the model at every message: asynchronous training.

    Arguments:
        count: number of messages, at least 1 and at most the number of messages of a round.
    """

    name = "arrivals"
    count: int
    remembers = True

    def __post_init__(self) -> None:
        check_count("arrivals(count)", self.count)

    def verdict(self, view: View) -> Verdict:
        came = len(view.arrived) + len(view.late)
        if came >= self.count:
            return Verdict.STOP
        return Verdict.WAIT if came + len(view.pending) >= self.count else Verdict.UNREACHABLE

    def stop_times(self, times: Array, decoder: Decoder) -> Array:
        if self.count > times.shape[1]:
            return np.full(len(times), np.inf)
        return np.partition(times, self.count - 1, axis=1)[:, self.count - 1]

    def check(self, decoder: Decoder) -> None:
        most = decoder.code.n_messages
        if self.count > most:
            raise invalid(
                "arrivals(count)",
                f"must be at most the {most} messages of a round",
                self.count,
                f"arrivals({most}) waits for as many",
            )

    def for_workers(self, before: int, after: int) -> WaitRule:
        return self if self.count == 1 else Arrivals(scaled_count(self.count, before, after))


@final
@dataclass(frozen=True, repr=False)
class Aged(WrittenRule):
    """Keep waiting while some task is older than a number of steps: bounded staleness.

    For aggregations that use late work, combined with a rule that stops early: `arrivals(1) & aged(10)`. A task is as
    old as the model of its newest message that has arrived; one of which nothing has arrived yet counts as computed one
    step before the first. Tasks that no living worker holds are lost, and not waited for.

    Arguments:
        most: the greatest age in steps, at least 0; 0 asks for messages of this step that cover all tasks.
    """

    name = "aged"
    most: int
    remembers = True

    def __post_init__(self) -> None:
        check_count("aged(most)", self.most, at_least=0)

    def verdict(self, view: View) -> Verdict:
        return _until_none(view, view.ages > self.most)

    def stop_times(self, times: Array, decoder: Decoder) -> Array:
        if self.most:  # until something is known of earlier steps
            return np.zeros(len(times))
        code = decoder.code
        latest = np.zeros(len(times))
        for task in range(code.n_tasks):
            messages = [m for m in range(code.n_messages) if task in code.tasks_of_message(m)]
            latest = np.maximum(latest, times[:, messages].min(axis=1, initial=np.inf))
        return latest


@final
@dataclass(frozen=True, repr=False)
class Heard(WrittenRule):
    """Keep waiting while nothing has ever arrived of some task: a memory is complete from the first step on.

    For aggregations that remember, combined with a rule that stops early: `arrivals(1) & heard()`. Tasks that no living
    worker holds are lost, and not waited for.
    """

    name = "heard"
    remembers = True

    def verdict(self, view: View) -> Verdict:
        return _until_none(view, view.ages > view.step)

    def stop_times(self, times: Array, decoder: Decoder) -> Array:
        return np.zeros(len(times))  # of any step but the first


def _until_none(view: View, wanted: NDArray[np.bool_]) -> Verdict:
    """Return the verdict of a rule that waits as long as some tasks, told by a mask over all, are wanted."""
    tasks = np.flatnonzero(wanted)
    if not len(tasks):
        return Verdict.STOP
    return Verdict.WAIT if np.isin(tasks, _tasks_of(view.code, view.pending)).all() else Verdict.UNREACHABLE


def _tasks_of(code: GradientCode, messages: IntArray) -> IntArray:
    """Return the tasks that contribute to any of the given messages, ascending."""
    tasks = [code.tasks_of_message(message) for message in messages.tolist()]
    return np.unique(np.concatenate(tasks)) if tasks else np.empty(0, dtype=np.int64)

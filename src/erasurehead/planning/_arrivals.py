"""Simulated arrival times of a code's messages, many steps at once, as input of wait rules."""

from __future__ import annotations

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.codes import GradientCode
from erasurehead.delays import Delays
from erasurehead.delays._base import room, rows_at_of, rows_of
from erasurehead.delays._ties import precedence
from erasurehead.errors import check_not_negative


class ArrivalTimes:
    """Arrival times of steps in which every worker is idle at the beginning (late work is dropped: `preempt`).

    A worker computes its messages one after the other; each takes `seconds_per_task` for each of its tasks, plus its
    own delay. Those of nested codes are one that grows, with one delay.

    Arguments:
        code: the code, which says who sends which message.
        delays: how slow the workers are.
        seconds_per_task: computing time of one task's partial gradient, at least 0.
    """

    def __init__(self, code: GradientCode, delays: Delays, seconds_per_task: float = 0.0) -> None:
        check_not_negative("seconds_per_task", seconds_per_task, "must be a finite number of seconds, at least 0")
        self.code, self.delays, self.seconds_per_task = code, delays, seconds_per_task
        work = code.works
        counts = code.messages_per_worker
        self._grows = bool(code.prior_works.any())
        self._one_each = len(work) == code.n_workers and bool((np.diff(code.owner) > 0).all())
        if self._one_each:  # message i is that of worker i: no look-ups, which matters for a million workers
            self._work: list[float | Array] = [_alike(work)]
            return
        units = int(counts.max())
        # For each unit, the workers that send more messages than that, and the number of that message.
        self._senders = [np.flatnonzero(counts > unit) for unit in range(units)]
        self._messages = [
            np.array([code.messages_of(int(worker))[unit] for worker in self._senders[unit]], dtype=np.int64)
            for unit in range(units)
        ]
        self._work = []
        for senders, messages in zip(self._senders, self._messages, strict=True):
            by_worker = np.zeros(code.n_workers)
            by_worker[senders] = work[messages]
            self._work.append(_alike(by_worker))

    def block(self, first: int, count: int, out: Array | None = None, posted: float | None = None) -> Array:
        """Return the arrival times of steps first..first+count-1, in seconds since the order.

        Arguments:
            first: the first step.
            count: number of steps.
            out: array to write to, shape (count, n_messages), C-contiguous; if None, a new one is made.
            posted: when the order of a single step was given, for delays that follow the clock.

        Returns:
            Shape (count, n_messages); inf for a message that never comes.
        """
        code = self.code
        times = room(out, count, code.n_messages)
        if self._one_each:
            return self._own(first, count, 0, 0, posted, times)
        clock = np.zeros((count, code.n_workers))
        for unit, (senders, messages) in enumerate(zip(self._senders, self._messages, strict=True)):
            own = self._own(first, count, 0 if self._grows else unit, unit, posted)
            clock = own if self._grows else clock + own
            times[:, messages] = clock[:, senders]
        return times

    def precedence(self, first: int, seed: int, count: int = 1) -> Array:
        """Return keys that break ties between messages of a step that arrive at the same moment.

        Arguments:
            first: the first step.
            seed: seed of the random keys.
            count: number of steps.

        Returns:
            Shape (count, n_messages); the message with the smaller key comes first.
        """
        code = self.code
        if self._one_each:
            return precedence(self.delays, seed, first, count, code.n_workers)
        places = np.empty((count, code.n_messages))
        for unit, (senders, messages) in enumerate(zip(self._senders, self._messages, strict=True)):
            places[:, messages] = precedence(self.delays, seed, first, count, code.n_workers, unit)[:, senders]
        return places

    def _own(
        self, first: int, count: int, unit: int, sent: int, posted: float | None, out: Array | None = None
    ) -> Array:
        work, n_workers = self._work[sent], self.code.n_workers
        if posted is None:
            times = rows_of(self.delays, first, count, n_workers, unit, work, out)
        else:
            times = room(out, count, n_workers)
            times[:] = rows_at_of(self.delays, first, posted, n_workers, unit, work)
        if self.seconds_per_task:
            times += self.seconds_per_task * work
        return times


def _alike(work: Array) -> float | Array:
    """Return a single number if all workers have the same, and the array otherwise."""
    return float(work[0]) if bool((work == work[0]).all()) else work

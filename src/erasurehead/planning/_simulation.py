"""Simulation of step times and residuals without gradients: millions of worker-steps a second, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead._internal.late_work import LateWork
from erasurehead._internal.resources import check_memory
from erasurehead.decoding import Decoder
from erasurehead.decoding._alternatives import Alternatives
from erasurehead.delays import Delays
from erasurehead.delays._ties import untied
from erasurehead.errors import check_count, counted, invalid
from erasurehead.planning._arrivals import ArrivalTimes
from erasurehead.schemes import Scheme
from erasurehead.schemes.wait_rules import WaitRule
from erasurehead.schemes.wait_rules._group_arrival_times import replica_groups
from erasurehead.schemes.wait_rules._worker_counts import finish_times, participants

Watch: TypeAlias = Callable[[Array, Array, Array], None]
"""Called with simulated steps: arrival times, shape (rounds, n_messages); stop times and residuals, shape (rounds,)."""

_BLOCK = 1 << 16  # arrival times held at once, such that they fit into the cache; more if a single step has more
_KEPT = 32  # bytes of a simulated step
_WHOLE = 1024  # steps of the tiles in which delays of few workers are drawn: blocks are multiples of it if possible


@dataclass(frozen=True, eq=False)
class Simulation:
    """Simulated steps.

    Attributes:
        seconds: time at which waiting stopped, in seconds since the order, shape (steps,); inf if the rule was never
            met.
        residual: residual of optimal decoding at that time, in tasks, shape (steps,).
        arrived: number of workers whose messages had all arrived by then, shape (steps,).
    """

    seconds: Array
    residual: Array
    arrived: IntArray

    @property
    def met(self) -> float:
        """Share of the steps in which the rule was met."""
        return float(np.isfinite(self.seconds).mean())

    @property
    def seconds_per_step(self) -> float:
        """Mean seconds per step; inf if the rule was not met in some step."""
        return float(self.seconds.mean())


@dataclass(frozen=True, eq=False)
class Timing:
    """What the times of simulated steps follow from: a code, when its steps stop, and how slow its workers are.

    Arguments:
        decoder: decoder of the code.
        rule: wait rule.
        delays: how slow the workers are.
        seconds_per_task: computing time of a task, at least 0.
        first_step: number of the first step.
        late: what a worker does with old work when the next order is given.
        seed: seed that breaks ties between messages that arrive at the same moment; with the seed of the virtual
            engine, the same messages count as there.
        until_newer: whether a newer order ends an older one between two messages of a worker: see `Scheme`.
    """

    decoder: Decoder
    rule: WaitRule
    delays: Delays
    seconds_per_task: float = 0.0
    first_step: int = 0
    late: LateWork = "carry"
    seed: int = 0
    until_newer: bool = False

    @classmethod
    def of(
        cls, scheme: Scheme, delays: Delays, seconds_per_task: float, first_step: int = 0, late: LateWork = "preempt"
    ) -> Self:
        """Return that of a scheme."""
        own = scheme.decoder, scheme.rule
        return cls(*own, delays, seconds_per_task, first_step, late, until_newer=scheme.until_newer)

    @property
    def arrivals(self) -> ArrivalTimes:
        """When messages arrive."""
        return ArrivalTimes(self.decoder.code, self.delays, self.seconds_per_task)

    @property
    def one_by_one(self) -> bool:
        """Whether a step depends on when, or how, the one before has ended, even if late work is dropped."""
        return self.rule.remembers or self.delays.follows_clock


def simulate(timing: Timing, steps: int, block: int | None = None, watch: Watch | None = None) -> Simulation:
    """Simulate independent steps, in which every worker is idle when the order is given (`preempt`).

    The delays are those that the engines draw for the same steps, so that a real run stops at the same times.

    Arguments:
        timing: what their times follow from; whatever it says of late work.
        steps: number of steps, at least 1.
        block: number of steps held in memory at once, which does not change the result; by default about as many as
            fill half a megabyte.
        watch: called with the steps of each block, in order.

    Raises:
        InvalidArgument: if the rule can never be met with this code; or if steps depend on each other, as the rule
            learns from earlier steps or uses late messages, or the delays follow the clock: see
            `simulate_with_memory`.
    """
    _check(timing, steps)
    decoder, rule, first_step = timing.decoder, timing.rule, timing.first_step
    seconds = np.empty(steps)
    residual = np.empty(steps)
    arrived = np.zeros(steps, dtype=np.int64)
    arrivals = timing.arrivals
    for low, times in _blocks(arrivals, first_step, steps, block):
        span = slice(low, low + len(times))
        stop = rule.stop_times(times, decoder)
        seconds[span] = stop
        last = (times == stop[:, None]) & np.isfinite(times)
        tied = np.flatnonzero(np.count_nonzero(last, axis=1) > 1)
        if len(tied):
            first, count = int(tied[0]), int(tied[-1] - tied[0]) + 1
            before = arrivals.precedence(first_step + low + first, timing.seed, count)[tied - first]
            times[tied] = untied(times[tied], before)
            stop[tied] = rule.stop_times(times[tied], decoder)
        finished = finish_times(times, decoder.code)
        arrived[span] = np.count_nonzero((finished <= stop[:, None]) & np.isfinite(finished), axis=1)
        residual[span] = residuals_at(decoder, times, stop)
        if watch is not None:
            watch(times, stop, residual[span])
    return Simulation(seconds, residual, arrived)


def with_sums(simulated: Simulation, scheme: Scheme, delays: Delays, first_step: int = 0) -> Simulation:
    """Return simulated steps with the round of sums that follows, where workers report first what they have finished.

    Arguments:
        simulated: the steps, as far as reports go; they are returned as they are if there are no sums.
        scheme, delays, first_step: of the simulation.
    """
    if not scheme.sums:
        return simulated
    sums = delays.rows(first_step, len(simulated.seconds), scheme.code.n_workers, 0, 0.0)
    sums[~np.isfinite(sums)] = 0.0  # who never answers is not named
    return replace(simulated, seconds=simulated.seconds + sums.max(axis=1))


def stop_times(timing: Timing, steps: int) -> Array:
    """Simulate like `simulate`, but return only the seconds at which each step stops, shape (steps,)."""
    _check(timing, steps)
    seconds = np.empty(steps)
    for low, times in _blocks(timing.arrivals, timing.first_step, steps, None):
        seconds[low : low + len(times)] = timing.rule.stop_times(times, timing.decoder)
    return seconds


def _check(timing: Timing, steps: int) -> None:
    check_steps(steps)
    timing.rule.check(timing.decoder)
    hint = "use simulate_with_memory, which simulates one step after the other"
    if timing.rule.remembers:
        raise invalid("rule", "must be one for which steps do not depend on each other", str(timing.rule), hint)
    if timing.delays.follows_clock:
        raise invalid("delays", "must be drawn once a step, not along the clock", str(timing.delays), hint)


def check_steps(steps: int) -> None:
    """Raise if a number of steps is none, or there is no memory for what is kept of each of them.

    Raises:
        InvalidArgument: if it is no whole number of at least 1.
        TooLarge: if there is no memory for so many.
    """
    check_count("steps", steps)
    check_memory(f"A simulation of {counted('step', steps)}", float(_KEPT) * steps, "simulate fewer steps")


def residuals_at(decoder: Decoder, times: Array, stop: Array) -> Array:
    """Return the residual of optimal decoding of the messages that have arrived at given times.

    Arguments:
        decoder: decoder of the code.
        times: arrival time of each message, in seconds, shape (rounds, n_messages); inf for one that never arrives.
        stop: one time per round, in seconds, shape (rounds,); inf for all messages that ever arrive.

    Returns:
        Residuals in tasks, shape (rounds,).
    """
    code = decoder.code
    if code.replicas:
        groups = replica_groups(code)
        arrived = groups.earliest(times) <= np.minimum(stop, np.finfo(np.float64).max)[:, None]
        return groups.rest + np.where(arrived, 0.0, groups.gains).sum(axis=1)
    inside = (times <= stop[:, None]) & np.isfinite(times)
    residual = np.zeros(len(times))
    open_rounds = np.arange(len(times))
    if isinstance(decoder, Alternatives) and decoder.inner is None:
        levels = zip(decoder.members, decoder.decoders, strict=True)
        enough = [inside[:, rows].sum(axis=1) >= len(rows) - (one.code.tolerance or 0) for rows, one in levels]
        open_rounds = np.flatnonzero(~np.any(enough, axis=0))
    elif code.tolerance is not None:
        finished = np.count_nonzero(finish_times(np.where(inside, 0.0, np.inf), code) == 0.0, axis=1)
        # Rounds whose stragglers are within the tolerance have a residual of 0: they need not be decoded.
        open_rounds = np.flatnonzero(finished < participants(code) - code.tolerance)
    # Rounds with the same arrivals have the same residual, and few workers give few different sets.
    sets, which = np.unique(np.packbits(inside[open_rounds], axis=1), axis=0, return_inverse=True)
    n = code.n_messages
    by_set = [decoder.residual(np.flatnonzero(np.unpackbits(packed, count=n)).tolist()) for packed in sets]
    residual[open_rounds] = np.array(by_set)[which.ravel()] if len(sets) else 0.0
    return residual


def _blocks(arrivals: ArrivalTimes, first_step: int, steps: int, block: int | None) -> Iterator[tuple[int, Array]]:
    n_messages = arrivals.code.n_messages
    count = min(steps, _rows(n_messages) if block is None else check_count("block", block))
    buffer = np.empty((count, n_messages))
    for low in range(0, steps, count):
        rows = min(count, steps - low)
        yield low, arrivals.block(first_step + low, rows, buffer[:rows])


def _rows(n_messages: int) -> int:
    # Delays are drawn in tiles (`erasurehead.delays._draws`), so that blocks of whole tiles are drawn fastest.
    rows = max(1, _BLOCK // n_messages)
    if rows >= _WHOLE:
        return rows - rows % _WHOLE
    least = 128 if n_messages <= 1024 else 1
    return max(least, rows - rows % least)

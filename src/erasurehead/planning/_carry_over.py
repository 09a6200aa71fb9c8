"""Simulation of dependent steps: workers may still be busy with an older order when the next one is given."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.codes import GradientCode
from erasurehead.decoding._base import Decoding
from erasurehead.decoding._layout import Layout
from erasurehead.delays._ties import untied
from erasurehead.engines import MessageSpec, Order, Program, VirtualEngine
from erasurehead.engines._base import ASKED, UNTIL_NEWER
from erasurehead.errors import EngineError, Unreachable
from erasurehead.faults import FaultPolicy
from erasurehead.planning._arrivals import ArrivalTimes
from erasurehead.planning._simulation import Simulation, Timing, Watch, check_steps, residuals_at, simulate
from erasurehead.schemes import Aggregation, Scheme
from erasurehead.schemes.wait_rules._worker_counts import finish_times
from erasurehead.training._assignment import Assignment
from erasurehead.training._dialogue import gathered
from erasurehead.training._round import RoundRunner
from erasurehead.training._workers import WorkerPool

_HELD = 1 << 20  # computing and waiting times held at once
_WARM = 16  # steps after which workers are about as busy as in a long run


@dataclass(frozen=True, eq=False)
class _Idle(Program):
    """A worker's program that takes time, but computes nothing.

    Arguments:
        specs: its messages.
    """

    specs: tuple[MessageSpec, ...]

    @property
    def message_specs(self) -> Sequence[MessageSpec]:
        return self.specs

    @property
    def input_size(self) -> int:
        return 1

    def remaining(self, order: Order, done: Sequence[MessageSpec]) -> Sequence[MessageSpec]:
        if ASKED not in order.note:
            return self.specs[len(done) :]
        prior = dict(order.note[ASKED]["prior"])
        return [replace(one, prior=prior[one.message]) for one in self.specs if one.message in prior][len(done) :]

    def take(self, order: Order) -> Any:
        return None

    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        out[:] = 0.0


class _Nothing(Aggregation):
    """An aggregation that makes nothing of what arrives."""

    def estimate(self, decoding: Decoding, vectors: Sequence[Array], layout: Layout, order: Order) -> Array | None:
        return None


def simulate_with_memory(timing: Timing, steps: int, watch: Watch | None = None, chains: int = 1) -> Simulation:
    """Simulate successive steps as the virtual engine runs them, without model and gradients.

    All workers of a step are simulated at once, unless the rule learns, messages grow, or only work that is too old is
    dropped: then the engine's event queue is used, which handles about 100,000 arrivals a second. Steps that do not
    depend on each other are those of `simulate`.

    Arguments:
        timing: what their times follow from.
        steps: number of steps, at least 1; successive steps are not independent.
        watch: called with the steps, in order if there is one chain.
        chains: number of runs into which the steps are split. They are simulated side by side, and what they return
            begins when workers are as busy as in a long run; a single one begins with idle workers. Used only if all
            workers of a step are simulated at once; 1 if delays follow the clock.

    Returns:
        The steps, as in `simulate`; once the rule can no longer be met, the seconds of all further steps are inf.

    Raises:
        InvalidArgument: if the rule can never be met with this code.
    """
    check_steps(steps)
    code = timing.decoder.code
    timing.rule.check(timing.decoder)
    if timing.late == "preempt" and not timing.one_by_one:
        return simulate(timing, steps, watch=watch)
    alike = timing.late in ("carry", "preempt") and code.messages_per_worker.all() and not code.prior_works.any()
    if alike and not timing.rule.remembers:
        return _Chains(timing, steps, chains).simulation(watch)
    return by_event(timing, steps, watch)


class _Chains:
    """Runs side by side, with all workers of a step at once; a busy one takes the newest order when its older is done.

    Arguments: as for `simulate_with_memory`.
    """

    def __init__(self, timing: Timing, steps: int, chains: int) -> None:
        code = timing.decoder.code
        self.timing, self.steps, self.arrivals = timing, steps, timing.arrivals
        counts = code.messages_per_worker
        units = np.minimum(np.arange(int(counts.max())), counts[:, None] - 1)  # the last one, in place of any that lack
        self.sent = np.array([code.messages_of(worker)[own] for worker, own in enumerate(units)])
        self.chains = 1 if timing.delays.follows_clock else max(1, min(chains, steps))
        self.warm = _WARM if self.chains > 1 else 0
        kept = -(-steps // self.chains)
        self.length = kept + self.warm
        self.seconds = np.full((kept, self.chains), np.inf)
        self.residual = np.full((kept, self.chains), float(code.n_tasks))
        self.arrived = np.zeros((kept, self.chains), dtype=np.int64)
        self.clock: Array = np.zeros((self.chains, 1))
        self.free: Array = np.zeros((self.chains, code.n_workers))  # when each worker finishes its current work
        self.alive = np.ones(self.chains, dtype=bool)
        self.begins = timing.first_step + np.arange(self.chains) * self.length

    def simulation(self, watch: Watch | None) -> Simulation:
        """Simulate all steps."""
        span = max(1, min(self.length, _HELD // (self.chains * self.timing.decoder.code.n_messages)))
        for low in range(0, self.length, span):
            times = self._durations(low, min(span, self.length - low))
            stops = np.full(times.shape[:2], np.inf)
            for row in range(len(times)):
                stops[row] = self._step(low + row, times[row])
                if not self.alive.any():
                    break
            self._keep(low, times, stops, watch)
            if not self.alive.any():
                break
        seconds, residual = (kept.T.ravel()[: self.steps] for kept in (self.seconds, self.residual))
        return Simulation(seconds, residual, self.arrived.T.ravel()[: self.steps])

    def _durations(self, low: int, count: int) -> Array:
        """Return how long messages take that are begun in some steps; of delays along the clock, `_step` finds out."""
        times = np.empty((count, self.chains, self.timing.decoder.code.n_messages))
        if not self.timing.delays.follows_clock:
            for chain, begin in enumerate(self.begins.tolist()):
                times[:, chain] = self.arrivals.block(begin + low, count)
        return times

    def _step(self, number: int, times: Array) -> Array:
        """Take a step in each chain: turn durations into arrival times, in place, and return when waiting stops."""
        timing, code = self.timing, self.timing.decoder.code
        if timing.delays.follows_clock:
            times[:] = self.arrivals.block(timing.first_step + number, 1, None, float(self.clock[0, 0]))
        started = np.maximum(self.free, self.clock)
        done: Array = times + started[:, code.owner]
        np.subtract(done, self.clock, out=times)
        stop = _stop(timing, times, self.arrivals, self.begins + number)
        stop[~self.alive] = np.inf
        self.alive = self.alive & np.isfinite(stop)
        if self.alive.any():
            self.clock = np.where(self.alive, self.clock[:, 0] + stop, self.clock[:, 0])[:, None]
            if timing.late != "preempt":  # else who is late is idle
                ends = done[:, self.sent[:, -1]]
                if timing.until_newer:  # the message that is being computed then is the last one
                    ends = np.where(done > self.clock, done, ends[:, code.owner])[:, self.sent].min(axis=2)
                self.free = np.where(started <= self.clock, ends, self.free)
        return stop

    def _keep(self, low: int, times: Array, stops: Array, watch: Watch | None) -> None:
        """Keep what is asked of steps that have ended, if they are not among the first, in which workers get busy."""
        numbers, decoder = np.arange(low, low + len(times)) - self.warm, self.timing.decoder
        rows, columns = np.nonzero(np.isfinite(stops) & (numbers >= 0)[:, None])
        places = numbers[rows], columns
        stop, inside = stops[rows, columns], times[rows, columns]
        if len(stop):
            self.seconds[places] = stop
            self.residual[places] = lost = residuals_at(decoder, inside, stop)
            self.arrived[places] = np.count_nonzero(finish_times(inside, decoder.code) <= stop[:, None], axis=1)
            if watch is not None:
                watch(inside, stop, lost)


def _stop(timing: Timing, times: Array, arrivals: ArrivalTimes, steps: IntArray) -> Array:
    """Return when waiting stops in each chain; ties between messages are broken in `times` in place."""
    stop = timing.rule.stop_times(times, timing.decoder)
    last = (times == stop[:, None]) & np.isfinite(times)
    for chain in np.flatnonzero(np.count_nonzero(last, axis=1) > 1).tolist():
        times[chain] = untied(times[chain : chain + 1], arrivals.precedence(int(steps[chain]), timing.seed))
        stop[chain] = timing.rule.stop_times(times[chain : chain + 1], timing.decoder)[0]
    return np.array(stop)


def by_event(timing: Timing, steps: int, watch: Watch | None = None) -> Simulation:
    """Simulate one step after the other, by workers on the virtual engine that compute nothing.

    The arguments are those of `simulate_with_memory`.
    """
    code, rule = timing.decoder.code, timing.rule
    note = {UNTIL_NEWER: True} if timing.until_newer else {}
    scheme = Scheme("simulation", timing.decoder, {"gradient": rule}, _Nothing())
    engine = VirtualEngine(timing.delays, timing.late, timing.seconds_per_task, seed=timing.seed)
    programs = [_Idle(_specs(code, worker)) for worker in range(code.n_workers)]
    assignment = Assignment.first(scheme, programs, Layout(1, [None] * code.n_messages))
    pool = WorkerPool(engine, assignment, fault_policy=FaultPolicy(on_death="leave", on_suspicion="ignore"))
    rounds = RoundRunner(pool)
    pool.start()
    seconds, residual = np.full(steps, np.inf), np.full(steps, float(code.n_tasks))
    arrived = np.zeros(steps, dtype=np.int64)
    numbers = itertools.count()
    for number in range(steps):

        def numbered(more: Mapping[str, Any], step: int = timing.first_step + number) -> Order:
            notes, generation = {**note, **more}, pool.assignment.generation
            return Order(step, (np.zeros(1),), next(numbers), generation, note=notes, posted=engine.now())

        try:
            order, result = gathered(rounds, pool, numbered, tried=False)
        except (Unreachable, EngineError):  # the rule cannot be met, or no worker is left to answer
            break
        seconds[number] = result.waited
        residual[number] = result.decoding.residual
        arrived[number] = result.view.finished
        if watch is not None:
            times, level = np.full((1, code.n_messages), np.inf), result.assignment.level
            rows = None if level is None else np.flatnonzero(code.structure.levels == level)
            for came in result.rows:
                if not came.censored:
                    times[0, came.message if rows is None else rows[came.message]] = came.seconds
            watch(times, seconds[number : number + 1], residual[number : number + 1])
        if rule.remembers:
            rounds.learn(result.step_row(order, end=engine.now()), [*result.late_rows, *result.rows])
    return Simulation(seconds, residual, arrived)


def _specs(code: GradientCode, worker: int) -> tuple[MessageSpec, ...]:
    groups = np.arange(code.n_messages) if code.groups is None else code.groups
    return tuple(
        MessageSpec(
            message,
            float(code.works[message]),
            1,
            content=int(groups[message]),
            prior=float(code.prior_works[message]),
        )
        for message in code.messages_of(worker).tolist()
    )

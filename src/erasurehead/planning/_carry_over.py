"""Simulation of dependent steps: workers may still be busy with an older order when the next one is given."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead._internal.late_work import LateWork
from erasurehead.codes import GradientCode
from erasurehead.decoding import Decoder
from erasurehead.decoding._base import Decoding
from erasurehead.decoding._layout import Layout
from erasurehead.delays import Delays
from erasurehead.delays._ties import untied
from erasurehead.engines import MessageSpec, Order, Program, VirtualEngine
from erasurehead.engines._base import ASKED, UNTIL_NEWER
from erasurehead.errors import EngineError, Unreachable
from erasurehead.faults import FaultPolicy
from erasurehead.planning._arrivals import ArrivalTimes
from erasurehead.planning._simulation import Simulation, Watch, check_steps, residuals_at, simulate
from erasurehead.schemes import Aggregation, Scheme
from erasurehead.schemes.wait_rules import WaitRule
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


def simulate_with_memory(
    decoder: Decoder,
    rule: WaitRule,
    delays: Delays,
    steps: int,
    seconds_per_task: float = 0.0,
    first_step: int = 0,
    late: LateWork = "carry",
    seed: int = 0,
    watch: Watch | None = None,
    chains: int = 1,
    until_newer: bool = False,
) -> Simulation:
    """Simulate successive steps as the virtual engine runs them, without model and gradients.

    All workers of a step are simulated at once, unless the rule learns, messages grow, or only work that is too old is
    dropped: then the engine's event queue is used, which handles about 100,000 arrivals a second. Steps that do not
    depend on each other are those of `simulate`.

    Arguments:
        decoder: decoder of the code.
        rule: wait rule.
        delays: how slow the workers are.
        steps: number of steps, at least 1; successive steps are not independent.
        seconds_per_task: computing time of a task, at least 0.
        first_step: number of the first step.
        late: what a worker does with old work when the next order is given.
        seed: seed that breaks ties between messages that arrive at the same moment.
        watch: called with the steps, in order if there is one chain.
        chains: number of runs into which the steps are split. They are simulated side by side, and what they return
            begins when workers are as busy as in a long run; a single one begins with idle workers. Used only if all
            workers of a step are simulated at once; 1 if delays follow the clock.
        until_newer: whether a newer order ends an older one between two messages of a worker: see `Scheme`.

    Returns:
        The steps, as in `simulate`; once the rule can no longer be met, the seconds of all further steps are inf.

    Raises:
        InvalidArgument: if the rule can never be met with this code.
    """
    check_steps(steps)
    code = decoder.code
    rule.check(decoder)
    timing = decoder, rule, delays, steps, seconds_per_task, first_step
    if late == "preempt" and not (rule.remembers or delays.follows_clock):
        return simulate(*timing, seed=seed, watch=watch)
    alike = late in ("carry", "preempt") and code.messages_per_worker.all() and not code.prior_works.any()
    if alike and not rule.remembers:
        return _at_once(*timing, late, seed, watch, chains, until_newer)
    return by_event(*timing, late, seed, watch, until_newer)


def _at_once(
    decoder: Decoder,
    rule: WaitRule,
    delays: Delays,
    steps: int,
    seconds_per_task: float,
    first_step: int,
    late: LateWork,
    seed: int,
    watch: Watch | None,
    chains: int,
    until_newer: bool,
) -> Simulation:
    """Simulate all workers of a step at once; a busy worker takes the newest order when its older one is done."""
    code, by_clock = decoder.code, delays.follows_clock
    counts = code.messages_per_worker
    units = np.minimum(np.arange(int(counts.max())), counts[:, None] - 1)  # the last one, in place of any that lack
    sent = np.array([code.messages_of(worker)[own] for worker, own in enumerate(units)])
    chains = 1 if by_clock else max(1, min(chains, steps))
    length, warm = -(-steps // chains), _WARM if chains > 1 else 0
    arrivals = ArrivalTimes(code, delays, seconds_per_task)
    shape = (length, chains)
    seconds, residual = np.full(shape, np.inf), np.full(shape, float(code.n_tasks))
    arrived = np.zeros(shape, dtype=np.int64)
    clock: Array = np.zeros((chains, 1))
    free: Array = np.zeros((chains, code.n_workers))  # when each worker finishes its current work
    begins = first_step + np.arange(chains) * (length + warm)
    span = max(1, min(length + warm, _HELD // (chains * code.n_messages)))
    alive = np.ones(chains, dtype=bool)
    for low in range(0, length + warm, span):
        count = min(span, length + warm - low)
        times = np.empty((count, chains, code.n_messages))
        for chain, begin in enumerate(begins[: 0 if by_clock else chains].tolist()):
            times[:, chain] = arrivals.block(begin + low, count)
        stops = np.full((count, chains), np.inf)
        for row in range(count):  # turn the durations in `times` into arrival times
            if by_clock:
                times[row] = arrivals.block(first_step + low + row, 1, None, float(clock[0, 0]))
            started = np.maximum(free, clock)
            done: Array = times[row] + started[:, code.owner]
            np.subtract(done, clock, out=times[row])
            stop = _stop(rule, decoder, times[row], arrivals, begins + low + row, seed)
            stop[~alive] = np.inf
            stops[row], alive = stop, alive & np.isfinite(stop)
            if not alive.any():
                break
            clock = np.where(alive, clock[:, 0] + stop, clock[:, 0])[:, None]
            if late == "preempt":  # who is late is idle
                continue
            ends = done[:, sent[:, -1]]
            if until_newer:  # the message that is being computed then is the last one
                ends = np.where(done > clock, done, ends[:, code.owner])[:, sent].min(axis=2)
            free = np.where(started <= clock, ends, free)
        numbers = np.arange(low, low + count) - warm
        rows, columns = np.nonzero(np.isfinite(stops) & (numbers >= 0)[:, None])
        places = numbers[rows], columns
        stop, inside = stops[rows, columns], times[rows, columns]
        if len(stop):
            seconds[places] = stop
            residual[places] = lost = residuals_at(decoder, inside, stop)
            arrived[places] = np.count_nonzero(finish_times(inside, code) <= stop[:, None], axis=1)
            if watch is not None:
                watch(inside, stop, lost)
        if not alive.any():
            break
    return Simulation(seconds.T.ravel()[:steps], residual.T.ravel()[:steps], arrived.T.ravel()[:steps])


def _stop(rule: WaitRule, decoder: Decoder, times: Array, arrivals: ArrivalTimes, steps: IntArray, seed: int) -> Array:
    """Return when waiting stops in each chain; ties between messages are broken in `times` in place."""
    stop = rule.stop_times(times, decoder)
    last = (times == stop[:, None]) & np.isfinite(times)
    for chain in np.flatnonzero(np.count_nonzero(last, axis=1) > 1).tolist():
        times[chain] = untied(times[chain : chain + 1], arrivals.precedence(int(steps[chain]), seed))
        stop[chain] = rule.stop_times(times[chain : chain + 1], decoder)[0]
    return np.array(stop)


def by_event(
    decoder: Decoder,
    rule: WaitRule,
    delays: Delays,
    steps: int,
    seconds_per_task: float,
    first_step: int,
    late: LateWork,
    seed: int,
    watch: Watch | None,
    until_newer: bool = False,
) -> Simulation:
    """Simulate one step after the other, by workers on the virtual engine that compute nothing.

    The arguments are those of `simulate_with_memory`.
    """
    code = decoder.code
    note = {UNTIL_NEWER: True} if until_newer else {}
    scheme = Scheme("simulation", decoder, {"gradient": rule}, _Nothing())
    engine = VirtualEngine(delays, late, seconds_per_task, seed=seed)
    programs = [_Idle(_specs(code, worker)) for worker in range(code.n_workers)]
    assignment = Assignment.first(scheme, programs, Layout(1, [None] * code.n_messages))
    pool = WorkerPool(engine, assignment, fault_policy=FaultPolicy(on_death="leave", on_suspicion="ignore"))
    rounds = RoundRunner(pool)
    pool.start()
    seconds, residual = np.full(steps, np.inf), np.full(steps, float(code.n_tasks))
    arrived = np.zeros(steps, dtype=np.int64)
    numbers = itertools.count()
    for number in range(steps):

        def numbered(more: Mapping[str, Any], step: int = first_step + number) -> Order:
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

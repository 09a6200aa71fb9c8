"""The workers of a run: who lives, on which host, and who takes over from the dead.

`WorkerPool` follows them through starts, deaths, joins and resizes. At any time they work under one `Assignment`.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast, final

import numpy as np

from erasurehead._internal.arrays import Tree
from erasurehead._internal.resumable import Resumable
from erasurehead.codes import GradientCode
from erasurehead.decoding._layout import Layout
from erasurehead.delays._speeds import Speeds
from erasurehead.engines import Arrived, Died, Engine, Failed, Joined
from erasurehead.engines._base import Event, NoRoom, Offered
from erasurehead.errors import EngineError, InvalidArgument, check_type, counted, invalid, numbered
from erasurehead.faults import FaultPolicy
from erasurehead.schemes import Scheme
from erasurehead.training._assignment import Assignment, reassigned
from erasurehead.training._hosts import spread
from erasurehead.training._programs import CodedProgram
from erasurehead.training._rows import ArrivalRow, Notice, NoticeKind

START_TIMEOUT = 300.0
"""Seconds within which all workers must be ready."""

Planner: TypeAlias = Callable[[Scheme], tuple[Sequence[CodedProgram], Layout, Layout | None]]
"""Lays a scheme out: the programs of its positions, and where the elements belong of their messages, and of those that
workers can be asked for instead, if there are any."""


def next_event(engine: Engine, until: float) -> Event | None:
    """Return the next event of an engine, which may be somebody's own, or None at `until`; inf for no limit.

    Raises:
        InvalidArgument: if it returns something else.
        EngineError: if it returns None before, or its clock goes back; or as the engine.
    """
    before = engine.now()
    event = engine.next_event(None if until == math.inf else until)
    if not engine.now() >= before:
        raise EngineError(f"the clock of the engine {engine.name!r} went back: now() must never fall.")
    if event is not None:
        check_type("what next_event(until) returns", event, Event, "must be an event, or None once now() is `until`")
    elif engine.now() < until:
        raise EngineError(f"the engine {engine.name!r} returned None from next_event(until) before now() was `until`.")
    return event


@final
class WorkerPool(Resumable):
    """The workers of a run, under one assignment at a time.

    A worker that dies is replaced under its own number, as far as the fault policy goes, so that the round under way
    loses nothing but time. Only one that is given up leaves a hole in the code, and holes are closed between rounds, by
    resizing the code for those that are left.

    Attributes:
        assignment: which worker has which position of the code now. What its scheme learns is this run's alone.
        living: workers that have joined and not died, each with its host.
        coming: workers that were started and have not joined yet, each with the time until which they have to; they can
            still answer the current order.
        dead: workers of the assignment that have died and are not replaced, each with the reason.
        gone: all workers that have been given up for good, each with the reason.
        wanted: how many workers the user, or the engine's offers, ask for at the next `settle`; None if nobody asks.
        early: what happened to them while they were started, in order.
        around: whether the data are held around a circle now, after `lay_around`.
    """

    checkpointed = (
        "living",
        "coming",
        "dead",
        "gone",
        "wanted",
        "_deaths",
        "_shrunk",
        "_speeds",
        "_moving",
        "_moved",
        "_laying",
        "around",
    )

    def __init__(
        self,
        engine: Engine,
        assignment: Assignment,
        form: Planner | None = None,
        fault_policy: FaultPolicy | None = None,
    ) -> None:
        self.engine = engine
        self.fault_policy = fault_policy or FaultPolicy(on_death="leave")
        self.living: dict[int, str] = {}
        self.coming: OrderedDict[int, float] = OrderedDict()  # by time, so that the first is the next to be checked
        self.dead: dict[int, str] = {}
        self.gone: dict[int, str] = {}
        self.wanted: int | None = None
        self._scheme = assignment.scheme  # as the user gave it; resized ones are all derived from it
        self.assignment = replace(assignment, scheme=self._scheme.begin())
        self._form = form
        self._tell: Callable[[Notice], None] = lambda notice: None
        self.early: list[Died | Joined | Failed | Offered] = []
        self._deaths = Counter[int]()
        self._started = False
        self._shrunk = False
        self._held: list[int] | None = None  # the replicas by which the code was last resized
        n = assignment.code.n_workers
        self._speeds = (
            None if self._scheme.by_speed is None else Speeds(n, _speeds_of(self._scheme.code))
        )  # by position
        self._moving = False  # whether the tasks are to be dealt out anew
        self.around = False
        self._laying = False  # whether the data are to be laid around a circle
        self._moved: set[int] = set()  # workers who were given other tasks just now: that they join again is no news

    def able(self) -> set[int]:
        """Return the positions whose worker can still answer, including those that are being replaced.

        A replacement is sent the current order as soon as it has joined, so that wait rules go on counting on it.
        """
        return {
            position
            for position, worker in enumerate(self.assignment.worker_ids)
            if worker in self.living or worker in self.coming
        }

    def present(self) -> list[int]:
        """Return the workers of the assignment that can be sent orders, by position."""
        return [worker for worker in self.assignment.worker_ids if worker in self.living]

    def report_to(self, tell: Callable[[Notice], None]) -> None:
        """From now on, call `tell` with each notice about workers."""
        self._tell = tell

    # --- starting -------------------------------------------------------------------------------------------------

    def start(self) -> float:
        """Start all workers and wait until each is ready or dead.

        Returns:
            The seconds that it took.

        Raises:
            EngineError: if no worker started, or not all within five minutes; the error says which and why.

        A worker that dies before it is ready is replaced like one that dies later.
        """
        engine, assignment = self.engine, self.assignment
        begin = engine.now()
        hosts = spread(assignment.code, engine.hosts())
        wanted = assignment.code.parameters.get("hosts", hosts)
        if wanted != hosts:
            there = ", ".join(
                f"{name} ({'any number' if room is None else room})" for name, room in engine.hosts().items()
            )
            rule = "must be machines of the engine with room for their workers"
            raise invalid("hosts", rule, wanted, f"there are {there}")
        for position, worker in enumerate(assignment.worker_ids):
            engine.assign(worker, assignment.programs[position], hosts[position])
            self.coming[worker] = begin + START_TIMEOUT
        while self.coming:
            event = next_event(engine, self.wake())
            if event is not None and not isinstance(event, Arrived):
                self.early.append(event)
            if isinstance(event, Joined):
                self.join(event)
            elif isinstance(event, Died):  # a ready worker may die while others are still starting
                self.die(event)
            elif isinstance(event, Offered):
                self.offered(event)
            elif isinstance(event, Failed):
                text = f"worker {event.worker} failed before it was ready: {event.reason}"
                self._notice("failed", text, event.worker, reason=event.reason)
            elif event is None:
                raise EngineError(
                    f"workers {sorted(self.coming)} were not ready within {START_TIMEOUT:.0f} s. An engine of your own "
                    "has to tell by `Joined` that a worker is."
                )
        if not self.living:
            worker, reason = next(iter(self.dead.items()))
            raise EngineError(f"worker {worker} {reason}.")
        self._started = True
        self._tell_idle()
        return engine.now() - begin

    # --- what happens to workers ----------------------------------------------------------------------------------

    def join(self, event: Joined) -> bool:
        """Record that a worker has joined; return whether it belongs to the assignment."""
        worker = event.worker
        if (self._started or self._deaths[worker]) and worker not in self._moved:
            self._notice("joined", f"worker {worker} has joined, on {event.host}", worker, host=event.host)
        self.living[worker] = event.host
        self.coming.pop(worker, None)
        self.dead.pop(worker, None)
        self.gone.pop(worker, None)
        self._moved.discard(worker)
        return worker in self.assignment.positions

    def die(self, event: Died) -> bool:
        """Record a death; return whether another worker takes its place, so that nothing is lost."""
        unborn = event.worker in self.coming and not self._started
        what = f"{'did not start' if unborn else 'died'}: {event.reason}"
        self.living.pop(event.worker, None)
        self.coming.pop(event.worker, None)
        if event.broken and not (self._started or self.living):  # none can run its program: not the workers' fault
            self._report("died", event.worker, what, event.reason)
            self._give_up(event.worker, what)
            return False
        return self._replace("died", event.worker, what, event.reason)

    def _notice(self, kind: NoticeKind, text: str, worker: int | None = None, **data: Any) -> None:
        self._tell(Notice(kind, worker, data=data, text=text))

    def _report(self, kind: NoticeKind, worker: int, what: str, reason: str, replaced: bool = False) -> None:
        self._notice(kind, f"worker {worker} {what}", worker, reason=reason, replaced=replaced)

    def replace_suspect(self, worker: int) -> bool:
        """End a worker that seems to hang, and start another in its place; return whether that could be done."""
        self._end(worker)
        return self._replace("ended", worker, "is ended", "it seems to hang")

    def put_aside(self, worker: int, reason: str) -> None:
        """Stop using a worker that lied, and let no other take its number."""
        self._end(worker)
        self._give_up(worker, f"lied: {reason}")

    def wake(self) -> float:
        """Return when to call `look` again, in the engine's seconds; inf if there is no need."""
        return next(iter(self.coming.values()), math.inf)

    def look(self, now: float) -> list[int]:
        """Give up workers that were started and have not joined in time; return them."""
        late = [worker for worker, until in self.coming.items() if until <= now]
        for worker in late:
            self._end(worker)
            reason = f"not ready within {START_TIMEOUT:.0f} s"
            self._report("died", worker, f"was {reason}, and is given up", reason)
            self._give_up(worker, "did not start")
        return late

    def offered(self, event: Offered) -> None:
        """Use room for more workers, if the user wants to grow."""
        if self.fault_policy.grow:
            self.wanted = (self.wanted or len(self.assignment.worker_ids)) + event.workers
        unless = "to start some there, say --grow"
        does = "they are started before the next step" if self.fault_policy.grow else unless
        text = f"host {event.host} has room for {event.workers} more workers; {does}"
        self._notice("offered", text, host=event.host, count=event.workers, taken=self.fault_policy.grow)

    def _end(self, worker: int) -> None:
        self.living.pop(worker, None)
        self.coming.pop(worker, None)
        self.engine.assign(worker, None)

    def _replace(self, kind: NoticeKind, worker: int, what: str, reason: str) -> bool:
        """Start a replacement for a worker if the policy allows it, and report it; return whether there is one.

        Arguments:
            kind: kind of the notice.
            worker: the worker that is gone.
            what: what happened to it, as part of a sentence.
            reason: the reason.
        """
        position = self.assignment.positions.get(worker)
        if position is None:  # it had left the assignment before
            self._report(kind, worker, what, reason)
            return False
        self._deaths[worker] += 1
        policy, replaced = self.fault_policy, False
        if policy.on_death == "replace" and self._deaths[worker] <= policy.replacements:
            replaced = self._assign(position, self._hosts_for_positions()[position])
            what += "; another takes its place" if replaced else "; there is no room for another"
        elif policy.on_death == "replace":
            what += f"; it was replaced {policy.replacements} times"
        self._report(kind, worker, what, reason, replaced)
        if not replaced:
            self._give_up(worker, what)
        return replaced

    def _give_up(self, worker: int, reason: str) -> None:
        self.dead[worker] = self.gone[worker] = reason
        self._shrunk = True

    def _assign(self, position: int, host: str | None) -> bool:
        worker = self.assignment.worker_ids[position]
        self.living.pop(worker, None)
        try:
            self.engine.assign(worker, self.assignment.programs[position], host)
        except NoRoom:
            self.engine.assign(worker, None)  # a running worker with that number is useless: it has other data
            self.dead[worker] = "found no room"
            return False
        self.coming[worker] = self.engine.now() + START_TIMEOUT
        self.coming.move_to_end(worker)
        return True

    def _hosts_for_positions(self) -> list[str | None]:
        """Return, for each position, a host apart from its replicas'; living workers stay where they are."""
        positions = self.assignment.positions
        settled = {positions[worker]: host for worker, host in self.living.items() if worker in positions}
        return spread(self.assignment.code, self.engine.hosts(), settled)

    # --- what workers are asked for ------------------------------------------------------------------------------

    def ask_by_task(self, by_task: bool) -> None:
        """Ask workers for a message per task from the next round on, or for the sums again."""
        if by_task != self.assignment.by_task:
            self.assignment = self.assignment.with_other_messages()

    def ask_in_turns(self, turns: Sequence[Sequence[int]]) -> None:
        """Ask workers for their messages in another order from the next round on: see `Assignment.turns`."""
        if list(turns) != list(self.assignment.turns):
            self.assignment = self.assignment.in_turns(turns)

    def lay_around(self) -> None:
        """Lay the data around a circle before the next round in which all workers are there: see `Scheme.around`."""
        self._laying = True

    # --- resizing the code -----------------------------------------------------------------------------------------

    @property
    def shrunk(self) -> bool:
        """Whether there are empty positions that resizing the code could fill."""
        return self._shrunk and self._form is not None and self.fault_policy.on_death != "leave"

    def settle(self, wanted: int | None = None) -> bool:
        """Resize the code if workers were lost for good, or another number is wanted; return whether that was done.

        Called between two rounds, or where the wait rule of one can only be met that way: resizing moves data, and what
        was computed for the old code may be of no use.

        Arguments:
            wanted: how many workers the user asks for from now on; None to leave it as it is.
        """
        self.wanted = wanted or self.wanted
        if self._form is None:
            return False
        if self.wanted is None and not self.shrunk:
            whole = len(self.able()) == len(self.assignment.worker_ids)
            moving, self._moving = self._moving or self._laying, self._moving and not whole
            return moving and whole and self._reform(len(self.assignment.worker_ids), self._form)
        target = self.wanted or len(self.able())
        self.wanted, self._shrunk = None, False
        changed = False
        while target and not target == len(self.assignment.worker_ids) == len(self.able()):
            if self._reform(target, self._form):
                changed = True
                target = min(target, len(self.able()))  # fewer than wanted where there was no room
            elif target != len(self.able()):
                target = len(self.able())  # fall back to as many as there are
            else:
                break
        return changed

    def _reform(self, n_workers: int, form: Planner) -> bool:
        """Lay the scheme over another number of workers; return whether that can be done.

        What is sent to workers is data, the dearest thing that a run can ask for: so those stay whose tasks few others
        hold, and each keeps its program if the new code has any use for it.
        """
        before, whole = self.assignment, self._scheme
        laying, self._laying = self._laying, False
        try:
            if laying and whole.around is not None:
                whole = whole.around()
            staying = self._staying(n_workers)
            replicas = self._replicas(staying)
            scheme = self._resized(whole, staying, n_workers, replicas).begin(before.scheme)
            programs, layout, other = form(scheme)
        except InvalidArgument as error:
            self._notice("not_resized", f"the code stays as it is: {error}", reason=str(error))
            return False
        used = {*self.living, *self.coming, *self.gone}
        fresh = (number for number in itertools.count() if number not in used)
        coming = list(itertools.islice(fresh, n_workers - len(staying)))
        self._scheme, self._held, self.around = whole, replicas, self.around or laying
        self.assignment, moved = reassigned(
            before,
            scheme,
            programs,
            layout,
            other,
            [*(before.worker_ids[position] for position in staying), *coming],
            in_order=scheme.by_speed is not None,
        )
        for worker in {*before.worker_ids, *self.living, *self.coming} - {*self.assignment.worker_ids}:
            if worker in self.living or worker in self.coming:
                self._end(worker)
            self.dead.pop(worker, None)
        for position in moved:
            self.living.pop(self.assignment.worker_ids[position], None)
        hosts = self._hosts_for_positions()
        for position in moved:
            self._assign(position, hosts[position])
        sizes, generation = [program.nbytes for program in programs], self.assignment.generation
        text, sent = str(self.assignment.scheme), sum(sizes[position] for position in moved)
        same = n_workers == len(before.worker_ids)
        self._moved = {self.assignment.worker_ids[position] for position in moved} if same else set()
        what = f"the code is resized for {counted('worker', n_workers)}, {text}"
        if same:
            what = "tasks are dealt out anew, by how fast workers have been"
        if laying:
            what += "; data are laid around a circle, where neighbours help who is slow"
        self._notice(
            "rebalanced" if same else "resized",
            f"{what}; {len(moved)} of them get other data, {sent:,} of {sum(sizes):,} bytes",
            n_workers=n_workers,
            generation=generation,
            scheme=text,
            moved=len(moved),
            bytes=sent,
        )
        self._tell_idle()
        return True

    def _resized(self, whole: Scheme, staying: Sequence[int], n_workers: int, held: Sequence[int]) -> Scheme:
        """Return a scheme for those that stay, and as many new ones as are wanted.

        Arguments:
            whole: the scheme for those that there were at first.
            staying: the positions that stay, in the order of the new ones.
            n_workers: how many there are to be.
            held: how many of those that stay hold each task.
        """
        if self._speeds is None or whole.by_speed is None:
            return whole.resized(n_workers, held)
        now = self._speeds.speeds
        speeds = [*now[list(staying)].tolist(), *[float(np.median(now))] * (n_workers - len(staying))]
        scheme = replace(whole.by_speed(speeds), name=whole.name)
        if n_workers != self._speeds.n_workers or list(staying) != list(range(n_workers)):
            self._speeds, self._moving = Speeds(n_workers, speeds), False
        return scheme

    @property
    def _idle(self) -> list[int]:
        """The positions that have no task."""
        return np.flatnonzero(self.assignment.code.loads == 0).tolist()

    def _tell_idle(self) -> None:
        """Say who was given nothing because the others are sooner through without it."""
        idle = [self.assignment.worker_ids[position] for position in self._idle]
        if self._speeds is not None and idle:
            be = "get" if len(idle) > 1 else "gets"
            text = f"{numbered('worker', idle)} {be} no task, as the others are sooner through without it"
            self._notice("idle", text, workers=idle)

    def learn(self, arrivals: Sequence[ArrivalRow]) -> None:
        """Learn from the rows of a finished step how fast workers are, if tasks are dealt out by that."""
        if self._speeds is None or not self._scheme.measured:
            return
        for row in arrivals:
            position = self.assignment.positions.get(row.worker)
            if position is not None and not row.censored:
                self._speeds.observe(position, row.work, row.seconds - (row.started or 0.0))
        self._moving = self._speeds.settle(self._idle, 1.0 / self.assignment.code.n_tasks) or self._moving

    def _staying(self, n_workers: int) -> list[int]:
        """Return the positions that stay, ascending: those whose tasks most others hold leave first."""
        staying = sorted(self.able())
        tasks = {position: self.assignment.code.tasks_of(position) for position in staying}
        replicas = np.array(self._replicas(staying))
        while len(staying) > max(n_workers, 0):
            spare = {position: int(replicas[tasks[position]].min(initial=len(staying))) for position in staying}
            leaver = max(staying, key=lambda position: (spare[position], position))
            replicas[tasks[leaver]] -= 1
            staying.remove(leaver)
        return staying

    def _replicas(self, positions: Sequence[int]) -> list[int]:
        """Return how many of the given positions hold each task."""
        rows = self.assignment.code.assignment[list(positions), :]
        counts: list[int] = np.bincount(rows.indices, minlength=self.assignment.code.n_tasks).tolist()
        return counts

    # --- state ----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Tree]:
        """Return everything that `restore` needs."""
        assignment = self.assignment
        return {
            **super().state(),
            "worker_ids": list(assignment.worker_ids),
            "generation": assignment.generation,
            "held": self._held,
            "by_task": assignment.by_task,
            "turns": [list(own) for own in assignment.turns],
            "dealt_by": None if self._speeds is None else _speeds_of(assignment.code),
            "messages": [[spec.message for spec in program.message_specs] for program in assignment.programs],
        }

    def restore(self, state: Mapping[str, Any], running: bool = True) -> None:
        """Restore the assignment of an earlier run.

        Arguments:
            state: what `state` returned.
            running: whether the workers are as they were then (on the virtual clock); otherwise `start` fills all
                positions again.
        """
        if state.get("around"):
            assert self._scheme.around is not None
            self._scheme = self._scheme.around()
        if state["held"] is not None:
            assert self._form is not None
            worker_ids, self._held = list[int](state["worker_ids"]), state["held"]
            by_speed, speeds = self._scheme.by_speed, state.get("dealt_by")
            if by_speed is None or speeds is None:
                scheme = self._scheme.resized(len(worker_ids), self._held).begin()
            else:
                scheme, self._speeds = by_speed(speeds).begin(), Speeds(len(speeds))
            programs, layout, other = self._form(scheme)
            named = [
                program.renumbered(messages) if running else program
                for program, messages in zip(programs, state["messages"], strict=True)
            ]
            self.assignment = Assignment(scheme, named, layout, worker_ids, other=other)
        self.ask_by_task(bool(state["by_task"]))
        self.ask_in_turns(state.get("turns", ()))
        self.assignment = replace(self.assignment, generation=int(state["generation"]))
        state = {"speeds": None, "moving": False, "moved": {"set": []}, "laying": False, "around": False, **state}
        kept = {name: state[name] for name in ("deaths", "wanted", "speeds", "moving", "laying", "around")}
        super().restore(state if running else {**super().state(), **kept})
        self._started = running


def _speeds_of(code: GradientCode) -> list[float]:
    """Return the speeds by which a code deals out its tasks."""
    return list(cast("Sequence[float]", code.parameters["speeds"]))

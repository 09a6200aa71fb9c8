"""Waiting in a round: until its rule says stop, and what takes the rule's place where it cannot be met any more.

`Waiting` asks the rule, sleeps until something comes, and asks again. `UnmetRules` is for what the rule cannot decide:
it will never be met, and somebody has to say whether the round goes on without it, without some tasks, or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import final

from erasurehead._internal.signals import overdue
from erasurehead.errors import ErasureHeadError, NothingUnderWay, Unreachable, invalid, numbered
from erasurehead.faults._byzantine import NOT_FINITE
from erasurehead.schemes.wait_rules import Verdict
from erasurehead.schemes.wait_rules._alarm import Alarm
from erasurehead.training._callbacks import StepLog
from erasurehead.training._health import HealthMonitor
from erasurehead.training._intake import Intake
from erasurehead.training._round_state import Round
from erasurehead.training._rows import Notice
from erasurehead.training._stepper import diverged
from erasurehead.training._workers import WorkerPool, next_event

STUCK = (
    "step {step}: the wait rule {rule} goes on waiting, although nobody will answer any more and it names no later "
    "time at which to ask it again; let its `verdict` stop when nothing is pending, or at the time that `wake` says. "
    "If the engine is your own, its events may name workers, messages or rounds that were not asked for: see "
    "`erasurehead.testing.EngineConformance`."
)

TIME_IS_UP = "The time limit of the run has passed."

TELL_EVERY = 0.05
"""Seconds between two calls that tell callbacks who is late."""

WATCH_EVERY = 1.0
"""Seconds after which callbacks are told who is late, and interrupts are heeded, even if no event has occurred."""

SHORT = 1.0
"""Seconds for which an interrupt may be put off to the end of the step, so that what is saved then is that step."""


class TimeIsUp(ErasureHeadError):
    """The time limit of the run has passed, in the middle of a round."""


class PoolShrunk(ErasureHeadError):
    """The wait rule cannot be met with the workers that are left, but may be once the code is resized over them."""


class AnswersLost(ErasureHeadError):
    """Of what was asked for, too little will come, but something else can be asked for.

    Arguments:
        failed: workers who said that they cannot answer, or whose messages are of no use.
        gone: workers who are not waited for any more, so that nothing is known of what they had finished.
    """

    def __init__(self, failed: Collection[int], gone: Collection[int]) -> None:
        super().__init__("too few of those who were asked will answer")
        self.failed, self.gone = failed, gone


class WaitsFor(Enum):
    """What ends the waiting of a round."""

    RULE = auto()  # its wait rule says stop
    EXACT = auto()  # all is in that may still come, and decodes exactly: erasures keep the rule from being met
    REST = auto()  # all is in that may still come: the rule cannot be met with it


@final
@dataclass(eq=False)
class UnmetRules:
    """Finds out how a round can go on whose wait rule cannot be met any more.

    Arguments:
        pool: the workers.
        monitor: says who was caught lying.
        log: the log of the current step.
    """

    pool: WorkerPool
    monitor: HealthMonitor
    log: StepLog
    _reported: set[str] = field(default_factory=set[str], init=False)

    def resort(self, current: Round) -> WaitsFor:
        """Return what to wait for instead, mildest first: all tasks without the rule, or the rule without some tasks.

        Raises:
            Diverged: if the vectors that came say that the model has.
            AnswersLost: if others can send what is missing, or more of it can be asked for.
            PoolShrunk: if the rule may be met once the code is resized for the workers that are left.
            Unreachable: if no task can be had any more, or the fault policy wants none to be left out.
        """
        level = current.assignment.level
        if level is not None and level + 1 < len(current.assignment.scheme.levels):
            raise AnswersLost((), ())
        reasons = [*current.refused.values()]
        if reasons and not current.view.arrived and {*reasons} == {NOT_FINITE}:  # no worker's fault
            what = "only message is" if len(reasons) == 1 else f"{len(reasons)} messages are all"
            raise diverged(current.order.step, what)
        erased = {*current.failed, *self.monitor.accused(current)}
        erased |= {current.assignment.workers_of_rows[message] for message in current.refused}
        if current.named:
            workers = enumerate(current.assignment.worker_ids)
            raise AnswersLost(erased, [worker for place, worker in workers if place not in current.view.able])
        if erased and decodes(current):
            workers = sorted(erased)
            who = numbered("worker", workers)
            text = f"{current.rule} cannot be met without {who}; what the others send decodes exactly, and is used"
            data = {"rule": str(current.rule), "workers": workers}
            self.log.notice(Notice("rule_given_up", data=data, text=text), again=text in self._reported)
            self._reported.add(text)
            return WaitsFor.EXACT
        if self.pool.shrunk and self.pool.able():
            raise PoolShrunk(current.why_never(self.pool.dead))
        stops = self.pool.fault_policy.on_loss == "stop"
        came, bad = len(current.view.arrived) + len(reasons), reasons.count(NOT_FINITE)
        if (
            stops and 2 * bad > came
        ):  # fewer may be workers that lie, or have bad data; when models diverge, most overflow
            what = f"vectors of {bad} of {came} messages are"
            raise diverged(current.order.step, what)
        if stops or len(current.out_of_reach()) == current.assignment.code.n_tasks:
            raise Unreachable(current.why_never(self.pool.dead))
        return WaitsFor.RULE if self.leaves_out(current) else WaitsFor.REST

    def leaves_out(self, current: Round) -> bool:
        """Leave out the tasks that no living worker holds; return whether there are more of them than before."""
        if not current.leave_out():
            return False
        lost = [*current.lost]
        text = f"{numbered('task', lost)} {'is' if len(lost) == 1 else 'are'} lost; training goes on with the others"
        self.log.notice(Notice("tasks_lost", data={"tasks": lost}, text=text))
        return True


@final
@dataclass(eq=False)
class Waiting:
    """Waits in a round, as often as its messages turn out not to be enough.

    Arguments:
        current: the round.
        pool: the workers.
        monitor: watches their health.
        intake: takes the events that come meanwhile.
        unmet: asked when the rule cannot be met.
        log: the log of the current step.
    """

    current: Round
    pool: WorkerPool
    monitor: HealthMonitor
    intake: Intake
    unmet: UnmetRules
    log: StepLog
    _waits_for: WaitsFor = field(default=WaitsFor.RULE, init=False)
    _reported: float = field(default=0.0, init=False)  # when callbacks were last told who is late

    def wait(self, time_is_up: float) -> None:
        """Wait until the rule says stop, or what takes its place is there, or workers have to be questioned.

        Arguments:
            time_is_up: when to break off, in the engine's seconds; inf for never.

        Raises:
            TimeIsUp: if the time has passed.
            NothingUnderWay: if the rule goes on waiting although nothing can come any more.
            AnswersLost, Diverged, PoolShrunk, Unreachable: as `UnmetRules.resort`.
        """
        current = self.current
        alarm = Alarm(current.rule)
        self._reported = 0.0
        while not current.disputes:
            view = current.view
            if not current.over:
                view.pass_time(alarm.elapsed(self.pool.engine.now() - current.begin))
            verdict = self._verdict()
            if verdict is Verdict.STOP:
                if self._waits_for is WaitsFor.REST:
                    self.unmet.leaves_out(current)
                return
            if verdict is Verdict.WAIT:
                by_rule = self._waits_for is WaitsFor.RULE
                wake = alarm.next(view) if by_rule else None
                if not by_rule or wake is not None or current.held or view.hopeful:
                    if current.over:
                        raise PoolShrunk(current.why_never(self.pool.dead))
                    if current.handout is not None and current.handout.over:  # the rule wants more than that
                        current.need_all()
                    self._take_next(alarm, wake, time_is_up)
                    continue
                if view.whole:
                    raise NothingUnderWay(STUCK.format(step=view.step, rule=current.rule))
            # It says that it cannot be met, or would wait for ever: all that could come is here.
            current.need_all()
            self._waits_for = self.unmet.resort(current)

    def _take_next(self, alarm: Alarm, wake: float | None, time_is_up: float) -> None:
        """Sleep until something happens, or somebody wants to be asked or told; take in what has happened.

        Arguments:
            alarm: rings for the rule.
            wake: when it wants to, in seconds since the order was submitted; None for never.
            time_is_up: as for `wait`.
        """
        current, engine, watched = self.current, self.pool.engine, self.log.watched
        now = engine.now()
        check = min(self.monitor.next_look(), time_is_up)
        if self.pool.living and not engine.virtual and (watched or not engine.inside):
            check = min(check, now + WATCH_EVERY)
        ring = math.inf if wake is None else current.begin + wake
        until = min(ring, check)
        overdue(SHORT)
        if now > time_is_up:
            raise TimeIsUp(TIME_IS_UP)
        self.intake.keep_at_work(current.order)
        try:
            event = next_event(engine, until)
        except NothingUnderWay as error:
            if self._waits_for is WaitsFor.REST:
                raise
            raise NothingUnderWay(STUCK.format(step=current.order.step, rule=current.rule)) from error
        now = engine.now()
        if event is not None:
            alarm.stop()
            self.intake.take(event, current)
        elif now >= time_is_up:
            raise TimeIsUp(TIME_IS_UP)
        elif wake is not None and until == ring:
            alarm.ring(wake)
        if now >= check:
            self.intake.look(now, current)
        if current.held:  # what has come may decide who is right
            self.monitor.examine(current)
        if watched and now - current.begin >= self._reported + TELL_EVERY:
            self._reported = now - current.begin
            self.log.tell_who_is_late(current, self._reported)

    def _verdict(self) -> Verdict:
        """Return what the rule says, or what takes its place; a round that has nothing can never stop."""
        view = self.current.view
        if not (view.able or view.arrived):  # a deadline would go on without workers for ever
            return Verdict.UNREACHABLE
        if self._waits_for is WaitsFor.RULE:
            verdict = self.current.rule.verdict(view)
            if not isinstance(verdict, Verdict):  # pyright: ignore[reportUnnecessaryIsInstance]  # of somebody's own rule
                raise invalid(f"verdict(view) of the wait rule {self.current.rule}", "must be a Verdict", verdict)
            return verdict
        if len(view.pending):
            return Verdict.WAIT
        if self._waits_for is WaitsFor.EXACT and not decodes(self.current):  # more was erased meanwhile
            return Verdict.UNREACHABLE
        return Verdict.STOP


def decodes(current: Round) -> bool:
    """Return whether all messages that have arrived or may still arrive give the full gradient."""
    view = current.view
    return view.decoder.decode([*view.arrived, *view.pending.tolist()]).exact

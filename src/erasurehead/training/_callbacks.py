"""Who is told what happens during a run: hooks that watch it, and the log of a step, which calls them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast, final

from erasurehead._internal.arrays import Array, Tree
from erasurehead.engines import Died, Engine, Failed, Joined
from erasurehead.engines._base import Event, Offered
from erasurehead.errors import invalid
from erasurehead.training._rows import BEFORE, ArrivalRow, Notice, NoticeKind, StepRow, WorkerEvent, WorkerEventKind

if TYPE_CHECKING:
    from erasurehead.schemes import Scheme
    from erasurehead.training._result import Evaluation, Run
    from erasurehead.training._round_state import Round
    from erasurehead.training._workers import WorkerPool

Happened: TypeAlias = Died | Joined | Failed | Offered
"""Events about workers, as opposed to messages."""

_KINDS: Mapping[type[Event], WorkerEventKind] = {
    Died: "died",
    Joined: "joined",
    Failed: "failed",
    Offered: "offered",
}


class Callback:
    """Watches a run. Override the hooks that you need; they run on the coordinator, and the time they take counts.

    Attributes:
        wait_every: least number of real seconds between two calls of `on_wait`.
    """

    wait_every: float = 0.0

    def kept_rows(self) -> tuple[Sequence[StepRow], Sequence[ArrivalRow]] | None:
        """Return the rows of the run, if this callback keeps them: those of `Run.steps` and `Run.arrivals`.

        They must include each row as soon as it was told, and those of an earlier part of the run that is resumed.
        Where no callback keeps them, they stay in memory.
        """
        return None

    def own_notices(self) -> Sequence[Notice]:
        """Return what went wrong with this callback itself since the last call; it is told and recorded as all notices.

        Asked after `on_setup`, at the end of each step, and after `on_end`.
        """
        return ()

    def on_setup(self, scheme: Scheme, steps: int) -> None:
        """Called before anything else, with the scheme and the number of steps at most."""

    def on_starting(self, workers: int) -> None:
        """Called when workers are about to be started outside this process, with their number."""

    def on_start(self, seconds: float) -> None:
        """Called when all workers are ready, with the seconds that it took; the training clock starts now."""

    def on_wait(self, step: int, missing: Sequence[int], elapsed: float) -> None:
        """Called regularly while the coordinator waits for an order: see `waiting.TELL_EVERY`.

        Arguments:
            step: the current step.
            missing: workers that have not finished, ascending.
            elapsed: seconds since the order was submitted.
        """

    def on_arrival(self, row: ArrivalRow) -> None:
        """Called after a step for each of its messages, arrived or censored; and at once for late ones."""

    def on_step_end(self, row: StepRow, x: Array) -> None:
        """Called when a step is done, with the current model.

        If the optimizer tries points, it is the newest point, unless something speaks against it; where it turns out no
        better, later steps go back to the model before (see `Optimizer.best`), and a run that ends before that is known
        compares the two.

        You may keep a reference to the model: it is never changed in place.
        """

    def on_last_step(self, step: int) -> None:
        """Called when a run ends before its last step because a stopping rule is met, such as a target.

        It comes after `on_step_end` of its last step, and before `on_state`.

        Arguments:
            step: number of steps done.
        """

    def on_state(self, step: int, state: Callable[[], Mapping[str, Tree]]) -> None:
        """Called last after each step, when all of it is done and recorded; and once before the first, with 0.

        Called again with the same step if the run is interrupted before the next one begins.

        Arguments:
            step: number of steps done.
            state: returns all that is needed to resume from here bit for bit, as a tree of dicts with strings as keys,
                lists, strings, numbers, None and arrays. None of the arrays is changed afterwards.
        """

    def on_notice(self, notice: Notice) -> None:
        """Called at once when something happened that a person should know: a death, a refused message.

        A failure that a worker repeats is reported once until it changes; the step rows have every occurrence.
        """

    def on_metrics(self, evaluation: Evaluation) -> None:
        """Called with the metrics of every `evaluate_every`-th model, where there are any.

        If a callback overrides this, models are measured between steps, which takes time of the run, except on a
        virtual clock; else they are measured when training is over.
        """

    def on_evaluated(self, done: int, of: int) -> None:
        """Called when training is over, after each of the models that were kept has been evaluated.

        Arguments:
            done: how many have been.
            of: how many there are.
        """

    def on_end(self, run: Run) -> None:
        """Called when all steps are done, or training ended early, after the workers have been released."""


def check_callbacks(callbacks: object) -> None:
    """Raise an error unless this is a list, or another sequence, of callbacks.

    >>> check_callbacks([5])
    Traceback (most recent call last):
    erasurehead.errors.InvalidArgument: callbacks must hold objects of classes derived from Callback, got 5.
    """
    if not isinstance(callbacks, Sequence):
        hint = "a single one stands in a list, too: callbacks=[...]" if isinstance(callbacks, Callback) else ""
        raise invalid("callbacks", "must be a list of callbacks", callbacks, hint)
    for one in cast("Sequence[object]", callbacks):
        if not isinstance(one, Callback):
            hint = f"of a class, make an object: {one.__name__}()" if isinstance(one, type) else ""
            raise invalid("callbacks", "must hold objects of classes derived from Callback", one, hint)


@final
class StepLog:
    """The log of the current step.

    Arguments:
        engine: the engine whose clock is used.
        callbacks: hooks that watch.

    Attributes:
        step: the current or next step, to which notices belong; None after the last one.
        origin: when training began, in the engine's seconds; None before.
    """

    def __init__(self, engine: Engine, callbacks: Sequence[Callback] = ()) -> None:
        self.step: int | None = 0
        self.origin: float | None = None
        self._engine = engine
        self._callbacks = callbacks
        self._waiting = [one for one in callbacks if type(one).on_wait is not Callback.on_wait]
        self._noticing = [one for one in callbacks if type(one).own_notices is not Callback.own_notices]
        self._told_at: dict[int, float] = {}  # when each callback was last told who is late, in real seconds
        self._notices: list[tuple[float, Notice]] = []
        self._events: list[WorkerEvent] = []
        self._failing: dict[int, set[str]] = {}  # failures reported of workers that have not answered properly since
        self._failed: set[int] = set()  # workers that failed in this round

    @property
    def watched(self) -> bool:
        """Whether some callback wants to know who is late while a round is waited for."""
        return bool(self._waiting)

    # --- what is noticed ------------------------------------------------------------------------------------------

    def notice(self, notice: Notice, again: bool = False) -> None:
        """Record a notice.

        Arguments:
            notice: the notice; step and time are filled in.
            again: whether it was reported before: then it goes into the step's row only, and callbacks are not told.
        """
        now = self._engine.now()
        self._notices.append((now, notice))
        dated = replace(notice, step=self.step, time=None if self.origin is None else now - self.origin)
        for callback in () if again else self._callbacks:
            callback.on_notice(dated)

    def notice_failure(self, kind: NoticeKind, worker: int, text: str, **data: Any) -> None:
        """Record a worker's failure: callbacks are not told of it again until the worker has answered properly."""
        texts = self._failing.setdefault(worker, set())
        self.notice(Notice(kind, worker, data=data, text=text), again=text in texts)
        texts.add(text)
        self._failed.add(worker)

    def forget_failures(self, worker: int) -> None:
        """Forget a worker's failures: it is gone, and whatever comes under its number is another worker."""
        self._failing.pop(worker, None)

    def ask(self) -> None:
        """Record what callbacks have noticed of themselves."""
        for callback in self._noticing:
            for notice in callback.own_notices():
                self.notice(notice)

    def take_notices(self) -> list[Notice]:
        """Return the notices since the last call, for the row of the step."""
        self.ask()
        taken, self._notices = self._notices, []
        return [replace(notice, step=self.step, time=time - (self.origin or 0.0)) for time, notice in taken]

    # --- where training is ----------------------------------------------------------------------------------------

    def begin(self, origin: float, step: int) -> None:
        """Set the clock of training: when it began, in the engine's seconds, and which step comes first."""
        self.origin, self.step = origin, step

    def go_on(self, step: int | None) -> None:
        """Record that a step is over: what comes now belongs to the next one, or (None) to the time after training."""
        self.step = step

    # --- what happens to workers ----------------------------------------------------------------------------------

    def begin_round(self, step: int) -> None:
        """Record that a round of a step begins."""
        self.step = step
        self._failed.clear()

    def end_round(self, current: Round) -> None:
        """Record that a round is over: workers that answered and did not fail answer properly again."""
        for worker in {arrived.worker for arrived in current.arrivals.values()} - self._failed:
            self._failing.pop(worker, None)

    def break_off(
        self,
        current: Round,
        sums_begin: float | None = None,
        used: Collection[int] = (),
        kind: WorkerEventKind = "broken_off",
    ) -> None:
        """Record a round that was broken off, or that of reports or questions, with its messages, as a replay needs it.

        Arguments:
            current: the round.
            sums_begin: when the round of the sums began that follows it; None if none does.
            used: the messages of tasks whose holders were named.
            kind: what became of it, if no sums follow.
        """
        origin = self.origin or 0.0
        now = self._engine.now() if sums_begin is None else sums_begin
        if sums_begin is not None:
            kind = "reported"
        elif current.over:  # since it was waited for, there were questions
            now = current.begin + current.view.elapsed
        begin = current.begin - origin
        self._events.append(WorkerEvent(kind, current.order.round, current.came, now - origin, begin=begin))
        for row in current.rows({*used}):
            for callback in self._callbacks:
                callback.on_arrival(row)

    def event(self, event: Happened, order_round: int, place: int) -> None:
        """Record what happened to a worker.

        Arguments:
            event: what happened.
            order_round: the round in which it happened.
            place: how many messages of any round had arrived in that round before.
        """
        facts: dict[str, Any] = {
            name: getattr(event, name) for name in ("reason", "host", "broken") if hasattr(event, name)
        }
        if isinstance(event, Offered):
            facts["count"] = event.workers
        else:
            facts["worker"] = event.worker
        time = event.time - (self.origin or 0.0)
        self._events.append(WorkerEvent(_KINDS[type(event)], order_round, place, time, **facts))

    def start(self, pool: WorkerPool) -> None:
        """Record what happened to workers while they were started, unless all of them simply came up."""
        if not all(isinstance(event, Joined) for event in pool.early):
            for event in pool.early:
                self.event(event, BEFORE, 0)

    def come_back(self, workers: Iterable[int], pool: WorkerPool, order_round: int) -> None:
        """Record that workers which were dead have been started again, because a run is resumed with new ones.

        Arguments:
            workers: those that were dead.
            pool: the current worker pool.
            order_round: the next round.
        """
        for worker in workers:
            if worker in pool.living:
                self.event(Joined(worker, pool.living[worker], self._engine.now()), order_round, 0)

    def take_events(self) -> list[WorkerEvent]:
        """Return what happened to workers since the last call, for the row of the step."""
        taken, self._events = self._events, []
        return taken

    # --- who is late ----------------------------------------------------------------------------------------------

    def tell_who_is_late(self, current: Round, elapsed: float) -> None:
        """Tell the callbacks that want to know, unless they have just been told.

        Arguments:
            current: the current round.
            elapsed: seconds since its order was submitted.
        """
        now = time.monotonic()
        due = [one for one in self._waiting if now - self._told_at.get(id(one), -math.inf) >= one.wait_every]
        missing = current.missing if due else []
        for callback in due:
            self._told_at[id(callback)] = now
            callback.on_wait(current.order.step, missing, elapsed)

"""The one training loop: every engine, every scheme and every problem goes through it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from erasurehead._internal.arrays import Array, Tree
from erasurehead._internal.signals import Terminated, stopped_by, uninterrupted
from erasurehead._internal.state_json import going_on
from erasurehead._internal.storage.sealed import Unfit
from erasurehead.engines import Engine, Wire
from erasurehead.engines._wired_engine import WiredEngine
from erasurehead.errors import Diverged, RecordsError, Unreachable, check_count, counted, invalid
from erasurehead.faults import FaultPolicy
from erasurehead.optimizers import Optimizer
from erasurehead.problems import Problem
from erasurehead.problems._own import check_own
from erasurehead.schemes import Scheme
from erasurehead.training._arguments import (
    as_engine,
    as_scheme,
    as_wire,
    check_delays,
    check_kinds,
    check_options,
    check_parts,
    check_wire,
)
from erasurehead.training._callbacks import Callback, check_callbacks
from erasurehead.training._evaluation import (
    Snapshots,
    lowest,
    unseen_gain,
    why_worse,
    with_objective_before_rise,
)
from erasurehead.training._log_records import LoggedRun
from erasurehead.training._result import FinalModel, Resumption, Run, Status
from erasurehead.training._rows import ArrivalRow, StepRow
from erasurehead.training._stepped_run import SteppedRun
from erasurehead.training._stopping import TOLERANCE, Stopping, Until
from erasurehead.training._waiting import TimeIsUp


def train(
    problem: Problem,
    scheme: Scheme | str,
    optimizer: Optimizer,
    engine: Engine | str,
    steps: int,
    callbacks: Sequence[Callback] = (),
    evaluate_every: int = 1,
    fault_policy: FaultPolicy | None = None,
    resume: Resumption | None = None,
    wanted: Callable[[int], int | None] = lambda step: None,
    until: str | Until | None = None,
    patience: int | None = None,
    max_seconds: float | None = None,
    tolerance: float | None = TOLERANCE,
    wire: Wire | str | None = None,
) -> Run:
    """Train a model on many workers without waiting for the slow ones.

    The clock starts when all workers are ready, and includes all waiting, decoding, moving and recording. Models are
    evaluated after the last step, from snapshots, so that evaluation neither costs time nor gives any to late workers;
    or between steps, where a callback wants to be told (`Callback.on_metrics`).
    The exact objective of the final model (`Run.final`) is computed then as well: what steps report is an estimate,
    from the data that were counted in them.

    Arguments:
        problem: what is minimised.
        scheme: who computes what, when to stop waiting, and how to combine what arrived; or its text, as in a run file,
            such as `"uncoded"`, for as many workers as a run has there by default: one for each core, rank or CPU; on a
            virtual clock 30 with delays, and 4 without.
        optimizer: holds the initial model and moves it.
        engine: where the workers run; it is closed at the end, whatever happens. Or its name, as in a run file:
            `"virtual"`, `"processes"`, `"in_process"`, `"mpi"` or `"ray"`, without injected delays.
        steps: the largest number of steps, at least 1, including those of an earlier run that is resumed.
        callbacks: hooks that watch.
        evaluate_every: evaluate the model after every `evaluate_every` steps, and after the last; 0 for never.
        fault_policy: what to do when workers die, hang or lie; by default the dead are replaced.
        resume: the state of an earlier run of the same problem and scheme, from which to continue.
        wanted: called before each step; returns the number of workers from then on, or None to leave it as it is.
        until: a target that ends the run when it is reached, such as `"gap < 1e-3"`, `"objective < 0.3"` or
            `"auc > 0.84"`. The gap is (f(x) - f*) / (f(x0) - f*), f the full objective with its penalty; f* is found
            by the default solver, alone, before the clock starts, and kept with the run. It is measured every
            `evaluate_every` steps: in a process of its own, beside training, where this machine has a core to spare
            beyond those of the workers here and of the coordinator, and then as often as that process has time; else
            between steps. On a virtual clock that takes no time, and the run ends at the first model that is good
            enough.
        patience: end after this many steps without an improvement of the target's metric (by default the objective).
        max_seconds: end after this many seconds of training, in the middle of a step if need be.
        tolerance: end when the gradient is exact, and its norm, penalty included, is at most this fraction of the first
            one's; None for never. Where the penalty is sharp, as l1 is, that is the norm of the shortest subgradient.
        wire: how messages cross: a `Wire`, or a text, as in a run file, such as `"cast('float32')"`; None for as they
            are, in float64.

    Returns:
        The final model, with everything that happened. After Ctrl-C and the signals of `terminable`: the run up to
        then, with `stopped` saying so.

    Raises:
        InvalidArgument: if an argument is invalid; raised before any worker is started, unless only a step shows it, as
            of an optimizer of your own that does not count its steps.
        Unreachable: when too many workers have died for the wait rule; callbacks have seen the run so far.
        Diverged: when the model is not finite any more, or when after at least 10 steps its objective ends up a tenth
            above that of the first model; likewise.
        RecordsError: when records cannot be written any more; likewise.

    >>> import numpy as np
    >>> from erasurehead import delays, engines, optimizers, problems, schemes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((600, 5))
    >>> y = np.sign(X @ np.array([1.0, -2.0, 0.5, 0.0, 1.0]))
    >>> problem = problems.LogisticRegression(X, y, l2=1 / 600)
    >>> engine = engines.VirtualEngine(delays.Exponential(mean=0.5, seed=0))
    >>> run = train(problem, schemes.erasurehead(30, load=3, wait_for=11),
    ...             optimizers.Nesterov(problem.initial(), rate=1.0), engine, steps=40)
    >>> bool(run.losses[-1] < 0.3)
    True
    >>> 0.1 < run.seconds_per_step < 0.4  # waiting for all 30 would take 2 seconds a step
    True
    """
    check_count("steps", steps)
    check_count("evaluate_every", evaluate_every, at_least=0)
    check_callbacks(callbacks)
    check_parts(problem, optimizer)
    check_options(fault_policy, resume, wanted)
    scheme, engine = _fitting(problem, scheme, optimizer, engine, wire)
    if resume is None and optimizer.step >= steps:
        hint = "make a new one, or ask for more steps"
        raise invalid("optimizer", f"must have taken fewer than the {steps} steps asked for", optimizer.step, hint)
    snapshots = Snapshots(evaluate_every, optimizer.x, steps, callbacks)
    snapshots.begin(problem)
    stopping = Stopping(problem, optimizer.x, until, patience, max_seconds, tolerance, evaluate_every)
    if resume is None or resume.state.get("stopping", {}).get("optimum") is None:
        stopping.prepare()
    with engine, contextlib.closing(stopping):
        logged = LoggedRun(0 if resume is None else len(resume.steps))
        watching = [logged, *callbacks]
        training = _Training(
            problem, scheme, optimizer, engine, fault_policy or FaultPolicy(), snapshots, stopping, watching
        )
        for watcher in training.watchers:
            watcher.on_setup(scheme, steps)
        training.stepped.oracle.rounds.log.ask()
        training.begin(resume, steps)
        failure = training.go(steps, wanted)
    run = training.evaluated(failure)
    if failure is None and not run.stopped and (why := why_worse(run, optimizer.remedy)):
        failure, run = Diverged(why), replace(run, status="diverged", stopped=why)
    for watcher in training.watchers:
        watcher.on_end(run)
    last = training.stepped.oracle.rounds.log.take_notices()
    if failure is not None:
        raise failure
    return replace(run, x=run.x.copy(), last=last)  # callbacks hold the other, which is read-only


def _fitting(
    problem: Problem, scheme: Scheme | str, optimizer: Optimizer, engine: Engine | str, wire: Wire | str | None
) -> tuple[Scheme, Engine]:
    """Return scheme and engine, from whose texts they may be made, and which have to fit each other and the model."""
    engine = as_engine(engine)
    scheme = as_scheme(scheme, engine, problem.n_samples)
    check_kinds(optimizer, scheme)
    scheme.check_late(engine.late)
    check_delays(engine, scheme.code.n_workers)
    if (chosen := as_wire(wire)) is not None:
        engine = WiredEngine(engine, chosen)
    check_wire(scheme.code, engine)
    if len(optimizer.x) != problem.n_parameters:
        raise invalid(
            "optimizer", f"must hold a model of {counted('parameter', problem.n_parameters)}", len(optimizer.x)
        )
    check_own(problem, optimizer.x, scheme.code.n_tasks)
    return scheme, engine


def _status_after(error: Unreachable | Diverged | RecordsError) -> Status:
    if isinstance(error, Unreachable):
        return "unreachable"
    return "diverged" if isinstance(error, Diverged) else "records"


class _Training:
    """A run under way that ends by itself: with models kept, a target, and rows."""

    def __init__(
        self,
        problem: Problem,
        scheme: Scheme,
        optimizer: Optimizer,
        engine: Engine,
        fault_policy: FaultPolicy,
        snapshots: Snapshots,
        stopping: Stopping,
        callbacks: Sequence[Callback],
    ) -> None:
        self.problem = problem
        self.optimizer = optimizer
        self.first = optimizer.x
        self.snapshots = snapshots
        self.stopping = stopping
        kept = next((rows for callback in callbacks if (rows := callback.kept_rows()) is not None), None)
        self.history = history = _History()
        self.step_rows, self.arrival_rows = history.rows() if kept is None else kept
        self.watchers = [*([history] if kept is None else []), snapshots, *callbacks]
        self.status: Status = "finished"
        self.stopped = ""
        self.hurried = False  # skip whatever can be done when the run is resumed
        self.stepped = SteppedRun(problem, scheme, optimizer, engine, fault_policy, self.watchers, stopping)
        self._names = scheme.name, engine.name
        self._between = False  # whether the state is that after a step

    @property
    def run(self) -> Run:
        """The run so far, without evaluations."""
        return Run(
            *self._names,
            self.optimizer.known,
            self.step_rows,
            self.arrival_rows,
            self.stepped.start_seconds,
            status=self.status,
            stopped=self.stopped,
            neglected=self.stepped.oracle.neglected,
            ended=None if self.stopped else self.stopping.ended or "steps",
            measured=self.stopping.measured,
            optimum=self.stopping.optimum,
        )

    def begin(self, resume: Resumption | None, steps: int) -> None:
        """Start the workers, and set the clock to zero; or restore everything as it was."""
        if resume is not None:
            with going_on():
                self._restore(resume)
                elapsed = self.stepped.elapsed
                if self.optimizer.step < len(resume.steps) or not math.isfinite(elapsed):  # some rows may be lost
                    raise Unfit(f"step {self.optimizer.step} after {len(resume.steps)} steps in {elapsed} s")
        self.stepped.start(over=self._over(steps))
        if resume is None:
            for watcher in self.watchers:
                watcher.on_state(self.optimizer.step, self.state)

    def go(self, steps: int, wanted: Callable[[int], int | None]) -> Exception | None:
        """Take all steps; return the exception that ended them early, if the caller has to know it."""
        try:
            if self._over(steps):  # it was cut off after its last step
                self._tell_state()
            while not self._over(steps):
                self._between = False
                last = self.optimizer.step + 1 >= steps  # after which it may take long until all is measured
                with contextlib.nullcontext() if last else uninterrupted():
                    self._step(steps, wanted)
                    self._between = True
            self._between = False
            self.stepped.end()
        except KeyboardInterrupt as error:
            self.status, self.stopped, self.hurried = "interrupted", stopped_by(error), isinstance(error, Terminated)
            if self._between:
                with contextlib.suppress(KeyboardInterrupt):  # once more
                    self._tell_state()
        except (Unreachable, Diverged, RecordsError) as error:
            remedy = self.optimizer.remedy if self.optimizer.step else ""  # there was no step yet that was too long
            failure = Diverged(f"{error}{remedy}.") if isinstance(error, Diverged) else error
            self.status, self.stopped = _status_after(failure), str(failure)
            return failure
        return None

    def evaluated(self, failure: Exception | None) -> Run:
        """Return the run with its final model and its evaluations, but for what cannot be, or is in a hurry."""
        run, snapshots = self.run, self.snapshots
        try:
            if not self.hurried and not isinstance(failure, Diverged):
                x, final = self._final(run)
                run = replace(run, x=x, final=final)
                snapshots.settle(self.optimizer.step, x)
            for evaluation in snapshots.evaluated() if self.hurried else snapshots.evaluate(self.problem):
                run.evaluations.append(evaluation)
                for watcher in self.watchers:
                    watcher.on_evaluated(len(run.evaluations), len(snapshots.kept))
        except KeyboardInterrupt as error:
            if not run.stopped:
                why = f"{stopped_by(error)} while the models were evaluated"
                run = replace(run, status="interrupted", stopped=why)
        return run

    def _final(self, run: Run) -> tuple[Array, FinalModel | None]:
        """Return the final model: the better of the newest and the one before, if the newest is not evaluated yet.

        With it, its figures, from the data that are in reach and were not lost; None if there are none.
        """
        optimizer, rows = self.optimizer, self.step_rows
        models = [optimizer.known]
        if optimizer.best is not optimizer.known:
            newest = self.stopping.reached(optimizer.step)  # and was measured: it is what was asked for
            models = [optimizer.best] if newest else [*models, optimizer.best]
        lost = [self.stepped.oracle.samples[task] for task in rows[-1].lost] if rows else []
        x, final = lowest(self.problem, self.first, models, lost)
        unseen = optimizer.unseen
        if final is not None and final.share >= 1.0 and unseen is not None:
            final = replace(final, unseen_gain=unseen_gain(self.problem, x.astype(unseen.dtype), unseen))
        suspected = None if final is None else run.suspected_rise
        if final is not None and suspected is not None and not suspected[1]:
            final = with_objective_before_rise(final, self.problem, self.snapshots, suspected[0], lost)
        return x, final

    def _step(self, steps: int, wanted: Callable[[int], int | None]) -> None:
        try:
            workers = wanted(self.optimizer.step)
            row = self.stepped.step(None if workers is None else check_count("wanted", workers))
        except TimeIsUp:
            self.stopping.end("max_seconds")
        else:
            self.stopping.after(row, self.optimizer.best, self.optimizer.step >= steps)
            if self.optimizer.converged:
                self.stopping.end("converged")
        self._tell_state()

    def _over(self, steps: int) -> bool:
        return self.optimizer.step >= steps or self.stopping.ended is not None

    def _tell_state(self) -> None:
        """Tell the callbacks that everything so far is done and recorded; and whether the run ends here, early."""
        if self.stopping.ended is not None:
            for watcher in self.watchers:
                watcher.on_last_step(self.optimizer.step)
        for watcher in self.watchers:
            watcher.on_state(self.optimizer.step, self.state)

    def state(self) -> dict[str, Tree]:
        """Return everything that is needed to resume from here bit for bit: see `Callback.on_state`."""
        return {
            **self.stepped.state(),
            "first": self.first,
            "snapshots": self.snapshots.state(),
            "stopping": self.stopping.state(),
        }

    def _restore(self, resume: Resumption) -> None:
        state = resume.state
        self.first = state["first"]
        self.stepped.restore(state)
        self.snapshots.restore(state["snapshots"])
        self.stopping.restore(state["stopping"], self.stepped.elapsed, self.first)
        if self.optimizer.converged:
            self.stopping.end("converged")
        if self.history in self.watchers:
            self.history.steps[:], self.history.arrivals[:] = resume.steps, resume.arrivals


class _History(Callback):
    """Keeps every row in memory for the run that is returned, where no other callback does."""

    def __init__(self) -> None:
        self.steps: list[StepRow] = []
        self.arrivals: list[ArrivalRow] = []

    def rows(self) -> tuple[list[StepRow], list[ArrivalRow]]:
        return self.steps, self.arrivals

    def on_arrival(self, row: ArrivalRow) -> None:
        self.arrivals.append(row)

    def on_step_end(self, row: StepRow, x: Array) -> None:
        self.steps.append(row)

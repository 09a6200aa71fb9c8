"""The one training loop: every engine, every scheme and every problem goes through it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from erasurehead.arrays import Array, squared_norm
from erasurehead.engines.base import Died, Engine, Failed, Joined, Order, Program
from erasurehead.errors import Diverged, EngineError, Unreachable, check_count, invalid
from erasurehead.evaluation import Snapshots
from erasurehead.gathering import DIVERGED, Gathered, Gathering
from erasurehead.instruments import Instrument
from erasurehead.optimizers import Optimizer
from erasurehead.problems.base import Problem
from erasurehead.programs import build_programs
from erasurehead.records.rows import ArrivalRow, StepRow
from erasurehead.run import Run
from erasurehead.schemes import Scheme

START_TIMEOUT = 300.0
"""Seconds within which all workers must be ready."""


def train(
    problem: Problem,
    scheme: Scheme,
    optimizer: Optimizer,
    engine: Engine,
    steps: int,
    instruments: Sequence[Instrument] = (),
    evaluate_every: int = 1,
) -> Run:
    """Train a model on many workers without waiting for the slow ones.

    The clock starts when all workers are ready and runs through all waiting, decoding, moving and recording; models
    are evaluated after the last step, from snapshots, so that evaluating neither costs time nor gives late workers
    any.

    Arguments:
        problem: what is minimised.
        scheme: who computes what, when to stop waiting, and what to make of it.
        optimizer: holds the initial model and moves it.
        engine: where the workers run; it is closed at the end, whatever happens.
        steps: how many, at least 1.
        instruments: hooks that watch.
        evaluate_every: evaluate the model after every so many steps, and after the last; 0 for never.

    Returns:
        The final model with all that happened. After Ctrl-C: what there is up to then, with `stopped` saying so.

    Raises:
        InvalidArgument: before any worker is started.
        Unreachable: when too many workers have died for the wait rule; instruments have seen the run so far.
        Diverged: when the model is not finite any more; likewise.

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
    if len(optimizer.x) != problem.n_parameters:
        raise invalid("optimizer", f"must hold a model of {problem.n_parameters} parameters", len(optimizer.x))
    snapshots = Snapshots(evaluate_every, optimizer.x, last=steps)
    history, failure = _History(), None
    watchers = [*instruments, history, snapshots]
    with engine:
        programs, layout = build_programs(scheme.code, problem, optimizer.max_points)
        for watcher in watchers:
            watcher.preparing(scheme, steps)
        gathering = Gathering(engine, scheme, layout, watchers)
        start_seconds = start_workers(gathering, programs)
        for watcher in watchers:
            watcher.ready(start_seconds)
        origin = engine.now()
        try:
            for number in range(steps):
                order = replace(optimizer.ask(), round=number)
                gathered = gathering.gather(order)
                gradient, loss = _penalised(gathered.estimate, problem, order)
                optimizer.tell(gradient)
                if not np.isfinite(optimizer.x).all():
                    raise Diverged(DIVERGED.format(step=order.step, what="model that it ends with is"))
                row = _step_row(order, gathered, gathering, origin, engine.now(), gradient, loss)
                for watcher in watchers:
                    for arrival in gathered.rows:
                        watcher.arrival(arrival)
                    watcher.step(row, optimizer.x)
        except KeyboardInterrupt:
            history.stopped = "stopped by Ctrl-C"
        except (Unreachable, Diverged) as error:
            failure, history.stopped = error, str(error)
    run = Run(
        scheme.name, engine.name, optimizer.x, history.steps, history.arrivals, start_seconds, stopped=history.stopped
    )
    try:
        for evaluation in snapshots.evaluate(problem):
            run.evaluations.append(evaluation)
    except KeyboardInterrupt:
        run.stopped = run.stopped or "stopped by Ctrl-C while the models were evaluated"
    for watcher in watchers:
        watcher.finished(run)
    if failure is not None:
        raise failure
    return run


def start_workers(gathering: Gathering, programs: Sequence[Program]) -> float:
    """Start all workers and wait until they are ready.

    Returns:
        Seconds that it took.

    Raises:
        EngineError: if some worker did not come up, saying which and why.
    """
    engine = gathering.engine
    begin = engine.now()
    for worker, program in enumerate(programs):
        engine.assign(worker, program)
    while len(gathering.living) < len(programs):
        event = engine.next_event(until=begin + START_TIMEOUT)
        if isinstance(event, Joined):
            gathering.join(event)
        elif isinstance(event, (Died, Failed)):
            raise EngineError(f"worker {event.worker} did not start: {event.reason}.")
        elif event is None:
            missing = sorted(set(range(len(programs))) - gathering.living)
            raise EngineError(f"workers {missing} were not ready within {START_TIMEOUT:.0f} s.")
    return engine.now() - begin


def _penalised(estimate: Array | None, problem: Problem, order: Order) -> tuple[Array | None, float | None]:
    """Split an estimate into gradient and loss, and add the penalty's to both; of several points there is no loss."""
    if estimate is None:
        return None, None
    gradient = estimate[:-1]
    if problem.l2:
        for point, factor in zip(order.points, order.coefficients or (1.0,), strict=True):
            gradient = gradient + factor * problem.penalty_gradient(point)
    if order.coefficients:
        return gradient, None
    return gradient, float(estimate[-1]) + problem.penalty(order.points[0])


def _step_row(
    order: Order,
    gathered: Gathered,
    gathering: Gathering,
    origin: float,
    now: float,
    gradient: Array | None,
    loss: float | None,
) -> StepRow:
    finished = {row.worker for row in gathered.rows if not row.censored}
    return StepRow(
        step=order.step,
        round=order.round,
        kind=order.kind,
        begin=gathered.begin - origin,
        waited=gathered.waited,
        end=now - origin,
        arrived=gathered.view.finished,
        used=gathered.decoding.used.tolist(),
        missing=sorted(gathered.view.able - finished),
        dead=sorted(gathering.dead),
        failed=list(gathered.failed),
        residual=gathered.decoding.residual,
        coverage=gathered.decoding.coverage if len(gathered.decoding.messages) else 0.0,
        stepped=gradient is not None,
        loss=loss,
        gradient_norm=None if gradient is None else math.sqrt(squared_norm(gradient)),
        received=gathered.received,
    )


class _History(Instrument):
    """Keeps every row in memory for the run that is returned."""

    def __init__(self) -> None:
        self.steps: list[StepRow] = []
        self.arrivals: list[ArrivalRow] = []
        self.stopped = ""

    def arrival(self, row: ArrivalRow) -> None:
        self.arrivals.append(row)

    def step(self, row: StepRow, x: Array) -> None:
        self.steps.append(row)

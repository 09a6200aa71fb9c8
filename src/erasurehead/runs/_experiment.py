"""Experiments: a run file with its data, problem, scheme, optimizer, delays, engine and run folder, ready to run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.documents import Entries, PlainData
from erasurehead._internal.partition import split_samples
from erasurehead._internal.state_json import going_on
from erasurehead._internal.user_files import StrPath
from erasurehead.datasets import Dataset
from erasurehead.datasets._published.public import NAMES
from erasurehead.datasets._sharded import ShardFolder
from erasurehead.datasets._sharded.placement import tolerated
from erasurehead.delays import Delays
from erasurehead.engines import Engine
from erasurehead.errors import DataError, Diverged, InvalidArgument, counted, invalid
from erasurehead.optimizers import Optimizer
from erasurehead.problems import Problem, ShardedProblem
from erasurehead.runs._checkpoints.store import CheckpointStore
from erasurehead.runs._config import parts
from erasurehead.runs._config.checking import as_config, build_config, overridden, read_config
from erasurehead.runs._config.reachable import check_reachable
from erasurehead.runs._config.resolving import Resolved, check_scheme, filled_in, resolve
from erasurehead.runs._config.sections import Config, DataSection, OptimizerSection, ProblemSection
from erasurehead.runs._config.toml import locating
from erasurehead.runs._diverged import LeastCounted, remedy
from erasurehead.runs._fingerprints import check_same, determining, facts, of_code, with_defaults
from erasurehead.runs._first_models import InitialModel
from erasurehead.runs._held_data import HeldData
from erasurehead.runs._names import (
    CONFIG,
    ENCODING,
    RUNS,
    check_free,
    has_checkpoints,
    has_steps,
    next_free,
)
from erasurehead.runs._needs_workers import Unshared, unshared_training
from erasurehead.runs._penalty_search import PenaltySearch, settled_problem
from erasurehead.runs._predictor import TrainedModel
from erasurehead.runs._recording import Recording
from erasurehead.runs._resuming import check_unchanged, check_unfinished, opened_to_go_on
from erasurehead.schemes import Scheme, parse_scheme
from erasurehead.training import Callback, Run, train
from erasurehead.training._callbacks import check_callbacks
from erasurehead.training._stopping import TOLERANCE

_HERE = ("processes", "virtual")  # engines whose workers read shards on this machine


@dataclass(frozen=True, eq=False)
class Experiment:
    """A prepared run: everything is checked, and no worker has been started.

    Arguments:
        config: the configuration with all defaults filled in, except for the run folder.
        data: the data set.
        problem: what is minimised.
        scheme: who computes what, and when to stop waiting.
        delays: the injected delays.
        out: path of the run folder; None to keep no records.
        resuming: whether to continue the run in that folder from its newest checkpoint.
        initial: the first model, if it is from another run; None also for a run that is continued, whose checkpoint has
            it.
        resolved: the configuration as requested, and what was chosen before the data were read.
        unshared: why it trains in this process although the engine was not named; None if it was, or starts workers.
        search: how the factor of the penalty was found; None if it was given, or has its default.
        group: the comparison that it belongs to; empty if it is alone.
    """

    config: Config
    data: Dataset | ShardFolder
    problem: Problem
    scheme: Scheme
    delays: Delays
    out: Path | None
    resolved: Resolved
    resuming: bool = False
    initial: InitialModel | None = None
    unshared: Unshared | None = None
    search: PenaltySearch | None = None
    group: str = ""

    def __repr__(self) -> str:
        return f"Experiment({self.data!r}, {self.scheme!r}, {self.config.run.engine})"

    @property
    def held(self) -> HeldData | None:
        """What redundant data cost each worker; None if no task is held twice, or workers are in this process."""
        return None if self.config.run.engine == "in_process" else HeldData.by(self.scheme.code, self.data)

    @classmethod
    def from_config(
        cls,
        config: Config | Entries,
        starting: Callable[[str], None] = lambda what: None,
    ) -> Experiment:
        """Check a configuration, load its data, and fill in the defaults.

        Arguments:
            config: a configuration, or tables as in a run file, such as `{"run": {"steps": 50}}`.
            starting: called with what is done next and may take a while, such as `"reading houses.csv"`.

        Raises:
            InvalidArgument: if something does not fit; the error names the key, and is raised before data are read if
                possible.
            DataError: if the data cannot be used, or this machine has no memory for the workers.
            EngineError: if the number of workers is that of an MPI job or a Ray cluster, and this cannot be asked.
        """
        return cls.of(resolve(as_config(config)), starting)

    @classmethod
    def of(
        cls, resolved: Resolved, starting: Callable[[str], None] = lambda what: None, resuming: bool = False
    ) -> Experiment:
        """Load the data of a resolved configuration, and fill in the defaults that depend on them.

        Arguments:
            resolved: the configuration.
            starting: as for `from_config`.
            resuming: whether the run is continued.

        Raises:
            InvalidArgument: if something does not fit the data; the error names the key.
            DataError: if the data cannot be used.
        """
        config, earlier = resolved.config, resolved.initial
        trained = None if earlier is None else TrainedModel.load(earlier)
        starting(f"reading {config.data.source}")
        data = parts.load_data(config.data, config.problem.loss)
        minimised, search = settled_problem(config.problem, data, starting)
        problem = parts.build_problem(data, minimised, config.data.worker_path)
        if isinstance(problem, ShardedProblem) and config.run.engine in _HERE and config.data.worker_path is None:
            problem.check_files()
        initial = None if earlier is None or trained is None else _initial(trained, earlier, data, minimised.loss or "")
        delays, given, resolved = resolved.delays, resolved, _where_they_are(resolved, problem)
        workers, unshared, chosen = _fitted(resolved, problem), None, resolved
        if resolved is given and data.published is None and delays.expected == 0.0:  # nobody is late
            unshared = unshared_training(resolved.asked, workers, problem)
        if unshared is not None:
            chosen = resolved.again(engine="in_process", workers=1)
        elif workers != resolved.config.run.workers:  # there are few samples
            chosen = resolved.again(workers=workers)
        chosen = _dealt_out(chosen, problem)
        config, scheme = chosen.config, chosen.scheme
        _check_tasks(scheme, config.scheme or "", problem)
        complete = config.model_copy(
            update={
                "data": _absolute(config.data),
                "run": config.run if earlier is None else config.run.model_copy(update={"initial": str(earlier)}),
                "problem": minimised,
                "optimizer": _rated(config.optimizer, minimised, data, problem, scheme),
                "delays": config.delays.model_copy(update={"model": str(delays)}),
            }
        )
        if chosen is not given:
            check_reachable(scheme, delays, complete.delays, complete.run.steps)
        place = config.run.out
        out = Path(place) if place else next_free(RUNS, f"{data.name}-{scheme.name}".replace(" ", "-"))
        return cls(complete, data, problem, scheme, delays, out, chosen, resuming, initial, unshared, search)

    @classmethod
    def from_file(cls, path: StrPath) -> Experiment:
        """Read a run file; see `from_config`."""
        with locating(path):
            return cls.from_config(read_config(path))

    @classmethod
    def resume(cls, folder: StrPath, changes: Entries | None = None) -> Experiment:
        """Continue a run that was cut off, or ended early, from its newest checkpoint.

        Arguments:
            folder: folder of the run.
            changes: tables whose values take precedence over those of the run, such as `{"run": {"steps": 200}}`: how
                long the run is, where it runs, and where its data are. What determines the run cannot change.

        Raises:
            DataError: if there is no run, or no checkpoint of it that can be used.
            InvalidArgument: if the run is finished, or still running, or it would be another run; the error says why.
        """
        opened = opened_to_go_on(folder)
        if "consensus" in opened.tables:
            raise DataError(
                f"{str(folder)!r} is a run without a coordinator; erasurehead consensus --resume resumes it."
            )
        damage = opened.damage(CONFIG)
        try:
            config = build_config(overridden(opened.tables, changes or {}))
        except InvalidArgument:
            if damage:
                raise DataError(damage) from None
            raise
        if config.run.out is not None or config.run.overwrite:
            key = "run.overwrite" if config.run.out is None else "run.out"
            raise invalid(key, "must be left out when a run is resumed in its own folder", config.run.out)
        config = filled_in(config)  # what has changed is told before what does not fit
        other = "max_seconds" in dict((changes or {}).get("run", {}))
        begun = has_steps(opened.path)
        if changes and begun and has_checkpoints(opened.path):  # before what takes more steps, which would not help
            check_same(
                with_defaults(CheckpointStore(opened.path).newest()[1].get("configuration", {})), determining(config)
            )
        check_unfinished(opened, config.run.steps, config.run.max_seconds if other else None)
        if not begun:  # it ended before its first step
            return replace(cls.from_config(config), out=opened.path)
        if not has_checkpoints(opened.path):
            again = f"erasurehead train {shlex.quote(str(opened.path / CONFIG))} --out {shlex.quote(str(opened.path))}"
            raise DataError(
                f"There is no checkpoint in {str(folder)!r}: the run ended before its first. To begin it again, in the"
                f" same folder: {again} --overwrite"
            )
        step, before = CheckpointStore(opened.path).newest()
        if config.run.steps < step:
            raise invalid("run.steps", f"must be at least the {step} steps that are done", config.run.steps)
        check_same(with_defaults(before.get("configuration", {})), determining(config))
        if damage:
            raise DataError(f"{damage} To change settings, name them as options of --resume.")
        if damage := opened.damage(ENCODING):
            raise DataError(f"{damage} If you remove it, it is written again when the run is resumed.")
        experiment = replace(cls.of(resolve(config, resuming=True), resuming=True), out=opened.path)
        now = {**experiment.facts(), "code": of_code(experiment.scheme.code)}
        check_unchanged(opened, before, now, experiment.data.encoding)
        return experiment

    def with_scheme(self, text: str, out: StrPath | None, name: str = "") -> Experiment:
        """Return the same experiment with another scheme: same data, problem, delays and first model.

        Arguments:
            text: text of the scheme.
            out: path of its run folder.
            name: name of the scheme, if not its own.

        Raises:
            InvalidArgument: if the text is not a scheme, or the folder is in use.
        """
        resolved = self.resolved.again(text)
        scheme, chosen = resolved.scheme, resolved.config
        _check_tasks(scheme, text, self.problem)
        optimizer = _rated(chosen.optimizer, self.config.problem, self.data, self.problem, scheme)
        run = self.config.run.model_copy(update={"steps": chosen.run.steps})
        config = self.config.model_copy(update={"scheme": chosen.scheme, "optimizer": optimizer, "run": run})
        check_scheme(scheme, config, self.delays)
        folder = None if out is None else check_free(out, run.overwrite)
        named = replace(scheme, name=name) if name else scheme
        group = "" if folder is None else folder.absolute().parent.name
        return replace(self, config=config, scheme=named, out=folder, group=group)

    def first_model(self) -> Array:
        """Return the model that training starts from, shape (n_parameters,); zeros if only the checkpoint has it."""
        if self.initial is not None:
            return self.initial.x
        return parts.first_model(self.config.run, self.problem.n_parameters)

    def optimizer(self) -> Optimizer:
        """Return a new optimizer at the first model."""
        return parts.build_optimizer(self.config.optimizer, self.first_model())

    def engine(self) -> Engine:
        """Return a new engine; it starts no worker before it is used."""
        return parts.build_engine(self.config.run, self.config.delays, self.delays)

    def run(self, callbacks: Sequence[Callback] = (), engine: Engine | None = None) -> Run:
        """Train, and record everything in the run folder.

        Arguments:
            callbacks: hooks that watch, besides the recorder.
            engine: the engine; by default a new one as configured.

        Returns:
            The run; after Ctrl-C and the like `stopped` says so, as for `train`.

        Raises:
            InvalidArgument: if the run folder has been taken meanwhile.
            Unreachable, Diverged, EngineError: if training raised them; the records so far are in the folder.
        """
        check_callbacks(callbacks)
        section, optimizer, engine = self.config.run, self.optimizer(), engine or self.engine()
        recording, least = None, LeastCounted()
        if self.out is not None:
            with going_on(self.resuming):
                recording = Recording(
                    self.out, self.config, self.data, self.facts(), self.resuming, callbacks, self.group
                )
        watching = callbacks if recording is None else recording.callbacks
        try:
            with going_on(self.resuming), np.errstate(over="ignore", invalid="ignore"):  # the loop reports divergence
                run = train(
                    self.problem,
                    self.scheme,
                    optimizer,
                    engine,
                    section.steps,
                    [*watching, least],
                    section.evaluate_every,
                    fault_policy=self.config.faults.policy(),
                    resume=None if recording is None else recording.resumption,
                    wanted=lambda step: None if recording is None else recording.wanted(step),
                    until=section.until,
                    patience=section.patience,
                    max_seconds=section.max_seconds,
                    tolerance=self._tolerance,
                    wire=None if engine.message_rounding else section.wire,  # an engine may have its own
                )
        except BaseException as error:
            if recording is not None:
                recording.cut_off(error)
                if isinstance(error, Diverged) and not least.neglected:
                    heaviest = getattr(self.problem, "heaviest", 1.0)
                    lag = self.scheme.aggregation.lag(self.scheme.code.n_workers)
                    advice = remedy(self.config, self.data, heaviest, least, lag)
                    raise Diverged(f"{error} {advice}".rstrip()) from error
            raise
        if recording is not None:
            recording.end(run)
        return run

    @property
    def _tolerance(self) -> float | None:
        """The tolerance at which an exact gradient ends the run; published settings keep their number of steps."""
        tolerance = self.config.run.tolerance
        if tolerance is None:
            published = self.data.published is not None and self.config.optimizer.name != "quasi_newton"
            return None if published else TOLERANCE
        return tolerance or None

    def facts(self) -> PlainData:
        """Return what determines this run, as plain data: settings, and fingerprints of all that they name."""
        return facts(determining(self.config), self.data, {"what delays.model draws": self.delays})


def _rated(
    section: OptimizerSection,
    minimised: ProblemSection,
    data: Dataset | ShardFolder,
    problem: Problem,
    scheme: Scheme,
) -> OptimizerSection:
    """Return the section of a chosen optimizer with all defaults, including a rate if it takes one."""
    if section.name == "quasi_newton":
        return section
    rate, restart = section.rate, section.restart
    if rate is None:
        assert minimised.loss is not None
        assert minimised.l2 is not None
        heaviest, lag = getattr(problem, "heaviest", 1.0), scheme.aggregation.lag(scheme.code.n_workers)
        rate = parts.default_rate(data, minimised.loss, minimised.l2, heaviest, lag)
    if restart is None:
        restart = data.published is None and section.name == "nesterov"
    return section.model_copy(update={"rate": rate, "restart": restart})


def _absolute(section: DataSection) -> DataSection:
    changes: dict[str, str] = {}
    if section.source not in (*NAMES, "-"):
        changes["source"] = str(Path(section.source).expanduser().absolute())
    if section.path is not None:
        changes["path"] = str(Path(section.path).expanduser().absolute())
    return section.model_copy(update=changes)


def _initial(trained: TrainedModel, folder: Path, data: Dataset | ShardFolder, loss: str) -> InitialModel:
    try:
        return trained.initial(data.encoding, loss)
    except InvalidArgument as error:
        sentence = f"run.initial ({str(folder)!r}): {error}"
        raise InvalidArgument("run.initial", error.rule, str(folder), sentence=sentence) from None


def _where_they_are(resolved: Resolved, problem: Problem) -> Resolved:
    """Return a configuration whose workers compute where their data are, if that is known of a folder of shards.

    Raises:
        InvalidArgument: if another number of workers is asked for than there are machines.
    """
    asked, run = resolved.asked, resolved.config.run
    if asked.scheme is not None or asked.run.speeds is not None or not isinstance(problem, ShardedProblem):
        return resolved
    placement = problem.folder.placement
    if placement is None:
        return resolved
    if asked.run.says("workers") and run.workers != len(placement):
        rule = f"must be {len(placement)}, the number of machines that {problem.folder.path} is placed on"
        raise invalid("run.workers", rule, run.workers, "or name a scheme (--scheme), which may move data")
    held, hosts = [list(tasks) for tasks in placement.values()], json.dumps([*placement])
    where = f", hosts={hosts}" if run.engine in ("mpi", "ray") else ""
    code = f"placed(held={held}, stragglers={tolerated(placement)}{where})"
    return resolved.again(f"custom(code={code!r}, wait='decodable()')", workers=len(placement))


def _fitted(resolved: Resolved, problem: Problem) -> int:
    """Return the number of workers: where nobody has said how many, not more than the samples allow.

    That is at most one a sample, and for a folder of shards a number by which its tasks can be divided, unless the
    scheme says who its workers are.
    """
    workers = most = resolved.config.run.workers
    if resolved.asked.run.says("workers"):
        return workers
    if isinstance(problem, ShardedProblem):
        tasks = problem.folder.manifest.n_tasks
        workers = max(number for number in range(1, workers + 1) if tasks % number == 0)
    try:
        parse_scheme(resolved.config.scheme or "", workers)
    except InvalidArgument:
        workers = most
    return min(workers, problem.n_samples)


def _dealt_out(chosen: Resolved, problem: Problem) -> Resolved:
    """Return a configuration whose tasks, if they go by speed, can be made of those of a folder of shards."""
    scheme, text = chosen.scheme, chosen.config.scheme or ""
    by_speed = scheme.name == "uncoded" and scheme.by_speed is not None and "n_tasks" not in text
    if not (isinstance(problem, ShardedProblem) and by_speed):
        return chosen
    n_tasks, stored = scheme.code.n_tasks, problem.folder.manifest.n_tasks
    fits = [number for number in range(scheme.code.n_workers, stored + 1) if stored % number == 0]
    fit = min(fits, key=lambda number: abs(number - n_tasks), default=n_tasks)
    return chosen if fit == n_tasks else chosen.again(f"{text.strip()[:-1]}, n_tasks={fit})")


def _check_tasks(scheme: Scheme, text: str, problem: Problem) -> None:
    try:
        split_samples(problem.n_samples, scheme.code.n_tasks)
        if isinstance(problem, ShardedProblem):
            problem.check_tasks(scheme.code.n_tasks)
    except InvalidArgument as error:
        rule = f"{text!r} with {counted('worker', scheme.code.n_workers)}: the number of its tasks {error.rule}"
        raise error.but(argument="scheme", rule=rule) from None

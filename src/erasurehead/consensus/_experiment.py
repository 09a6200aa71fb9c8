"""Experiments without a coordinator: run files with their data, plan and run folder, ready to run."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from erasurehead._internal.documents import Entries, PlainData
from erasurehead._internal.resources import check_memory
from erasurehead._internal.signals import noted, uninterrupted
from erasurehead._internal.state_json import going_on
from erasurehead._internal.user_files import StrPath
from erasurehead.consensus._config import ConsensusConfig, ConsensusSection
from erasurehead.consensus._graphs import parse_graph
from erasurehead.consensus._injected_faults import from_schedule
from erasurehead.consensus._models import build_problem, with_model_defaults
from erasurehead.consensus._plans import ConsensusPlan, ConsensusTerms, plan
from erasurehead.consensus._recorder import PeerRecording
from erasurehead.consensus._result import ConsensusRun
from erasurehead.consensus._shares import parse_split
from erasurehead.consensus._training import run_plan
from erasurehead.consensus._training_options import ConsensusCallback, TrainingOptions
from erasurehead.datasets import Dataset
from erasurehead.datasets._published import images as _images
from erasurehead.datasets._sharded import is_sharded
from erasurehead.drills._schedule import read_schedule
from erasurehead.engines._base import NoRoom
from erasurehead.errors import DataError, InvalidArgument, NoFile, counted, invalid
from erasurehead.runs._checkpoints.store import CheckpointStore
from erasurehead.runs._config import parts
from erasurehead.runs._config.checking import build, merged
from erasurehead.runs._fingerprints import check_same, facts, flat
from erasurehead.runs._names import RUNS, SUMMARY, check_free, next_free
from erasurehead.runs._penalty_search import PenaltySearch, settled_problem
from erasurehead.runs._resuming import check_unchanged, opened_to_go_on
from erasurehead.trackers import Tracker
from erasurehead.training._callbacks import check_callbacks

_DEFAULT_ROWS = 10_000
"""Default number of training rows that are read from a data set of images."""

_CHANGEABLE = {"steps", "out", "overwrite", "model_of", "track"}
"""Settings of `[run]` that may change when a run is resumed."""

_OF_PEER = 5e3  # bytes of a peer, at least: its state, its links and its samples
_CHECKED_EARLY = 1_000
"""Largest number of peers whose graph is checked before the data are read. Larger graphs are slow to draw, perhaps in
vain: there may be fewer samples than peers."""


@dataclass(frozen=True, eq=False)
class ConsensusExperiment:
    """A prepared run: everything is checked, and nothing has started.

    Arguments:
        config: the configuration with all defaults filled in.
        data: the data set.
        plan: the plan of the run.
        out: path of the run folder.
        resuming: whether to resume the run in that folder from its newest checkpoint.
        search: how the factor of the penalty was found; None if it was given, or has its default.
    """

    config: ConsensusConfig
    data: Dataset
    plan: ConsensusPlan
    out: Path
    resuming: bool = False
    search: PenaltySearch | None = None

    @classmethod
    def from_tables(
        cls,
        tables: Entries,
        resuming: Path | None = None,
        starting: Callable[[str], None] = lambda what: None,
    ) -> Self:
        """Prepare a run from the tables of a run file: check them, and load the data.

        Arguments:
            tables: such as `{"consensus": {"peers": 6}}`.
            resuming: folder of the run to resume; None for a new run.
            starting: called with what is done next and may take a while.

        Raises:
            InvalidArgument: if a value is invalid; the error names the key.
            DataError: if the data cannot be used.
        """
        config = build(ConsensusConfig, tables)
        config = config.model_copy(update={"consensus": with_model_defaults(config.consensus)})
        section, delays, run = config.consensus, config.delays, config.run
        if run.out is not None and resuming is None:
            check_free(run.out, run.overwrite)
        check_memory(  # before the delays are built, one factor a peer
            f"A run of {counted('peer', section.peers)}", _OF_PEER * section.peers, "use fewer peers (--peers)"
        )
        if run.model_of is not None and run.model_of >= section.peers:
            raise invalid("run.model_of", f"must be a peer, 0 to {section.peers - 1}", run.model_of)
        parts.check_problem_keys(config.problem, is_sharded(config.data.source), config.problem.loss)
        if run.engine != "virtual" and config.checkpoints.every_steps:
            rule, hint = f"must be left out on {run.engine}", "only runs on the virtual clock leave checkpoints"
            raise invalid("checkpoints.every_steps", rule, config.checkpoints.every_steps, hint)
        if isinstance(config.problem.l2, str) and section.model != "linear":
            raise invalid("problem.l2", f"must be a number for a {section.model}", config.problem.l2)
        model = parts.build_delays(delays.model or _default_delays(section.peers))
        given = {**dict(section), **dict(delays), **dict(run)}  # sections and terms name each setting alike
        terms = {term.name: given[term.name] for term in fields(ConsensusTerms) if term.name in given}
        faults = () if section.faults is None else from_schedule(read_schedule(section.faults))
        terms |= {"delays": model, "faults": faults, "graph": section.graph}
        with _errors_name_keys(section):
            parse_split(section.split)
            if section.peers <= _CHECKED_EARLY:
                terms["graph"] = parse_graph(section.graph, section.peers)
                ConsensusTerms(**terms)
        data, source = _load(config)
        minimised, search = settled_problem(config.problem, data, starting)
        problem = build_problem(config, data, minimised)
        with _errors_name_keys(section):
            checked = plan(problem, peers=section.peers, split=section.split, batch=section.batch or None, **terms)
        complete = config.model_copy(
            update={
                "data": source,
                "problem": minimised,
                "delays": delays.model_copy(update={"model": str(model)}),
            }
        )
        name = f"{data.name}-consensus-{section.policy.partition('(')[0]}"
        out = resuming or (Path(run.out) if run.out else next_free(RUNS, name))
        return cls(complete, data, checked, out, resuming is not None, search)

    @classmethod
    def resume(cls, folder: StrPath, above: Entries | None = None) -> Self:
        """Prepare to resume a run from its newest checkpoint; only `run.steps` and `run.track` may change.

        Arguments:
            folder: the run folder.
            above: changed settings, as tables.

        Raises:
            DataError: if there is no such run, or it cannot be resumed.
            InvalidArgument: if it is still running, or if another setting or the data have changed.
        """
        opened = opened_to_go_on(folder)
        tables = opened.tables
        if "consensus" not in tables:
            raise DataError(
                f"{str(folder)!r} is not a run without a coordinator; erasurehead train --resume resumes it."
            )
        engine = tables.get("run", {}).get("engine", "virtual")
        if engine != "virtual":
            raise DataError(
                f"{str(folder)!r} is a run with peers on {engine}, which leaves no checkpoints: only runs on the "
                "virtual clock can be resumed."
            )
        for section, given in (above or {}).items():
            for key, value in given.items():
                if (section, key) not in (("run", "steps"), ("run", "track")):
                    raise invalid(f"{section}.{key}", "must be left out when a run is resumed", value)
        experiment = cls.from_tables(merged(tables, above or {}), opened.path)
        steps, summary = experiment.config.run.steps, {} if opened.damage(SUMMARY) else opened.summary
        done = int(summary.get("steps") or 0) // experiment.plan.graph.n_peers
        if steps < done or (steps == done and summary.get("status") == "finished"):
            way_on = f"to go on: erasurehead consensus --resume {shlex.quote(str(folder))} --steps {2 * done}"
            raise invalid("run.steps", f"must be more than the {done} steps that each peer has taken", steps, way_on)
        _, before = CheckpointStore(opened.path).newest()
        now = experiment.facts()
        with going_on():
            check_same(before.get("configuration", {}), now["configuration"])
        check_unchanged(opened, before, now, experiment.data.encoding)
        return experiment

    def facts(self) -> PlainData:
        """Return what determines this run, as plain data: its settings, and fingerprints of what they name."""
        settings = flat(self.config.model_dump(mode="json", exclude={"checkpoints": True, "run": _CHANGEABLE}))
        drawn = {"what delays.model draws": self.plan.delays, "what consensus.faults schedules": self.plan.faults}
        return facts(settings, self.data, drawn)

    def run(self, callbacks: Sequence[ConsensusCallback | Tracker] = ()) -> ConsensusRun:
        """Train, and record the run in its folder.

        Ctrl-C, SIGTERM, SIGUSR1 and SIGHUP end the run cleanly: on the virtual clock at the next evaluation of the mean
        model, with a checkpoint, and with real peers within about a quarter of a second; peers that hang are left out
        of it after a second or, where gradients take long, up to ten. A second signal ends it at once, without a model;
        then it can be resumed from an earlier checkpoint, if there is one.

        Returns:
            The run; `stopped` says why it ended early.
        """
        check_callbacks(callbacks)
        section = self.config.run
        with going_on(self.resuming):
            recording = PeerRecording(self.out, self.config, self.data, self.facts(), self.resuming, callbacks)
        with np.errstate(over="ignore", invalid="ignore"), noted() as reason:
            options = TrainingOptions(
                steps=section.steps,
                evaluate_every=section.evaluate_every,
                records=False,
                callbacks=recording.callbacks,
                resume=recording.state,
                stop=reason,
            )
            try:
                with going_on(self.resuming), peers_as_workers():
                    run = run_plan(self.plan, options, section.engine)
            except BaseException as error:
                recording.cut_off(error)
                raise
            with uninterrupted(), going_on(self.resuming):
                recording.finish(run, section.model_of)
            return run


@contextlib.contextmanager
def peers_as_workers() -> Generator[None]:
    """Add to an error of an engine, which calls peers workers, where their number is set."""
    try:
        yield
    except NoRoom as error:
        raise NoRoom(f"{error} Each peer is a worker; their number is consensus.peers (--peers).") from None


@contextlib.contextmanager
def _errors_name_keys(section: ConsensusSection) -> Generator[None]:
    """Let errors about an argument name the key of `[consensus]` that it came from."""
    try:
        yield
    except InvalidArgument as error:
        is_key = error.subject in type(section).model_fields
        raise error.about(f"consensus.{error.subject}") if is_key else error from None


def _load(config: ConsensusConfig) -> tuple[Dataset, Any]:
    """Return the data set, and `[data]` with all defaults filled in."""
    section = config.data
    if section.source not in _images.IMAGES:
        parts.check_data_keys(section)
        try:
            data = parts.load_data(section, config.problem.loss)
        except NoFile as error:
            raise NoFile(error.path, f"{error.hint}, or one of {', '.join(_images.IMAGES)}") from None
        if not isinstance(data, Dataset):
            raise invalid("data.source", "must be in memory for peers", section.source, "name the file itself")
        path = Path(section.source).expanduser()
        absolute = section.model_copy(update={"source": str(path.absolute())}) if path.exists() else section
        return data, absolute
    of_images = {"source", "path", "synthetic", "rows", "seed"}
    for key, value in section.model_dump(exclude=of_images, exclude_defaults=True).items():
        raise invalid(f"data.{key}", f"is for files of your own, not for {section.source!r}", value)
    rows, how = section.rows or _DEFAULT_ROWS, section.synthetic or "fallback"
    data = _images.load_images(section.source, section.path, synthetic=how, rows=rows, seed=section.seed)
    return data, section.model_copy(update={"rows": rows, "synthetic": how})


def _default_delays(peers: int) -> str:
    """Return the delay model of run files without one: peer 0 takes five times as long as the others."""
    factors = ", ".join(["5.0", *["1.0"] * (peers - 1)])
    return f"scaled(shifted_exponential(shift=1.0, mean=1.0), [{factors}])"

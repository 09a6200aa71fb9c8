"""Experiments without a coordinator: a run file with its data, problem, plan and run folder, ready to run."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from erasurehead import datasets
from erasurehead.consensus.conduct import Conduct
from erasurehead.consensus.config import ConsensusConfig, ConsensusSection
from erasurehead.consensus.faults import from_schedule
from erasurehead.consensus.graphs import Graph, parse_graph
from erasurehead.consensus.models import build_problem, check_model, settled
from erasurehead.consensus.plans import ConsensusPlan, check_terms, plan
from erasurehead.consensus.recording import PeerRecorder
from erasurehead.consensus.result import ConsensusRun
from erasurehead.consensus.shares import parse_split
from erasurehead.consensus.training import carry_out
from erasurehead.consensus.watcher import Watcher
from erasurehead.datasets.base import Dataset
from erasurehead.datasets.sharded import is_sharded
from erasurehead.drills.schedule import read_schedule
from erasurehead.errors import DataError, InvalidArgument, NoFile, invalid
from erasurehead.runs.checkpoints.store import CheckpointStore
from erasurehead.runs.config import parts
from erasurehead.runs.config.checking import build, merged
from erasurehead.runs.config.toml import locating, read_tables, to_toml
from erasurehead.runs.fingerprints import MEANING, check_same, of_data, of_encoding, of_value
from erasurehead.runs.folder import RunFolder
from erasurehead.runs.names import CONFIG, ENCODING, RUNS, SUMMARY, check_free, next_free
from erasurehead.runs.resuming import check_unchanged, opened_to_go_on
from erasurehead.runs.summaries import describe
from erasurehead.training.signals import Terminated, stopped_by

_ROWS = 10_000
"""Default number of training rows that are read from a data set of images."""

_FREE = {"steps", "out", "overwrite", "model_of"}
"""Settings of `[run]` that may change when a run is resumed."""

_DRAWN_BEFORE = 1_000
"""Largest number of peers whose graph is drawn before the data are read; for more, samples may be too few."""


@dataclass(frozen=True, eq=False)
class ConsensusExperiment:
    """A prepared run: everything is checked, and nothing has started.

    Arguments:
        config: the configuration with all defaults filled in.
        data: the data set.
        plan: the plan of the run: peers, policy, delays.
        out: path of the run folder; None to keep no records.
        resuming: whether to continue the run in that folder from its newest checkpoint.
    """

    config: ConsensusConfig
    data: Dataset
    plan: ConsensusPlan
    out: Path | None
    resuming: bool = False

    @classmethod
    def from_tables(
        cls, tables: Mapping[str, Any], options: Mapping[str, str] | None = None, resuming: Path | None = None
    ) -> Self:
        """Check tables as in a run file, and load the data.

        Arguments:
            tables: such as `{"consensus": {"peers": 6}}`.
            options: what the user wrote for a key, for errors.
            resuming: folder of the run to continue; None for a new one.

        Raises:
            InvalidArgument: if something does not fit; the error names the key.
            DataError: if the data cannot be used.
        """
        config = build(ConsensusConfig, tables, options)
        config = config.model_copy(update={"consensus": settled(config.consensus)})
        section, delays, run = config.consensus, config.delays, config.run
        if run.out is not None and resuming is None:
            check_free(run.out, run.overwrite)
        _check_settings(config)
        made = parts.build_delays(delays.model or _one_slow(section.peers))
        terms: dict[str, Any] = {
            "policy": section.policy, "rate": section.rate, "algorithm": section.algorithm, "mixing": section.mixing,
            "delays": made, "late": delays.late, "rows_every": delays.rows_every,
            "seconds_per_step": delays.seconds_per_step, "latency": delays.latency, "notice": section.notice,
            "faults": () if section.faults is None else from_schedule(read_schedule(section.faults)),
            "orphans": section.orphans, "seed": run.seed,
        }  # fmt: skip
        graph: Graph | str = section.graph
        with _naming(section):
            parse_split(section.split)
            if section.peers <= _DRAWN_BEFORE:
                graph = parse_graph(section.graph, section.peers)
                check_terms(graph, **terms)
        data, source = _load(config)
        loss = config.problem.loss or data.task
        l2 = 1.0 / data.n_train if config.problem.l2 is None else config.problem.l2
        minimised = config.problem.model_copy(update={"loss": loss, "l2": l2})
        problem = build_problem(config, data, minimised)
        with _naming(section):
            ready = plan(problem, graph, peers=section.peers, split=section.split, batch=section.batch or None, **terms)
        complete = config.model_copy(
            update={
                "data": source,
                "problem": minimised,
                "delays": delays.model_copy(update={"model": str(made)}),
            }
        )
        name = f"{data.name}-consensus-{section.policy.partition('(')[0]}"
        out = resuming or (Path(run.out) if run.out else next_free(RUNS, name))
        return cls(complete, data, ready, out, resuming is not None)

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        above: Mapping[str, Any] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Self:
        """Read a run file; see `from_tables`.

        Arguments:
            path: of the TOML file.
            above: tables whose values take precedence over the file's.
            options: as for `from_tables`.
        """
        with locating(path):
            return cls.from_tables(merged(read_tables(path), above or {}), options)

    @classmethod
    def resume(
        cls,
        folder: str | os.PathLike[str],
        above: Mapping[str, Any] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Self:
        """Continue a run from its newest checkpoint; only `run.steps` may change.

        Raises:
            DataError: if there is no such run.
            InvalidArgument: if it is still running, or something else would change, or has changed, as the data.
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
        for section, keys in (above or {}).items():
            for key in keys:
                if (section, key) != ("run", "steps"):
                    raise invalid(f"{section}.{key}", "must be left out when a run is resumed", keys[key])
        experiment = cls.from_tables(merged(tables, above or {}), options, opened.path)
        steps, told = experiment.config.run.steps, {} if opened.damage(SUMMARY) else opened.summary
        done = int(told.get("steps") or 0) // experiment.plan.graph.n_peers
        if steps < done or (steps == done and told.get("status") == "finished"):
            raise invalid("run.steps", f"must be more than the {done} steps that each peer has done", steps,
                          "there is nothing left to do")  # fmt: skip
        _, facts = CheckpointStore(opened.path).newest()
        now = experiment.facts()
        check_same(facts.get("configuration", {}), now["configuration"])
        check_unchanged(opened, facts, now, experiment.data.encoding)
        return experiment

    def facts(self) -> dict[str, Any]:
        """Return what determines this run, as plain data: settings, and fingerprints of all that they name."""
        tables = self.config.model_dump(mode="json", exclude={"checkpoints": True, "run": _FREE})
        return {
            "configuration": {f"{name}.{key}": value for name, table in tables.items() for key, value in table.items()},
            "data": of_data(self.data),
            MEANING: of_value(of_encoding(self.data.encoding)),
            "what delays.model draws": of_value(self.plan.delays),
            "what consensus.faults schedules": of_value(self.plan.troubles),
        }

    def run(self, watchers: Sequence[Watcher] = ()) -> ConsensusRun:
        """Train, and record everything in the run folder.

        Ctrl-C, SIGTERM, SIGUSR1 and SIGHUP end it at the next evaluation of the mean model, with a checkpoint; a second
        one at once.

        Returns:
            The run; `stopped` says why it ended early.
        """
        with np.errstate(over="ignore", invalid="ignore"), _Ending() as ending:
            return self._run(watchers, ending)

    def _run(self, watchers: Sequence[Watcher], ending: _Ending) -> ConsensusRun:
        section = self.config.run
        length: dict[str, Any] = {"steps": section.steps, "evaluate_every": section.evaluate_every}
        if self.out is None:
            return carry_out(self.plan, Conduct(watchers=watchers, stop=ending.said, **length), section.engine)
        if self.resuming:
            folder = RunFolder.open(self.out, section.access)
        else:
            folder = RunFolder.create(self.out, section.overwrite, section.access)
        if not folder.has(ENCODING):
            folder.write(ENCODING, self.data.encoding.to_json())
        tables = self.config.model_dump(exclude_none=True)
        tables["run"] = {key: value for key, value in tables["run"].items() if key not in ("out", "overwrite")}
        facts = self.facts()
        summary = {"engine": section.engine, "data": {**describe(self.data), "fingerprint": facts["data"]}}
        recorder = PeerRecorder(
            folder, facts, self.config.checkpoints, self.resuming, section.model_of, summary=summary
        )
        try:
            folder.write(CONFIG, to_toml(tables))
            conduct = Conduct(
                watchers=[recorder, *watchers], resume=recorder.state, records=False, stop=ending.said, **length
            )
            done = carry_out(self.plan, conduct, section.engine)
        except BaseException as error:
            stopped = isinstance(error, KeyboardInterrupt)
            with contextlib.suppress(OSError):  # a full disk may be what ended the run
                recorder.end(None, "interrupted" if stopped else "failed", stopped_by(error) if stopped else str(error))
            raise
        recorder.end(done, done.status, done.stopped)
        return done


class _Ending:
    """Records the signals that end a run cleanly; a second one ends it at once."""

    def __init__(self) -> None:
        self._said = ""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
                usual = (signal.default_int_handler, signal.SIG_DFL)
                if signal.getsignal(number) in usual:
                    self._before[number] = signal.signal(number, self._take_note)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take_note(self, number: int, frame: object) -> None:
        error = KeyboardInterrupt() if number == signal.SIGINT else Terminated(number)
        if self._said:
            raise error
        self._said = stopped_by(error)

    def said(self) -> str:
        """Return what ended the run; empty if nothing did."""
        return self._said


def _check_settings(config: ConsensusConfig) -> None:
    """Check everything that needs neither the graph nor the data."""
    section, of = config.consensus, config.run.model_of
    if of is not None and of >= section.peers:
        raise invalid("run.model_of", f"must be a peer, 0 to {section.peers - 1}", of)
    check_model(section, config.data.source)
    parts.check_class_weight(config.problem, is_sharded(config.data.source), config.problem.loss)


@contextlib.contextmanager
def _naming(section: ConsensusSection) -> Generator[None]:
    """Make errors about arguments name the keys of `[consensus]` that they came from."""
    try:
        yield
    except InvalidArgument as error:
        known = error.subject in type(section).model_fields
        raise error.about(f"consensus.{error.subject}") if known else error from None


def _load(config: ConsensusConfig) -> tuple[Dataset, Any]:
    """Return the data, and `[data]` with all defaults."""
    section = config.data
    if section.source not in datasets.IMAGES:
        parts.check_data_keys(section)
        try:
            data = parts.load_data(section, config.problem.loss)
        except NoFile as error:
            raise NoFile(error.path, f"{error.hint}, or one of {', '.join(datasets.IMAGES)}") from None
        if not isinstance(data, Dataset):
            raise invalid("data.source", "must be in memory for peers", section.source, "name the file itself")
        path = Path(section.source)
        settled = section.model_copy(update={"source": str(path.absolute())}) if path.exists() else section
        return data, settled
    unset = type(section)(source=section.source, path=section.path, synthetic=section.synthetic, rows=section.rows,
                          seed=section.seed)  # fmt: skip
    for key in type(section).model_fields:
        if getattr(section, key) != getattr(unset, key):
            raise invalid(f"data.{key}", f"is for files of your own, not for {section.source!r}", getattr(section, key))
    rows, how = section.rows or _ROWS, section.synthetic or "fallback"
    data = datasets.load_images(section.source, section.path, synthetic=how, rows=rows, seed=section.seed)
    return data, section.model_copy(update={"rows": rows, "synthetic": how})


def _one_slow(peers: int) -> str:
    factors = ", ".join(["5.0", *["1.0"] * (peers - 1)])
    return f"scaled(shifted_exponential(shift=1.0, mean=1.0), [{factors}])"

"""Drills: the same run without and with a fault schedule, and verdicts on the difference."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from erasurehead._internal.atomic_files import write_whole
from erasurehead._internal.documents import Entries, PlainData, from_json
from erasurehead._internal.storage.folders import Folder
from erasurehead._internal.user_files import StrPath
from erasurehead.drills._coordinator import ENDED, RUN_FILE, SCHEDULE_FILE, Role, journal_file, outcome_file
from erasurehead.drills._findings import Finder
from erasurehead.drills._journal import Journal, in_order, recorded
from erasurehead.drills._schedule import KINDS, Fault, FaultSchedule, Kind, write_schedule
from erasurehead.drills._supervisor import CommandResult, DrillRun, command_line, run_command
from erasurehead.drills._verdicts import Findings
from erasurehead.errors import (
    EngineError,
    InvalidArgument,
    RecordsError,
    check_count,
    check_positive,
    counted,
    invalid,
)
from erasurehead.faults._byzantine.comparable import check_comparable
from erasurehead.runs import Experiment, RunFolder
from erasurehead.runs._config import Config, build_config, merged, to_toml
from erasurehead.runs._config.reachable import check_reachable
from erasurehead.runs._jsonl import read_lines
from erasurehead.runs._names import STEPS, check_writable, next_free
from erasurehead.schemes import Scheme, parse_scheme

DRILLS = "drills"
"""The default folder for drills."""

SCHEME = "custom(code='fractional_repetition(load=3)', wait='decodable() & confirmed(2)')"
"""Exact, with three replicas of which two must agree, so that lies can be detected."""

SECONDS = 600.0
"""How long the baseline run of a drill takes by default, by the engine's clock."""

_SAMPLE = 400  # number of steps whose waiting is computed in advance
_PATIENCE = 3.0  # factor of the longest delay in these steps: longer silence is beyond doubt
_CHECKPOINTS = 20  # number of checkpoints in a run


DEFAULTS: Entries = {
    "scheme": SCHEME,
    "data": {"source": "covertype"},
    "delays": {"model": "exponential(mean=0.5, seed=0)"},
    "run": {"engine": "virtual", "workers": 30, "preset": "paper"},
}
"""What runs of drills take by default, as tables of a run file."""


def drilled(tables: Entries) -> Config:
    """Return the configuration of a run that is to be struck, without its steps.

    Arguments:
        tables: tables of its run file, above `DEFAULTS`; data sets of the paper are replaced by small stand-ins.

    Raises:
        InvalidArgument: if something does not fit.
    """
    tables = merged(DEFAULTS, tables)
    if tables["data"]["source"] in ("amazon", "kc_housing", "covertype"):
        tables = merged(tables, {"data": {"synthetic": "always", "rows": 3000}})
    config = build_config(tables)
    if config.run.engine == "in_process":
        raise InvalidArgument(
            "run.engine",
            "must be an engine whose workers can be struck without the coordinator",
            config.run.engine,
            "take virtual, processes, mpi or ray",
        )
    scheme = parse_scheme(tables["scheme"], config.run.workers)
    with contextlib.suppress(InvalidArgument):  # where nobody can tell a lie
        check_comparable(scheme.levels[-1] if scheme.levels else scheme.decoder, scheme.rule)
        if not scheme.sums:
            return build_config(merged(tables, {"faults": {"verify": True}}))
    return config


def unused(out: StrPath | None, name: str) -> Path:
    """Return the folder of a drill, which is not made yet.

    Arguments:
        out: its path; by default a new one in `drills`.
        name: its name there.

    Raises:
        InvalidArgument: if there is anything in it.
    """
    folder = next_free(DRILLS, name) if out is None else Path(out).expanduser()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise invalid(
            "out",
            "must be an empty folder, or one that does not exist yet",
            str(folder),
            "name another one, or leave it out for a new one",
        )
    check_writable(folder, "The drill's folder")
    return folder


class Rehearsal:
    """A prepared run that is to be struck: everything is checked, and nothing has started.

    Arguments:
        tables: tables of its run file, above those that drills take by default.
        seconds: target duration of the baseline run, by the engine's clock.
        seed: seed of what is injected, if that is drawn, and of nothing else.
        out: its folder, which must be unused; by default a new one in `drills`.
        checkpoints: number of checkpoints in a run.

    Attributes:
        config: the run file.
        scheme: who computes what.
        steps: number of steps of the runs.

    Raises:
        InvalidArgument: if something does not fit.
        DataError: if the data cannot be used.
    """

    def __init__(self, tables: Entries, seconds: float, seed: int, out: StrPath | None, checkpoints: int) -> None:
        self.seed, self.seconds = check_count("seed", seed, at_least=0), seconds
        check_positive("seconds", seconds, "must be a positive number of seconds")
        config = drilled(tables)
        self.out = unused(out, f"{config.run.engine}-{seed}")
        experiment = Experiment.from_config(config)
        self.scheme = experiment.scheme
        code = self.scheme.code
        work = float(np.mean([len(code.tasks_of_message(message)) for message in range(code.n_messages)]))
        self._delays = experiment.delays.rows(0, _SAMPLE, code.n_workers, work=work)  # of the first steps
        mean = float(np.mean(self.scheme.rule.stop_times(self._delays[:, code.owner], self.scheme.decoder)))
        if not (math.isfinite(mean) and mean > 0):
            raise invalid("delays", "must make each step take a positive, finite time", experiment.config.delays.model)
        self.steps = steps = max(2, math.ceil(seconds / mean))
        run = experiment.config.run.model_copy(update={"steps": steps, "evaluate_every": steps})
        written = experiment.config.checkpoints.model_copy(
            update={"every_steps": max(1, steps // checkpoints), "every_seconds": 0.0}
        )
        self.config = experiment.config.model_copy(update={"run": run, "checkpoints": written})
        check_reachable(self.scheme, experiment.delays, self.config.delays, steps)

    def prepare(self) -> None:
        """Create its folder, with the run file."""
        Folder.made(self.out).close()
        write_whole(self.out / RUN_FILE, [to_toml(self.config.model_dump()).encode()])

    def coordinate(self, name: str, limit: float, kills: int = 0, *more: int) -> CommandResult:
        """Begin one of its runs, or take it up where it has ended, in a process that coordinates it.

        Arguments:
            name: of the run.
            limit: seconds of real time that the process may take.
            kills: number of workers that are killed meanwhile.
            more: further words, as `coordinator.main` takes them.

        Raises:
            MissingExtra: if what the engine needs is not installed.
        """
        run = self.config.run
        ranks = 1 + run.workers + kills  # a killed worker takes its rank with it
        return run_command(command_line(run.engine, ranks, str(self.out), name, *map(str, more)), limit)


class Drill(Rehearsal):
    """A rehearsal under a fault schedule: the same run without and with it.

    Arguments:
        tables, seconds, seed, out: as for `Rehearsal`.
        kinds: kinds of faults that are drawn.
        schedule: the fault schedule; drawn from the seed if None.

    Raises:
        InvalidArgument, DataError: as for `Rehearsal`, or if the schedule does not fit.
    """

    def __init__(
        self,
        tables: Entries,
        seconds: float = SECONDS,
        seed: int = 0,
        kinds: Sequence[Kind] = KINDS,
        schedule: FaultSchedule | None = None,
        out: StrPath | None = None,
    ) -> None:
        super().__init__(tables, seconds, seed, out, _CHECKPOINTS)
        self.schedule = self._drawn(kinds) if schedule is None else schedule
        workers = self.config.run.workers
        for fault in self.schedule.faults:
            if fault.worker is not None and fault.worker >= workers:
                raise invalid("a fault's worker", f"must be less than the {workers} workers", fault.worker)

    def _drawn(self, kinds: Sequence[Kind]) -> FaultSchedule:
        """Draw a fault schedule that the guarantees cover: lies only where at least three replicas can detect them."""
        groups = _equals(self.scheme)
        if not groups and set(kinds) == {"corrupt"}:
            rule = f"must not be corrupt alone for {self.scheme.name}, where no three workers send the same message"
            raise invalid("kinds", rule, ",".join(kinds), "take a load of at least 3, or other kinds")
        kinds = [kind for kind in kinds if groups or kind != "corrupt"]
        return FaultSchedule(Fault.drawn(self.seed, self.config.run.workers, self.seconds, kinds, groups))

    def prepare(self) -> None:
        """Create its folder, with the run file and the fault schedule."""
        super().prepare()
        write_schedule(self.schedule, self.out / SCHEDULE_FILE)

    def run(self, say: Callable[[str], None] = lambda text: None) -> Findings:
        """Run the drill: baseline, faulty, and on the virtual clock once more without faults of the coordinator.

        Arguments:
            say: called with progress, in sentences.

        Raises:
            EngineError: if a coordinator ends in a way that the fault schedule does not explain.
            MissingExtra: if what the engine needs is not installed.
        """
        self.prepare()
        baseline = self.perform("baseline", say)
        faulty = self.perform("faulty", say)
        unbroken = self.perform("unbroken", say) if self.compares_bits else None
        return self.findings(baseline, faulty, unbroken).write()

    @property
    def compares_bits(self) -> bool:
        """Whether the faulty run is repeated without faults of its coordinator, to compare results bit for bit."""
        return self.config.run.engine == "virtual" and bool(self.schedule.of("coordinator", "disk_full"))

    def perform(
        self, role: Role, say: Callable[[str], None] = lambda text: None, limit: float | None = None
    ) -> DrillRun:
        """Perform one of its runs, after `prepare`: to the end, whatever ends the coordinators.

        Arguments:
            role: which run.
            say: called with progress, in sentences.
            limit: seconds of real time that it may take; None for what is enough.

        Raises:
            EngineError: if a coordinator ends in a way that the fault schedule does not explain.
            MissingExtra: if what the engine needs is not installed.
        """
        say(
            {
                "baseline": f"the baseline run: {self.steps} steps, about {self.seconds:g} s on the engine's clock",
                "faulty": f"the faulty run: {counted('fault', len(self.schedule.faults))}",
                "unbroken": "the faulty run again, without faults of its coordinator",
            }[role]
        )
        limit, schedule = 6 * self.seconds + 300 if limit is None else limit, self.schedule
        run, begin, last_step = DrillRun(), time.monotonic(), 0
        journal, outcome = Journal(journal_file(self.out, role)), outcome_file(self.out, role)
        while run.lives < 1 + len(schedule.of("coordinator", "disk_full")) and not outcome.exists():
            before = len(journal.read())
            done = self.coordinate(role, limit - (time.monotonic() - begin), len(schedule.of("kill")))
            run.leftovers += done.leftovers
            run.lives += 1
            entries = journal.read()[before:]
            run.redone += sum(max(0, last_step - entry["step"]) for entry in entries if entry["what"] == "life")
            last_step = len(read_lines(self.out / role / STEPS))
            if done.code is None:
                run.failure = f"it had not ended within {limit:.0f} s of real time"
            elif not outcome.exists():
                run.failure = self._unexplained(done.code, entries, done.output)
            if run.failure or outcome.exists():
                break
            say(f"the coordinator has ended after step {last_step}; another one continues")
        if outcome.exists():
            run.outcome = from_json(outcome.read_bytes())
        elif not run.failure:
            run.failure = f"{run.lives} coordinators did not finish the run"
        run.journal = in_order(journal.read(), recorded(self.out / role))
        run.seconds = time.monotonic() - begin
        return run

    def _unexplained(self, code: int, entries: list[PlainData], output: str) -> str:
        """Return why a coordinator has ended, if the fault schedule does not explain it; empty if it does."""
        ended = [entry for entry in entries if entry["what"] == "ended"]
        if ended:
            return "" if ended[-1]["kind"] == RecordsError.__name__ else str(ended[-1]["text"])
        last = entries[-1] if entries else {}
        if last.get("what") == "injected" and self.schedule.faults[int(last["fault"])].kind == "coordinator":
            return ""
        if code == ENDED or not output:
            return f"its coordinator ended with code {code}"
        raise EngineError(f"the coordinator of a drill ended with code {code}: {output.splitlines()[-1]}")

    def findings(self, baseline: DrillRun, faulty: DrillRun, unbroken: DrillRun | None = None) -> Findings:
        """Return the findings of its runs.

        Arguments:
            baseline: the baseline run with these settings.
            faulty: the faulty run of this drill.
            unbroken: the run without faults of the coordinator, if bits are compared.
        """
        return Findings(
            engine=self.config.run.engine,
            scheme=f"{self.scheme.name}, {self.scheme.rule}",
            steps=self.steps,
            baseline=baseline,
            faulty=faulty,
            faults=Finder(self.schedule, faulty.event_log, faulty.outcome or {}).findings(),
            same_bits=self._same_bits(faulty, unbroken),
            patience=_PATIENCE * max(1.0, float(self._delays.max())),
            telling=bool(_equals(self.scheme)),
            folder=str(self.out),
        )

    def _same_bits(self, faulty: DrillRun, unbroken: DrillRun | None) -> bool | None:
        if unbroken is None:
            return None
        if faulty.outcome is None or unbroken.outcome is None:
            return False
        one, other = (RunFolder.open(self.out / role).x for role in ("faulty", "unbroken"))
        return np.array_equal(one, other) and faulty.outcome["ends"] == unbroken.outcome["ends"]


def _equals(scheme: Scheme) -> list[list[int]]:
    """Return the groups of at least three workers that send equal messages."""
    code = scheme.code
    content = np.asarray(code.content)
    groups = (sorted({int(worker) for worker in code.owner[content == one]}) for one in np.unique(content))
    return [group for group in groups if len(group) >= 3]

"""Drills: the same run without and with a fault schedule, and verdicts on the difference."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from erasurehead._internal.atomic_files import write_whole
from erasurehead._internal.documents import from_json
from erasurehead._internal.storage.folders import Folder
from erasurehead.drills._coordinator import ENDED, RUN_FILE, SCHEDULE_FILE, Role, journal_file, outcome_file
from erasurehead.drills._findings import Finder
from erasurehead.drills._journal import Journal, merged, recorded
from erasurehead.drills._schedule import KINDS, FaultSchedule, Kind, write_schedule
from erasurehead.drills._supervisor import CommandResult, DrillRun, command_line, run_command
from erasurehead.drills._verdicts import Findings
from erasurehead.errors import EngineError, InvalidArgument, RecordsError, check_count, counted, invalid, real
from erasurehead.faults._byzantine.comparable import check_comparable
from erasurehead.runs import Experiment, RunFolder, build_config
from erasurehead.runs._config.reachable import check_reachable
from erasurehead.runs._config.sections import Config
from erasurehead.runs._config.toml import to_toml
from erasurehead.runs._jsonl import read_lines
from erasurehead.runs._names import STEPS, check_writable, next_free
from erasurehead.schemes import Scheme, parse_scheme

DRILLS = "drills"
"""The default folder for drills."""

SCHEME = "custom(code='fractional_repetition(load=3)', wait='decodable() & confirmed(2)')"
"""Exact, with three replicas of which two must agree, so that lies can be detected."""

_SAMPLE = 400  # number of steps whose waiting is computed in advance
_PATIENCE = 3.0  # factor of the longest delay in these steps: longer silence is beyond doubt
_CHECKPOINTS = 20  # number of checkpoints in a run


@dataclass(frozen=True)
class DrillSettings:
    """The settings of a drill.

    Arguments:
        engine: virtual, processes, mpi or ray.
        workers: number of workers.
        seconds: target duration of the baseline run, by the engine's clock.
        seed: seed of the fault schedule, if it is drawn, and of nothing else.
        kinds: kinds of faults that are drawn.
        scheme: as a text; by default exact with three replicas, two of which must agree.
        data: a data set of the paper, of which a small synthetic stand-in is made, or a file.
        label: column of the file to predict; by default the last one.
        categorical: whether columns of texts in the file are one-hot encoded.
        drop: columns of the file to leave out.
        delays: injected delays, the same in both runs.
        records: whether training ends when it cannot be recorded (`required`), or continues (`optional`).
        on_suspicion: whether workers that seem to hang are only reported (`report`), or replaced (`replace`).
        address: address of a Ray cluster; by default one is started.
    """

    engine: str = "virtual"
    workers: int = 30
    seconds: float = 600.0
    seed: int = 0
    kinds: tuple[Kind, ...] = KINDS
    scheme: str = SCHEME
    data: str = "covertype"
    label: str | None = None
    categorical: bool = False
    drop: tuple[str, ...] = ()
    delays: str = "exponential(mean=0.5, seed=0)"
    records: str = "required"
    on_suspicion: str = "report"
    address: str | None = None

    def config(self) -> Config:
        """Return the run file of the run, without its steps.

        Raises:
            InvalidArgument: if something does not fit.
        """
        synthetic = {"synthetic": "always", "rows": 3000} if self.data in ("amazon", "kc_housing", "covertype") else {}
        table = {"target": self.label, "categorical": self.categorical or None, "drop": self.drop or None}
        own = {key: value for key, value in table.items() if value is not None}
        run = {"engine": self.engine, "workers": self.workers, "records": self.records, "preset": "paper"}
        tables = {
            "scheme": self.scheme,
            "data": {"source": self.data, **synthetic, **own},
            "delays": {"model": self.delays},
            "run": run | ({} if self.address is None else {"address": self.address}),
            "faults": {"verify": True, "on_suspicion": self.on_suspicion},
        }
        if self.engine == "in_process":
            raise InvalidArgument(
                "run.engine",
                "must be an engine whose workers can be struck without the coordinator",
                self.engine,
                "take virtual, processes, mpi or ray",
            )
        config = build_config(tables)
        scheme = parse_scheme(self.scheme, self.workers)
        try:
            check_comparable(scheme.levels[-1] if scheme.levels else scheme.decoder, scheme.rule)
        except InvalidArgument:  # nobody can tell a lie
            comparable = False
        else:
            comparable = not scheme.sums
        return config if comparable else build_config({**tables, "faults": {"on_suspicion": self.on_suspicion}})


class Rehearsal:
    """A prepared run that is to be struck: everything is checked, and nothing has started.

    Arguments:
        settings: its settings.
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

    def __init__(self, settings: DrillSettings, out: str | os.PathLike[str] | None, checkpoints: int) -> None:
        check_count("seed", settings.seed, at_least=0)
        if not (math.isfinite(real(settings.seconds)) and settings.seconds > 0):
            raise invalid("seconds", "must be a positive number of seconds", settings.seconds)
        self.settings = settings
        self.out = next_free(DRILLS, f"{settings.engine}-{settings.seed}") if out is None else Path(out).expanduser()
        if self.out.exists() and (not self.out.is_dir() or any(self.out.iterdir())):
            raise invalid(
                "out",
                "must be an empty folder, or one that does not exist yet",
                str(self.out),
                "name another one, or leave it out for a new one",
            )
        check_writable(self.out, "The drill's folder")
        experiment = Experiment.from_config(settings.config())
        self.scheme = experiment.scheme
        code = self.scheme.code
        work = float(np.mean([len(code.tasks_of_message(message)) for message in range(code.n_messages)]))
        self._delays = experiment.delays.rows(0, _SAMPLE, code.n_workers, work=work)  # of the first steps
        mean = float(np.mean(self.scheme.rule.stop_times(self._delays[:, code.owner], self.scheme.decoder)))
        if not (math.isfinite(mean) and mean > 0):
            raise invalid("delays", "must make each step take a positive, finite time", experiment.config.delays.model)
        self.steps = steps = max(2, math.ceil(settings.seconds / mean))
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
        ranks = 1 + self.settings.workers + kills  # a killed worker takes its rank with it
        words = (str(self.out), name, *map(str, more))
        return run_command(command_line(self.settings.engine, ranks, *words), limit)


class Drill(Rehearsal):
    """A rehearsal under a fault schedule: the same run without and with it.

    Arguments:
        settings: its settings.
        schedule: the fault schedule; drawn from the seed if None.
        out: its folder, which must be unused; by default a new one in `drills`.

    Raises:
        InvalidArgument, DataError: as for `Rehearsal`, or if the schedule does not fit.
    """

    def __init__(
        self, settings: DrillSettings, schedule: FaultSchedule | None = None, out: str | os.PathLike[str] | None = None
    ) -> None:
        super().__init__(settings, out, _CHECKPOINTS)
        self.schedule = self._drawn() if schedule is None else schedule
        for fault in self.schedule.faults:
            if fault.worker is not None and fault.worker >= settings.workers:
                raise invalid("a fault's worker", f"must be less than the {settings.workers} workers", fault.worker)

    def _drawn(self) -> FaultSchedule:
        """Draw a fault schedule that the guarantees cover: lies only where at least three replicas can detect them."""
        settings, groups = self.settings, _equals(self.scheme)
        kinds: Iterable[Kind] = settings.kinds
        if not groups and set(kinds) == {"corrupt"}:
            rule = f"must not be corrupt alone for {self.scheme.name}, where no three workers send the same message"
            raise invalid("kinds", rule, ",".join(kinds), "take a load of at least 3, or other kinds")
        if not groups:
            kinds = tuple(kind for kind in settings.kinds if kind != "corrupt")
        return FaultSchedule.drawn(settings.seed, settings.workers, settings.seconds, kinds, groups)

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
        return self.settings.engine == "virtual" and bool(self.schedule.of("coordinator", "disk_full"))

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
        settings = self.settings
        say(
            {
                "baseline": f"the baseline run: {self.steps} steps, about {settings.seconds:g} s on the engine's clock",
                "faulty": f"the faulty run: {counted('fault', len(self.schedule.faults))}",
                "unbroken": "the faulty run again, without faults of its coordinator",
            }[role]
        )
        limit, schedule = 6 * settings.seconds + 300 if limit is None else limit, self.schedule
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
        run.journal = merged(journal.read(), recorded(self.out / role))
        run.seconds = time.monotonic() - begin
        return run

    def _unexplained(self, code: int, entries: list[dict[str, Any]], output: str) -> str:
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
            engine=self.settings.engine,
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

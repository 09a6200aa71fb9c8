"""Pages of `erasurehead plan`: a plan as plain data, as a table and as sentences, and its files."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from erasurehead._internal.atomic_files import write_whole
from erasurehead._internal.documents import Entries, PlainData
from erasurehead._internal.resources import check_seconds, usable_cores
from erasurehead.cli._output import Screen
from erasurehead.cli._plan_asked import RUN_FILE, TRACE, TaskCost
from erasurehead.cli._plan_cells import band_text, factor_text, places_of, time_text, trial_range, value_text
from erasurehead.cli._plan_data import SampledData
from erasurehead.cli._plan_options import FREE, PlanOptions
from erasurehead.delays import Trace
from erasurehead.errors import counted
from erasurehead.planning import explain, remarks
from erasurehead.planning._explanations import in_short, limits, share_text
from erasurehead.planning._forecasts import Forecast, trace_rounds
from erasurehead.planning._planner import Plan
from erasurehead.planning._racing import after, race
from erasurehead.planning._speed_ups import speed_up_range
from erasurehead.planning._trials import Trial, took
from erasurehead.planning._what_if import by_case, if_worse
from erasurehead.reports._canvas import prepare_folder
from erasurehead.reports._measures import Aim
from erasurehead.reports._units import byte_unit, seconds_text, time_unit
from erasurehead.runs._config import build_config, to_toml
from erasurehead.runs._held_data import HeldData
from erasurehead.runs._jsonl import to_text
from erasurehead.schemes import parse_scheme

PROCESSES = 64
"""Largest number of workers for which a run file uses processes; more would slow each other down on one machine."""

_STAND_IN = {"source": "amazon", "synthetic": "always", "rows": 6000}
_TO_TRAIN_ON_YOURS = 'replace all of [data] by source = "FILE" and target = "COLUMN".'
_MATTERS = 0.1  # share of a step from which the effect of shared cores is mentioned

_TRIED = 3
"""Number of settings after which it is foreseen how long all of them take."""

_LONG = 20.0
"""Seconds from which it is said how long a plan takes."""


def foreseen(what: str, progress: Callable[[int, int], None], screen: Screen) -> Callable[[int, int], None]:
    """Return the progress of a search that says after a few settings how long it takes, or that it takes too long.

    It raises `TooLarge` where it takes longer than allowed.

    Arguments:
        what: what takes that long, as the subject of a sentence.
        progress: called with the number of settings that are done, and how many there are.
        screen: prints how long it takes.
    """
    began = time.monotonic()

    def tell(done: int, of: int) -> None:
        progress(done, of)
        if done == _TRIED and of > done:
            seconds = (time.monotonic() - began) / done * of
            check_seconds(what, seconds, "name the settings to try (--scheme), or plan for fewer workers (--workers)")
            if seconds > _LONG:
                screen.say(f"  it takes about {seconds_text(seconds)} ...")

    return tell


@dataclass(frozen=True)
class Page:
    """A plan with the results of trials on data, if there were any.

    Arguments:
        plan: the plan; if there were trials, ranked by them.
        cost: the cost of a task that it assumes.
        limited: whether larger loads would have been tried if that cost had been known.
        asked: whether the user gave both a target and the task noise of the data.
        trials: trials of its settings on the data.
        goal: metric and value that the trials were to reach.
        sampled: the data on which settings were tried; None without data.
    """

    plan: Plan
    cost: TaskCost
    limited: bool = False
    asked: bool = False
    trials: tuple[Trial, ...] = ()
    goal: Aim | None = None
    sampled: SampledData | None = None

    def tried(self, sampled: SampledData, goal: Aim | None, trying: bool, repeats: int, screen: Screen) -> Page:
        """Try the settings that could be the best on the data, and return the plan ranked by the results.

        Arguments:
            sampled: the data.
            goal: metric and value to reach; None for a gap that exact training reaches in the given number of steps.
            trying: whether to make trials; otherwise, only sizes of data and model are added.
            repeats: number of trials of each setting.
            screen: prints the progress.
        """
        page = replace(self, sampled=sampled)
        if not trying:
            return page
        plan, problem, optimizer, steps = self.plan, sampled.problem, sampled.experiment.optimizer, sampled.steps
        with np.errstate(over="ignore", invalid="ignore"):  # trials that diverge count as not having reached the target
            chosen = goal or sampled.usual_goal(screen)
            rows = "{:,} of {:,} rows".format(*sampled.rows)
            screen.say(f"racing settings to {chosen[0]} {chosen[1]:g} on {rows}, up to {steps} steps ...")
            with screen.counting("trials") as progress:
                trials = race(plan, problem, optimizer, chosen, steps, repeats, progress, sampled.solver)
        return replace(page, plan=after(plan, trials), trials=trials, goal=chosen)

    @property
    def reached(self) -> bool:
        """Whether any setting reaches the target, so that one can be advised."""
        if self.trials:
            return math.isfinite(self.trials[0].median_steps)
        return self.plan.reached

    def trial(self, item: Forecast) -> Trial | None:
        """Return the trial of a setting; None if it was not tried."""
        return next((trial for trial in self.trials if trial.setting == item.setting), None)

    def speed_up(self, item: Forecast, over: Forecast) -> float:
        """Return the speed-up of a setting over another; NaN if either was not tried, or its own trials were ended.

        Arguments:
            item: forecast of the setting.
            over: forecast of the setting to compare with.
        """
        one, other = self.trial(item), self.trial(over)
        if self.trials and (one is None or other is None or one.unfinished):
            return math.nan
        return self.plan.speed_up(item, over)

    def listed(self, top: int) -> tuple[Forecast, ...]:
        """Return the first distinct settings, followed by those that were tried, uncoded and the current one.

        Arguments:
            top: number of the first settings.
        """
        plan = self.plan
        first = {item.setting for item in plan.distinct[:top]}
        differ = {item.setting for item in plan.distinct}
        also = {plan.uncoded.setting, *(trial.setting for trial in self.trials if trial.setting in differ)}
        also |= set() if plan.current is None else {plan.current.setting}
        return tuple(item for item in plan.ranked if item.setting in first | also)

    def facts(self) -> PlainData:
        """Return a plan as plain data: every setting, best first."""
        plan, rows = self.plan, self._rows
        front = {item.setting for item in plan.front}
        return {
            "workers": plan.n_workers,
            "delays": str(plan.delays),
            "late": plan.late,
            "seconds_per_task": plan.seconds_per_task,
            "seconds_per_task_from": self.cost.known_from,
            "best": plan.best.setting if self.reached else None,
            "held": None if self._held is None else asdict(self._held),
            "goal": None if self.goal is None else {"metric": self.goal[0], "value": self.goal[1]},
            "error": None if plan.target is None else plan.target.epsilon,
            "advice": explain(plan, self.trials, self.goal).splitlines(),
            "accuracy": {"gap": plan.accuracy.gap, "task_noise": plan.accuracy.noise},
            "effective_rounds": trace_rounds(plan.delays),
            "rows": None if rows is None else {"tried": rows[0], "of": rows[1]},
            "cases": [
                {
                    "data": kind,
                    "gap": accuracy.gap,
                    "task_noise": accuracy.noise,
                    "best": item.setting if math.isfinite(item.steps) else None,
                    "seconds": item.seconds_to_target,
                }
                for kind, accuracy, item in (by_case(plan) if self._by_case else ())
            ],
            "as_good": [item.setting for item in plan.as_good()],
            "settings": [self._row(place, item, item.setting in front) for place, item in enumerate(plan.ranked, 1)],
        }

    def _row(self, place: int, item: Forecast, on_front: bool) -> PlainData:
        plan, trial, sampled = self.plan, self.trial(item), self.sampled
        speed_up = self.speed_up(item, plan.uncoded)
        return {
            "place": place,
            "setting": item.setting,
            "load": item.load,
            "seconds_per_step": item.seconds_per_step,
            "standard_error": item.error,
            "missing": item.missing,
            "arrived": item.arrived,
            "steps": item.steps,
            "steps_bound": item.bound,
            "least_counted": item.least_counted,
            "never_counted": list(item.neglected),
            "unanswered": item.unanswered,
            "seconds_to_target": item.seconds_to_target,
            "band": list(item.band),
            "speed_up_over_uncoded": speed_up,
            "speed_up_over_uncoded_range": None
            if math.isnan(speed_up)
            else list(speed_up_range(plan, item, plan.uncoded, self.trials)),
            "speed_up_over_current": None if plan.current is None else self.speed_up(item, plan.current),
            "share_of_data": item.share_of_data,
            "bytes_of_data": None if sampled is None else round(item.share_of_data * sampled.bytes_of_data),
            "messages": item.messages,
            "bytes_sent": None if sampled is None else item.bytes_per_worker(sampled.n_parameters),
            "pareto": on_front,
            "limits": limits(plan, item),
            "trial": None
            if trial is None
            else {
                "seconds": took(item, trial),
                "steps": trial.expected_steps,
                "band": list(trial_range(item, trial)),
                "reached": trial.reached,
                "final": list(trial.final),
                "given_up": trial.given_up,
            },
        }

    def table(self, top: int) -> Table:
        """Return the ranking as a table: the first settings, those that were tried, uncoded and the current one.

        Arguments:
            top: number of the first settings.
        """
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        columns = self._columns(self.listed(top))
        for header, _ in columns:
            table.add_column(header, justify="left" if header == "Setting" else "right", overflow="fold")
        for cells in zip(*(cells for _, cells in columns), strict=True):
            table.add_row(*map(Text, cells))
        return table

    def _columns(self, items: Sequence[Forecast]) -> list[tuple[str, list[str]]]:
        plan = self.plan
        step = time_unit([item.seconds_per_step for item in items])
        whole = time_unit([item.seconds_to_target for item in items])
        what = "To target" if plan.target is not None else "As 1 exact\nstep"
        columns = [
            ("", [f"{place}" for place in places_of(plan, items)]),
            ("Setting", [item.setting for item in items]),
            (f"Per step\n({step.name})", [value_text(step, item.seconds_per_step) for item in items]),
            ("Gradient\nlost (%)", [f"{100 * item.missing:.1f}" for item in items]),
        ]
        if self.goal is None:
            columns.append((f"{what}\n({whole.name})", [value_text(whole, item.seconds_to_target) for item in items]))
            columns.append(("95% band", [band_text(whole, item.band) for item in items]))
        else:
            tried = [self.trial(item) for item in items]
            times = [None if trial is None else took(item, trial) for item, trial in zip(items, tried, strict=True)]
            unit = time_unit(times)
            header = f"To {self.goal[0]}\n{self.goal[1]:g} ({unit.name})"
            columns.append((header, [time_text(unit, *pair) for pair in zip(times, items, tried, strict=True)]))
            ranges = [
                "" if trial is None or trial.unfinished else band_text(unit, trial_range(item, trial))
                for item, trial in zip(items, tried, strict=True)
            ]
            columns.append(("range", ranges))
        if plan.target is not None:
            bounds = [item.bound * item.seconds_per_step for item in items]
            columns.append((f"Theorem 1:\nat most ({whole.name})", [value_text(whole, seconds) for seconds in bounds]))
        columns.append(("× un-\ncoded", [factor_text(self.speed_up(item, plan.uncoded)) for item in items]))
        if plan.current is not None:
            columns.append(("× cur-\nrent", [factor_text(self.speed_up(item, plan.current)) for item in items]))
        return columns + self._sizes(items)

    def _sizes(self, items: Sequence[Forecast]) -> list[tuple[str, list[str]]]:
        if self.sampled is None:
            counts = [item.messages / item.pieces for item in items]
            sent = [f"{count:.3g} gradient{'s' if count > 1.0 else ''}" for count in counts]
            return [("Data per\nworker", [share_text(item.share_of_data) for item in items]), ("Sent per\nstep", sent)]
        data_bytes = [item.share_of_data * self.sampled.bytes_of_data for item in items]
        sent = [float(item.bytes_per_worker(self.sampled.n_parameters)) for item in items]
        memory, network = byte_unit(data_bytes), byte_unit(sent)
        return [
            (f"Data per worker\n({memory.name})", [memory.write(value) for value in data_bytes]),
            (f"Sent per step\n({network.name})", [network.write(value) for value in sent]),
        ]

    def why(self, top: int) -> str:
        """Return what limits each setting of the table, one line per setting.

        Arguments:
            top: number of the first settings, as in `table`.
        """
        items, lines = self.listed(top), ["What limits each:"]
        for place, item in zip(places_of(self.plan, items), items, strict=True):
            trial = self.trial(item)
            early = " Its trials were ended early, because others were far quicker."
            ended = "" if trial is None or not trial.unfinished else early
            lines.append(f"  {place:>3}  {limits(self.plan, item)}{ended}")
        return "\n".join(lines)

    @property
    def _held(self) -> HeldData | None:
        """What the redundant data of the best setting cost; None without data, or where no task is held twice."""
        if self.sampled is None or not self.reached:
            return None
        return HeldData.by(parse_scheme(self.plan.best.setting, self.plan.n_workers).code, self.sampled.data)

    def advice(self, explained: bool) -> list[str]:
        """Return lines on which setting to take, and what a user should know before relying on that.

        Arguments:
            explained: whether to say why the best one is chosen, what would change that, and what is not known.
        """
        plan, goal, trials = self.plan, self.goal, self.trials
        lines = explain(plan, trials, goal).splitlines()
        if not explained:
            lines = [lines[0], *remarks(plan, trials, goal)]
        lines += [] if self._held is None else [f"What that takes: {self._held}."]
        lines += self._about_cost()
        if trials and self._on_a_sample:
            lines.append(f"{self._on_a_sample}; training on all of them may take more steps or fewer.")
        worse = if_worse(plan)
        if worse.holds:
            compared = "would still be the best choice"
        else:
            compared = f"would need {worse.longer} to the target as the best choice in that case, {worse.best.setting}"
        lines.append(
            "If delays exceeded their median by twice as much, the recommended setting would take "
            f"{worse.advised.seconds_per_step:.4g} s a step, and {compared}."
        )
        if explained:
            lines += ["", *in_short(plan, trials, goal)]
        if not self._by_case:
            return lines
        lines += ["", "The best setting for other targets and data (--target gap=..., --task-noise ...):"]
        for kind, accuracy, item in by_case(plan):
            best = item.setting if math.isfinite(item.steps) else "no setting that was tried"
            lines.append(f"  gap={accuracy.gap:<6g} {kind:<22} (--task-noise {accuracy.noise:g}): {best}")
        return lines

    def nothing(self) -> list[str]:
        """Return sentences on why nothing is advised, how close the best setting gets, and what would do."""
        sample = f" {self._on_a_sample}." if self._on_a_sample else ""
        lines = ["No setting is recommended, and no run file is written." + sample]
        return [*lines, *remarks(self.plan, self.trials, self.goal), *self._about_cost()]

    @property
    def _by_case(self) -> bool:
        """Whether the best setting depends on a target and a kind of data that the user has not named."""
        return self.goal is None and self.plan.target is None and not self.asked

    @property
    def _rows(self) -> tuple[int, int] | None:
        return None if self.sampled is None else self.sampled.rows

    @property
    def _on_a_sample(self) -> str:
        """Say on how many rows settings were tried, if not on all, without a full stop; else empty."""
        if self._rows is None or self._rows[0] >= self._rows[1]:
            return ""
        return "Trials were made on a sample of {:,} of {:,} rows (--sample)".format(*self._rows)

    def _about_cost(self) -> list[str]:
        """Return sentences on what a user should know about the cost of a task that the plan assumes."""
        if self.cost.known_from == "measured":
            text = f"A task takes {seconds_text(self.cost.seconds)} on this machine"
            return [f"{text} (--seconds-per-task {self.cost.seconds:g}; give another value if your workers differ)."]
        if self.cost.known_from is not None or not self.limited:
            return []
        measured = "" if self.sampled is not None else ", have it measured with --data"
        return [
            f"No setting with more than {FREE} tasks a worker was tried, because the computing time of a task is not "
            f"known: give it with --seconds-per-task{measured}, or try larger loads anyway with --max-load."
        ]

    def write(self, place: Path, facts: Entries, trace: Trace | None, asked: PlanOptions, screen: Screen) -> list[Path]:
        """Write all files of a plan, and return their paths.

        Arguments:
            place: the folder.
            facts: the page as plain data.
            trace: the trace from which delays are drawn, if there is one.
            asked: options of the command for the run file.
            screen: prints a warning if there is no picture.
        """
        prepare_folder(place, "private")
        tables = self._run_tables(asked)
        build_config(tables)  # checks that the run file will be valid
        head = f"# Made by erasurehead plan. To run it: erasurehead train {place / RUN_FILE}\n"
        if asked.data is None:
            head += (
                "# No data were given: synthetic data like the paper's are used. To train on yours, "
                f"{_TO_TRAIN_ON_YOURS}\n"
            )
        files = [place / RUN_FILE, place / "plan.json"]
        write_whole(files[0], [f"{head}{to_toml(tables)}".encode()])
        write_whole(files[1], [to_text(facts).encode()])
        if trace is not None:
            trace.write(place / TRACE)
            files.append(place / TRACE)
        if asked.figures:
            from erasurehead.planning._pictures import draw_plan

            with screen.drawing("picture"):
                files += draw_plan(self.plan, place, trials=self.trials, goal=self.goal)
        return files

    def last_words(self, files: list[Path], place: Path, asked: PlanOptions) -> str:
        """Return sentences on what was written, how to run it, and how the run may differ from the prediction.

        Arguments:
            files: the files written.
            place: their folder.
            asked: options of the command.
        """
        plan, lines = self.plan, [f"{', '.join(path.name for path in files)} in {place}"]
        if asked.data is None:
            lines.append(
                "The run file trains on a synthetic stand-in of the paper's data; to train on yours, "
                f"{_TO_TRAIN_ON_YOURS}"
            )
        engine = self._run_tables(asked)["run"]["engine"]
        if asked.engine is None and engine == "virtual":
            lines.append(
                f"It runs on a virtual clock, because {plan.n_workers:,} processes are too many for one machine."
            )
        if engine == "processes" and plan.seconds_per_task > 0.0:
            lines.append(
                "On processes, computing takes as long as it takes; --engine virtual counts "
                f"{plan.seconds_per_task:g} s a task, as the plan does."
            )
            cores, alone = usable_cores(), plan.seconds_per_task * plan.best.load
            together = alone * plan.n_workers / cores
            if plan.n_workers > cores and together - alone > _MATTERS * plan.best.seconds_per_step:
                lines.append(
                    f"{plan.n_workers} processes of this machine share {counted('core', cores)}: "
                    f"computing a step takes them {seconds_text(together)} together; the plan assumes "
                    f"{seconds_text(alone)}, as for workers with a core each."
                )
        return "\n".join([*lines, f"erasurehead train {place / RUN_FILE}"])

    def _run_tables(self, asked: PlanOptions) -> PlainData:
        """Return the run file of the best setting: the plan's delays and workers, and the user's options."""
        given = asked.tables()
        kept = ("problem", "optimizer", "checkpoints", "faults")
        sections: dict[str, Entries] = {key: given[key] for key in kept if key in given}
        sections["data"] = _STAND_IN
        if asked.data is not None:
            own = Path(asked.data).expanduser()
            sections["data"] = {**given["data"], **({"source": str(own.absolute())} if own.is_file() else {})}
        run = {key: value for key, value in given.get("run", {}).items() if key not in ("out", "overwrite", "workers")}
        engine = "processes" if self.plan.n_workers <= PROCESSES else "virtual"
        return self.plan.run_file(None, **sections, run={"engine": engine, **run})

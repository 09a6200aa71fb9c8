"""Several schemes on the same data, delays and first model: what `erasurehead compare` runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from erasurehead._internal.atomic_files import write_whole, writing
from erasurehead._internal.documents import Entries
from erasurehead._internal.storage.folders import Folder
from erasurehead.datasets._published.public import NAMES
from erasurehead.errors import Diverged, Unreachable, counted
from erasurehead.reports._descents import GAPS, Descent, descent_markdown
from erasurehead.reports._measures import Aim, numbered_names
from erasurehead.reports._panels import ComparedRuns
from erasurehead.reports._rendering import to_html, to_markdown
from erasurehead.runs._alone import Alone, alone
from erasurehead.runs._config.checking import as_config
from erasurehead.runs._config.resolving import PUBLISHED_DELAYS, check_target, resolve, settled
from erasurehead.runs._config.sections import Config
from erasurehead.runs._descents import Models, Objectives, descents
from erasurehead.runs._experiment import Experiment
from erasurehead.runs._heard_once import HeardOnce, heard_once
from erasurehead.runs._jsonl import to_text
from erasurehead.runs._names import COMPARISON, FIGURES, RUNS, TABLE, check_free, make_folder, next_free
from erasurehead.runs._outcome import Outcome, say_heard_once
from erasurehead.runs._summaries import describe
from erasurehead.runs._targets import check_metric, common_target, parse_target
from erasurehead.schemes import parse_scheme
from erasurehead.schemes._text import by_speed, deals_by_speed, paper_schemes
from erasurehead.training import Callback, Run
from erasurehead.training._callbacks import check_callbacks

_SOLVER, _PATIENT = "quasi_newton", "adaptive, waiting for all"

_LEAST_LIMIT = 10.0  # processor seconds in which the minima of parts of the data may be sought

ALONE = "One core of this machine alone, with all data, no workers and no delays:"


@dataclass(frozen=True, eq=False)
class Comparison:
    """Prepared runs of several schemes on the same data, delays and first model.

    Arguments:
        experiments: one per scheme; each records into its own folder in `folder`.
        folder: folder of the comparison.
        target: metric and value to reach; None to choose one when the runs are done.
    """

    experiments: tuple[Experiment, ...]
    folder: Path
    target: Aim | None = None

    def __repr__(self) -> str:
        return f"Comparison({self.title}: {', '.join(one.scheme.name for one in self.experiments)})"

    @classmethod
    def from_config(
        cls,
        config: Config | Entries,
        schemes: Sequence[str] = (),
        target: str | None = None,
        starting: Callable[[str], None] = lambda what: None,
    ) -> Comparison:
        """Check everything, and load the data once.

        Arguments:
            config: settings of all runs, as for `Experiment`. By default delays are those of the published experiments,
                and synthetic data stand in for the paper's data sets where these are not available. Speeds are for
                those schemes that can go by them.
            schemes: texts; by default the scheme of the configuration and `uncoded`, or those of the paper. Where
                `adaptive` stands beside schemes with another optimizer, its own is also run waiting for everybody: so
                one sees what is gained by not waiting, and what by the optimizer.
            target: such as `"auc=0.84"`.
            starting: called with what is done next and may take a while, when everything else has been checked.

        Raises:
            InvalidArgument: if something does not fit; the error names the key.
            DataError: if the data cannot be used, or this machine has no memory for the workers.
        """
        config = _with_defaults(as_config(config))
        run = settled(config, schemes)
        workers = run.workers
        if (speeds := run.speeds) is not None:
            some = any(map(deals_by_speed, schemes))  # and the others stay as they are
            schemes = [by_speed(text, speeds) if deals_by_speed(text) or not some else text for text in schemes]
            schemes = schemes or ("uncoded()", by_speed(config.scheme, speeds))
            run = run.model_copy(update={"speeds": None})
            config = config.model_copy(update={"run": run})
        texts = tuple(schemes) or (("uncoded()", config.scheme) if config.scheme else paper_schemes(workers))
        goal = None if target is None else parse_target(target)
        resolved = [resolve(config.model_copy(update={"scheme": text}), run) for text in texts]
        if goal is not None:
            check_target(config, goal[0])
        first = Experiment.of(resolved[0], starting)
        folder = Path(config.run.out) if config.run.out else next_free(RUNS, f"compare-{first.data.name}")
        check_free(folder, config.run.overwrite)
        if not (schemes or config.scheme) and first.config.run.workers != workers:  # fewer, as there are few samples
            workers = first.config.run.workers
            texts = paper_schemes(workers)
        names = _names(texts, workers)
        experiments = [
            first.with_scheme(text, folder / place, name)
            for text, name, place in zip(texts, names, _places(names), strict=True)
        ]
        optimizers = {experiment.config.optimizer.name for experiment in experiments}
        if len(optimizers) > 1 and _SOLVER in optimizers:
            asked = first.resolved.asked
            asked = asked.model_copy(update={"optimizer": config.optimizer.model_copy(update={"name": _SOLVER})})
            patient = replace(first, resolved=replace(first.resolved, asked=asked))
            experiments.append(patient.with_scheme("uncoded()", folder / _places([_PATIENT])[0], _PATIENT))
        if goal is not None:
            check_metric(goal, first)
        return cls(tuple(experiments), folder, goal)

    def run(self, callbacks: Sequence[Callback] = ()) -> Trained:
        """Run one scheme after another; after Ctrl-C the rest is left out.

        A scheme that cannot be trained to the end does not prevent the others from running: its run is returned, up to
        where it ended, and `stopped` says why.

        Arguments:
            callbacks: hooks that watch every run.

        Raises:
            EngineError: if workers do not start; the records so far are in the folder.
        """
        section = self.experiments[0].config.run
        check_callbacks(callbacks)
        make_folder(self.folder, section.overwrite, section.access)
        runs: list[Run] = []
        objectives: list[Objectives | None] = []
        for experiment in self.experiments:
            last, models, failed = _Last(), Models(experiment), False
            try:
                runs.append(experiment.run([*callbacks, last, models]))
            except (Unreachable, Diverged):
                if last.run is None:  # it was not training that failed
                    raise
                runs.append(last.run)
                failed = True
            objectives.append(models.objectives(experiment.problem))
            if runs[-1].stopped and not failed:
                break
        return Trained(self, tuple(runs), tuple(objectives))

    @property
    def title(self) -> str:
        """What is compared, in one line."""
        first = self.experiments[0]
        return f"{first.data.name}, {first.config.delays.model}, {first.config.delays.late}"

    @property
    def where(self) -> str:
        """Where the runs ran, and the cost of computing there, in one line without a full stop."""
        section = self.experiments[0].config.run
        if section.engine != "virtual":
            return f"Engine: {section.engine}, {counted('worker', section.workers)}; computation times are real"
        price = f"{section.seconds_per_task:g} s a task" if section.seconds_per_task else "no time"
        return f"Engine: virtual, {counted('worker', section.workers)}; on its clock computing takes {price}"


@dataclass(frozen=True, eq=False)
class Trained:
    """The runs of a comparison, before they are compared.

    Attributes:
        comparison: the comparison that was run.
        runs: one per scheme, at least one; schemes that were left out after an interruption are missing.
        objectives: objectives of the models along each run; None if samples are out of reach here.
    """

    comparison: Comparison
    runs: tuple[Run, ...]
    objectives: tuple[Objectives | None, ...]

    def __repr__(self) -> str:
        return f"Trained({self.comparison.title}: {', '.join(run.scheme for run in self.runs)})"

    def _repr_html_(self) -> str:
        return to_html(self.compared.rows, self.comparison.title)

    @property
    def compared(self) -> ComparedRuns:
        """The runs beside each other, by the target of `goal`."""
        return ComparedRuns.of(self.runs, self.goal())

    def plot(self, ax: Any = None, kind: str = "progress") -> Any:
        """Draw the runs, as `ComparedRuns.plot` does, and return the axes.

        Arguments:
            ax: where to draw; by default in a new figure.
            kind: `"progress"`, `"step_times"` or `"speed_up"`.

        Raises:
            InvalidArgument: if there is no such picture, or `ax` is something else.
            MissingExtra: if matplotlib is not installed.
        """
        return self.compared.plot(ax, kind)

    def goal(self) -> Aim | None:
        """Return the target: the given one, or one that all complete runs have reached.

        None where a run was stopped before anything was measured.
        """
        ended = [run for run in self.runs if not run.stopped]
        given = self.comparison.target
        if given is not None and all(run.evaluations or not run.stopped for run in self.runs):
            return given
        return common_target(ended or self.runs, self._metric()) if given is None else None

    def alone(self, seconds: float) -> list[Alone]:
        """Return how long the same problem takes on this machine alone, without workers and delays.

        Arguments:
            seconds: limit of processor seconds, such as the comparison itself took.
        """
        return alone(self.comparison.experiments[0], self.goal(), max(1.0, seconds))

    def report(self, formats: Sequence[str] = ("png", "svg"), alone: Sequence[Alone] = ()) -> Outcome:
        """Compare the runs, and write table and figures into the folder.

        Arguments:
            formats: formats of the figures; empty for no figures.
            alone: the result of `alone`, to be stored with the comparison.

        Raises:
            MissingExtra: if figures are wanted and matplotlib is not installed.
        """
        comparison, compared = self.comparison, self.compared
        folder, experiments, title = comparison.folder, comparison.experiments, comparison.title
        section = experiments[0].config.run
        virtual = section.engine == "virtual"
        fell = descents(compared.names, self.objectives, self._least(alone), virtual)
        pays, heard = self._pays(alone, fell), self._heard_once(alone, fell)
        text = f"{title}\n\n{comparison.where}.\n\n{to_markdown(compared.rows)}"
        if fell:
            text += f"\n{descent_markdown(fell)}"
        if alone:
            text += f"\n{ALONE}\n\n" + "".join(f"- {one}\n" for one in alone)
        text += "".join(f"\n{one}\n" for one in (pays, say_heard_once(heard)) if one)
        write_whole(folder / TABLE, [text.encode()], section.access)
        figures: list[Path] = []
        if formats:
            with writing(folder / FIGURES), Folder.open(folder, section.access) as opened:
                opened.inside(FIGURES, make=True).close()  # and no link to elsewhere
            figures = compared.draw(folder / FIGURES, formats, title, section.access, fell)
        folders = [experiment.out for experiment in experiments[: len(self.runs)] if experiment.out is not None]
        drawn = tuple(folders), tuple(figures)
        outcome = Outcome(title, compared, folder, *drawn, tuple(alone), tuple(fell), pays, heard)
        facts = {
            "data": describe(experiments[0].data),
            "engine": section.engine,
            "workers": section.workers,
            "seconds_per_task": section.seconds_per_task if virtual else None,
            **outcome.as_dict(),
        }
        write_whole(folder / COMPARISON, [to_text(facts).encode()], section.access)
        return outcome

    def _pays(self, alone: Sequence[Alone], fell: Sequence[Descent]) -> str:
        """Say how long a pass over the data must take one machine for distributing to pay; empty if that is not known.

        Arguments:
            alone: how long the same problem takes on one machine.
            fell: how near each run came to the least objective, and when.
        """
        own = next((one for one in alone if one.objectives), None)
        low, first = self._least(alone), self.objectives[0]
        fell = [one for one, tried in zip(fell, self.comparison.experiments, strict=False) if _shared(tried)]
        if own is None or low is None or first is None or not fell:
            return ""
        span = float(first.values[0]) - low
        for gap in sorted(GAPS):
            passes = next((count for count, value in enumerate(own.objectives, 1) if value - low <= gap * span), None)
            times = [(seconds, one.scheme) for one in fell if (seconds := one.seconds_to(gap)) is not None]
            if passes is not None and times:
                break
        else:
            return ""
        seconds, scheme = min(times)
        equal, mean = seconds / passes, self.comparison.experiments[0].delays.expected
        beside = f", {equal / mean:.2g} times the mean delay" if mean else ""
        return (
            f"To a gap of {gap:g} one machine takes {counted('gradient', passes)} of all data, and {scheme} "
            f"{seconds:.3g} s. With these delays distributing can pay only where a pass takes one machine more than "
            f"about {equal:.2g} s{beside}; here it takes {own.seconds / len(own.objectives):.2g} s."
        )

    def _heard_once(self, alone: Sequence[Alone], fell: Sequence[Descent]) -> dict[float, HeardOnce]:
        """Return how soon each gap can be reached at the earliest, as far as that can be found in a few seconds."""
        own, low = next((one for one in alone if one.objectives), None), self._least(alone)
        if own is None or low is None or not fell:
            return {}
        experiments = self.comparison.experiments
        section, n_tasks = experiments[0].config.run, experiments[0].scheme.code.n_tasks
        virtual = (section.seconds_per_task or 0.0) * n_tasks
        spent = own.seconds / len(own.objectives) if section.engine != "virtual" else virtual
        named = {one.scheme: experiment for one, experiment in zip(fell, experiments, strict=False)}
        return heard_once(named, low, spent, max(_LEAST_LIMIT, own.seconds))

    def _least(self, alone: Sequence[Alone]) -> float | None:
        """Return the least objective there is; None if nothing has come down to it."""
        objectives = [one.objective for one in alone if one.converged]
        objectives += [run.final.objective for run in self.runs if run.ended == "converged" and run.final is not None]
        return min((value for value in objectives if value is not None), default=None)

    def _metric(self) -> str | None:
        published = self.comparison.experiments[0].data.published
        return None if published is None else published.metric


def _shared(experiment: Experiment) -> bool:
    """Return whether workers share the computing of a step: not if each computes a message about all of the data."""
    code = experiment.scheme.code
    return any(len(code.tasks_of_message(message)) < code.n_tasks for message in range(code.n_messages))


def _with_defaults(config: Config) -> Config:
    """Return a configuration with what comparisons have by default: published delays, workers, stand-ins for data."""
    delays = config.delays.model_copy(update={"model": config.delays.model or PUBLISHED_DELAYS})
    run = config.run.model_copy(update={"engine": config.run.engine or "processes"})  # schemes are about workers
    data = config.data
    if data.synthetic is None and data.source in NAMES:
        data = data.model_copy(update={"synthetic": "fallback"})
    return config.model_copy(update={"delays": delays, "run": run, "data": data})


class _Last(Callback):
    """Keeps the run as it ended, also if it ended with an exception."""

    def __init__(self) -> None:
        self.run: Run | None = None

    def on_end(self, run: Run) -> None:
        self.run = run


def _names(texts: Sequence[str], workers: int) -> list[str]:
    """Return labels for the schemes: their names, or their texts where several have the same name."""
    names = [parse_scheme(text, workers).name for text in texts]
    total = Counter(names)
    return [name if total[name] == 1 else text for name, text in zip(names, texts, strict=True)]


def _places(names: Sequence[str]) -> list[str]:
    """Return a folder name for each: letters, digits and a few signs, and no two equal."""
    plain = [re.sub(r"[^A-Za-z0-9._=-]+", "-", name).strip("-.") for name in names]
    return numbered_names(plain, "{}-{}")

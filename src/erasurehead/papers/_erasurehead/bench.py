"""Where the paper's experiments are run: each data set is loaded once, each training run made once."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path

from erasurehead.datasets import Dataset
from erasurehead.datasets._published.public import where
from erasurehead.delays import Delays, Exponential
from erasurehead.delays._fixed import NoDelay
from erasurehead.papers._erasurehead.published import DELAYS_MEAN, N_WORKERS, TITLES, UNCODED, Method
from erasurehead.papers._reproduction import ReproductionSettings
from erasurehead.planning._task_times import TaskTimes, measure_tasks
from erasurehead.reports._units import seconds_text
from erasurehead.runs import Experiment
from erasurehead.runs._config.sections import Config, DataSection, DelaysSection, RunSection
from erasurehead.training import Run


class Bench:
    """One data set with the published settings, and the runs that were made on it.

    Arguments:
        name: name of the data set.
        settings: settings of the reproduction.
    """

    def __init__(self, name: str, settings: ReproductionSettings) -> None:
        self.name, self.settings = name, settings
        self._runs: dict[tuple[Method, bool, int], Run] = {}

    @cached_property
    def experiment(self) -> Experiment:
        """Data, problem and hyper-parameters as published."""
        chosen = self.settings
        section = DataSection(source=self.name, path=chosen.path, synthetic=chosen.synthetic, rows=chosen.rows)
        run = RunSection(engine=chosen.engine, workers=N_WORKERS, steps=chosen.steps, preset="paper")
        config = Config(scheme=UNCODED.text, data=section, delays=DelaysSection(model="none()"), run=run)
        return Experiment.from_config(config)

    @cached_property
    def tasks(self) -> TaskTimes:
        """How long tasks take on this machine."""
        return measure_tasks(self.experiment.problem, N_WORKERS)

    @property
    def metric(self) -> str:
        """What is measured on the test rows: test AUC, or test MSE."""
        published = self.experiment.data.published
        assert published is not None  # every data set of the paper has them, and so has its synthetic stand-in
        return published.metric

    @property
    def is_synthetic(self) -> bool:
        """Whether the data are synthetic."""
        data = self.experiment.data
        return isinstance(data, Dataset) and data.synthetic

    @property
    def kind(self) -> str:
        """Whether the data are real, in a few words."""
        if self.is_synthetic:
            return "synthetic stand-in"
        return "part of the real data" if self.part else "real data"

    @property
    def title(self) -> str:
        """The data set's name, and whether it is real."""
        return f"{TITLES[self.name]} ({self.kind})"

    @property
    def described(self) -> str:
        """The data in a sentence."""
        data = self.experiment.data
        shape = f"{data.n_train:,} rows x {data.n_columns:,} columns for training, {data.n_test:,} rows for testing"
        if self.is_synthetic:
            return f"Data, {TITLES[self.name]}: not real, but a {data.source}; {shape}."
        part = f" ({self.part})" if self.part else ""
        return f"Data, {TITLES[self.name]}: real, {Path(data.source).name}{part}; {shape}."

    def run(self, method: Method, delayed: bool, seed: int = 0) -> Run:
        """Train, or return the run if it was made before.

        Arguments:
            method: the scheme to train with.
            delayed: whether to inject the published delays.
            seed: seed of the delays, or of this machine's jitter on the virtual clock.

        Raises:
            KeyboardInterrupt: if the user stopped the run.
        """
        key = method, delayed, seed
        if key not in self._runs:
            self._runs[key] = self._train(method, delayed, seed)
        return self._runs[key]

    def delays(self, delayed: bool, seed: int) -> Delays:
        """Return the delays that are added to the computing time of each message."""
        if delayed:
            return Exponential(mean=DELAYS_MEAN, seed=seed)
        return self.tasks.jitter(seed) if self.settings.engine == "virtual" else NoDelay()

    def seconds_per_task(self, delayed: bool) -> float:
        """Return what a task costs on the virtual clock; on processes a task takes as long as it takes."""
        if self.settings.engine != "virtual":
            return 0.0
        return self.tasks.typical if delayed else self.tasks.fastest

    def _train(self, method: Method, delayed: bool, seed: int) -> Run:
        planned = self.experiment.with_scheme(method.text, None, method.label)
        section = planned.config.run.model_copy(update={"seconds_per_task": self.seconds_per_task(delayed)})
        config = planned.config.model_copy(update={"run": section})
        run = replace(planned, config=config, delays=self.delays(delayed, seed)).run(self.settings.callbacks)
        if run.stopped:
            raise KeyboardInterrupt
        run.arrivals = ()  # there are many, and no exhibit needs them
        return run

    @cached_property
    def part(self) -> str:
        """Which part of the real data is available; empty if all of it is, or none."""
        return "" if self.is_synthetic else where(self.name, self.settings.path).part

    def conditions(self, delayed: bool, seeds: int = 1) -> list[str]:
        """Return the conditions to state for its runs, one sentence each: data, delays, late work, computing."""
        settings = self.settings
        virtual = settings.engine == "virtual"
        which = "seed 0" if seeds == 1 else f"seeds 0 to {seeds - 1}"
        if delayed:
            injected = (
                f"Delays: each message exponential with mean {DELAYS_MEAN:g} s, whatever the load, {which}; the same "
                "for all methods."
            )
        elif virtual:
            injected = (
                "Delays: none injected; the only stragglers are those among the task times measured here, which are "
                "more the busier the machine is. For real ones: --engine processes."
            )
        else:
            injected = f"Delays: none injected; {N_WORKERS} processes share this machine's cores."
        return [
            self.described,
            injected,
            "Late work is dropped when the next step begins (preempt): each step finds idle workers, as the paper "
            "assumes.",
            f"{N_WORKERS} workers, {settings.engine} engine, {settings.steps} steps of the published accelerated "
            "gradient descent with the step sizes of Table 1; ErasureHead's sum is not rescaled (Algorithm 1).",
            *([self._computing(delayed, which)] if virtual else []),
        ]

    def _computing(self, delayed: bool, which: str) -> str:
        """Return what a task costs on the virtual clock."""
        title, tasks = TITLES[self.name], self.tasks
        cost = seconds_text(self.seconds_per_task(delayed))
        if delayed:
            return f"Computing, {title}: c x {cost} a step, the median of all tasks measured on this machine."
        most = seconds_text(float(tasks.table.max() - tasks.fastest))
        typical = seconds_text(tasks.typical - tasks.fastest)
        return (
            f"Computing, {title}: c x {cost} a step, the quickest task measured on this machine, and for each message "
            f"one of the measured excesses over it (median {typical}, largest {most}, {which}); sending costs nothing."
        )

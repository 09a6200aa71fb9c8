"""Runs in Weights & Biases: on this machine, unless somebody wants them to be sent."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal
from uuid import uuid4

from erasurehead.errors import check_choice, invalid
from erasurehead.trackers._tracked_run import Point, TrackedRun
from erasurehead.trackers._tracker import Tracker, place

_MODES = ("offline", "online")
_NEVER = "/\\#?%:"  # signs that it refuses in names
_LONGEST = 128
_NAME = f"must be a name of 1 to {_LONGEST} characters"


class WandB(Tracker):
    """Shows runs in Weights & Biases; `wandb sync FOLDER` sends what was kept on this machine.

    Each row has the step and the `seconds` of the run's own clock, either of which can be the axis.

    Arguments:
        project: its name there.
        mode: `"offline"` writes into the folder `wandb` and touches no network; `"online"` sends.
        files: whether settings, summary and evaluations of the run's folder are kept with it.
        patience: see `Tracker`.
    """

    package: ClassVar[str] = "wandb"

    def __init__(
        self,
        project: str = "erasurehead",
        mode: Literal["offline", "online"] = "offline",
        *,
        files: bool = False,
        patience: float = 30.0,
    ) -> None:
        super().__init__(patience, files)
        if len(project := place("project", project, _NAME)) > _LONGEST:
            raise invalid("project", _NAME, project)
        if {*project} & {*_NEVER}:
            raise invalid("project", f"must be a name without the characters {' '.join(_NEVER)}", project)
        check_choice("mode", mode, _MODES)
        self._project, self._mode = project, mode

    def __str__(self) -> str:
        return f"wandb={self._project}"

    def open(self, run: TrackedRun, known: str) -> str:
        """Begin a run, or go on with one."""
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # to its makers
        wandb: Any = import_module("wandb")
        known = known or uuid4().hex[:12]
        quiet = wandb.Settings(
            silent=True,
            console="off",
            disable_git=True,
            save_code=False,
            x_disable_meta=True,
            x_disable_stats=True,
            x_disable_machine_info=True,
        )
        self._run = wandb.init(
            project=self._project,
            mode=self._mode,
            id=known,
            resume="allow",
            reinit="create_new",
            name=run.name,
            group=run.group or None,
            config=dict(run.settings),
            settings=quiet,
        )
        self._run.define_metric("*", step_metric="step")
        return known

    def write(self, points: Sequence[Point]) -> None:
        """Add rows: numbers, and notices as texts."""
        for point in points:
            said = {f"notice/{point.kind}": point.text} if point.text else {}
            self._run.log({"step": point.step, "seconds": point.seconds, **point.values, **said})

    def close(self, status: str, files: Sequence[Path]) -> None:
        """Keep the files, and end the run."""
        for path in files:
            self._run.save(str(path), base_path=str(path.parent), policy="now")
        self._run.finish(exit_code=0 if status == "finished" else 1)

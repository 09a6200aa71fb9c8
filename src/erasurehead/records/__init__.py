"""What happened in a run: rows while it goes on, the run folder, its replay, and checkpoints to go on from.

>>> import tempfile
>>> from erasurehead import delays, engines, optimizers, problems, schemes, training
>>> from erasurehead.records import Recorder, RunFolder, replay
>>> problem = problems.LeastSquares([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]], [1.0, 2.0, 3.0])
>>> def train(model, *watching):
...     engine, optimizer = engines.VirtualEngine(model), optimizers.GradientDescent(problem.initial(), rate=0.1)
...     return training.train(problem, schemes.ignore_stragglers(3, wait_for=2), optimizer, engine, 5, watching)
>>> with tempfile.TemporaryDirectory() as place:
...     run = train(delays.Exponential(mean=0.5), Recorder(RunFolder.create(f"{place}/run")))
...     again = train(replay(RunFolder.open(f"{place}/run")))
>>> again.x.tolist() == run.x.tolist()
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead.later import later
from erasurehead.records.rows import ArrivalRow as ArrivalRow
from erasurehead.records.rows import StepRow as StepRow

if TYPE_CHECKING:
    from erasurehead.records.checkpointer import Checkpointer as Checkpointer
    from erasurehead.records.checkpoints import Checkpoint as Checkpoint
    from erasurehead.records.checkpoints import CheckpointStore as CheckpointStore
    from erasurehead.records.folder import RunFolder as RunFolder
    from erasurehead.records.recorder import Recorder as Recorder
    from erasurehead.records.replaying import replay as replay

# The training loop needs the rows, and the modules below need the loop's: they are loaded when they are asked for.
_LATER = {
    "Checkpoint": "checkpoints",
    "CheckpointStore": "checkpoints",
    "Checkpointer": "checkpointer",
    "Recorder": "recorder",
    "RunFolder": "folder",
    "replay": "replaying",
}

__getattr__, __dir__ = later(__name__, _LATER)

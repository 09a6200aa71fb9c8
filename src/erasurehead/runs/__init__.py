"""Runs on disk: run files, run folders, checkpoints, experiments, comparisons, and models that predict.

The room knows all rooms that a run is made of, and the formats of what is kept of it. It offers a run from its
settings (`Experiment`), several beside each other, what is written during one and read after it.

>>> import tempfile
>>> from erasurehead import delays, engines, optimizers, problems, schemes, training
>>> from erasurehead.runs import Recorder, RunFolder, replay
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

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.runs._checkpoints.checkpointer import Checkpointer as Checkpointer
    from erasurehead.runs._comparison import Comparison as Comparison
    from erasurehead.runs._experiment import Experiment as Experiment
    from erasurehead.runs._folder import RunFolder as RunFolder
    from erasurehead.runs._predictor import TrainedModel as TrainedModel
    from erasurehead.runs._recorder import Recorder as Recorder
    from erasurehead.runs._replaying import replay as replay

__getattr__, __dir__ = lazy_names(__name__)

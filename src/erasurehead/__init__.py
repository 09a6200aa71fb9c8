"""ErasureHead: train on many workers without waiting for the slow ones.

>>> import erasurehead as eh
>>> data = eh.datasets.synthetic("amazon", rows=3_000)
>>> problem = eh.problems.LogisticRegression(data.X_train, data.y_train, l2=1 / 3_000,
...                                          test=(data.X_test, data.y_test))
>>> scheme = eh.schemes.erasurehead(n_workers=30, load=3, wait_for=11)
>>> engine = eh.engines.VirtualEngine(eh.delays.Exponential(mean=0.5, seed=0))  # or ProcessEngine, for real
>>> run = eh.train(problem, scheme, eh.optimizers.Nesterov(problem.initial(), rate=10.0), engine, steps=10)
>>> run.seconds_per_step < 0.5  # waiting for all thirty would take two seconds
True

Modules are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead import codes as codes
    from erasurehead import consensus as consensus
    from erasurehead import datasets as datasets
    from erasurehead import decoding as decoding
    from erasurehead import delays as delays
    from erasurehead import engines as engines
    from erasurehead import errors as errors
    from erasurehead import faults as faults
    from erasurehead import optimizers as optimizers
    from erasurehead import planning as planning
    from erasurehead import problems as problems
    from erasurehead import reports as reports
    from erasurehead import runs as runs
    from erasurehead import schemes as schemes
    from erasurehead import sklearn as sklearn
    from erasurehead import testing as testing
    from erasurehead import training as training
    from erasurehead.faults.policy import FaultPolicy as FaultPolicy
    from erasurehead.runs.comparison import Comparison as Comparison
    from erasurehead.runs.experiment import Experiment as Experiment
    from erasurehead.runs.predictor import TrainedModel as TrainedModel
    from erasurehead.training.callbacks import Callback as Callback
    from erasurehead.training.loop import train as train
    from erasurehead.training.result import Run as Run

_MODULES = (
    "codes",
    "consensus",
    "datasets",
    "decoding",
    "delays",
    "engines",
    "errors",
    "faults",
    "optimizers",
    "planning",
    "problems",
    "reports",
    "runs",
    "schemes",
    "sklearn",
    "testing",
    "training",
)
_HOMES = {
    "Comparison": "runs.comparison",
    "Experiment": "runs.experiment",
    "Callback": "training.callbacks",
    "Run": "training.result",
    "FaultPolicy": "faults.policy",
    "TrainedModel": "runs.predictor",
    "train": "training.loop",
}

__version__ = "0.1.0"
__all__ = [*_MODULES, *_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]  # both are spelled out above
__getattr__, __dir__ = lazy_names(__name__, {**{name: name for name in _MODULES}, **_HOMES})

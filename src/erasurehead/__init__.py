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
    from erasurehead import (
        codes as codes,
        consensus as consensus,
        datasets as datasets,
        decoding as decoding,
        delays as delays,
        engines as engines,
        errors as errors,
        faults as faults,
        optimizers as optimizers,
        planning as planning,
        problems as problems,
        reports as reports,
        runs as runs,
        schemes as schemes,
        sklearn as sklearn,
        testing as testing,
        torch as torch,
        trackers as trackers,
        training as training,
    )
    from erasurehead.faults import FaultPolicy as FaultPolicy
    from erasurehead.runs import Comparison as Comparison, Experiment as Experiment, TrainedModel as TrainedModel
    from erasurehead.training import Callback as Callback, Run as Run, train as train

__version__ = "0.1.0"
__getattr__, __dir__ = lazy_names(__name__)

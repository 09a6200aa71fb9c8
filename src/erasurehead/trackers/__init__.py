"""Runs in TensorBoard, MLflow and Weights & Biases, as callbacks; `Tracker` is what one of your own is made of.

The room knows callbacks and their rows, and nothing of folders and run files, which know it. Packages of trackers are
imported when a run begins. Whatever one does, a run goes on: it writes in a thread of its own (`_background.py`), and
is put aside with a notice if it is not installed, fails or hangs.

>>> import tempfile, time
>>> from erasurehead import engines, optimizers, problems, train
>>> from erasurehead.trackers import Tracker
>>> class Printed(Tracker):
...     def open(self, run, known): print(run.name, "begins")
...     def write(self, points): print(*(f"{point.step:g}: {point.values['loss']:.3f}" for point in points[:2]))
...     def close(self, status, files): print(status)
>>> problem = problems.LeastSquares([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]], [1.0, 2.0, 3.0])
>>> optimizer = optimizers.GradientDescent(problem.initial(), rate=0.1)
>>> run = train(problem, "uncoded", optimizer, engines.VirtualEngine(), 5, callbacks=[Printed()])
uncoded begins
1: 4.667 2: 2.271
finished
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.trackers._mlflow import MLflow as MLflow
    from erasurehead.trackers._tensorboard import TensorBoard as TensorBoard
    from erasurehead.trackers._tracker import Tracker as Tracker
    from erasurehead.trackers._wandb import WandB as WandB

__getattr__, __dir__ = lazy_names(__name__)

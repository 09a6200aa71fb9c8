"""How slow workers are: distributions, mixtures, adversaries, tables, traces and recorded runs.

The room knows seconds, workers and steps, and nothing of what is computed in them. It offers the contract `Delays`,
the models that are written most, all of them by their text (`parse`), and what is measured: traces, and fits to them.
How far a trace tells of later steps, by its correlation in time, its drift and its tail, is in `_stationarity.py`.
Workers draw delays too; they read no traces and fit nothing, which is loaded when it is asked for.

>>> from erasurehead import delays
>>> model = delays.parse("exponential(mean=0.5, seed=0) + late([3])")
>>> model == delays.Exponential(mean=0.5, seed=0) + delays.parse("late([3])")
True
>>> str(model)
'exponential(mean=0.5, seed=0) + late(workers=[3])'
>>> bool((model.row(step=7, n_workers=30)[:10] == model.row(step=7, n_workers=10)).all())
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.delays._base import Delays as Delays
    from erasurehead.delays._bootstrap import Bootstrap as Bootstrap
    from erasurehead.delays._distributions import Exponential as Exponential, ShiftedExponential as ShiftedExponential
    from erasurehead.delays._fitting import fit as fit, fit_trace as fit_trace
    from erasurehead.delays._fixed import Fixed as Fixed
    from erasurehead.delays._slow_workers import slow_workers as slow_workers
    from erasurehead.delays._text import parse as parse
    from erasurehead.delays._trace import Trace as Trace

__getattr__, __dir__ = lazy_names(__name__)

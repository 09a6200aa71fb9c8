"""Predictions before a run: closed forms, simulation and advice on which scheme to use.

The room knows codes, schemes and delays; it needs no data, no gradients and no real worker, unless trials on a
problem are asked for. It offers a ranking of schemes (`plan`) with what there is to say of it, and the forecast of
one. How many steps a setting needs, by the noise of its estimates, is in `_accuracy.py`; `_convergence.py` has the
paper's bound for exact gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.planning._accuracy import Accuracy as Accuracy
    from erasurehead.planning._convergence import Constants as Constants
    from erasurehead.planning._explanations import explain as explain, remarks as remarks
    from erasurehead.planning._forecasts import ErrorTarget as ErrorTarget, forecast as forecast
    from erasurehead.planning._networks import plan_network as plan_network
    from erasurehead.planning._planner import plan as plan
    from erasurehead.planning._task_times import measure_task as measure_task

__getattr__, __dir__ = lazy_names(__name__)

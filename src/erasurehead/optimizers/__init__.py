"""How the model moves: optimizers that are asked for an order and told the estimate, and their step sizes.

The room knows vectors, penalties and what an estimate is worth, and nothing of workers. It offers the contracts of
optimizers and of step sizes, and the optimizers that are here. `QuasiNewton` may begin with steps from few arrivals
each, a form of IQN and DAve-QN (`_few_arrivals.py`); `_part_memory.py` keeps the gradients and models that they go by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.optimizers._base import Answer as Answer, Optimizer as Optimizer
    from erasurehead.optimizers._first_order import (
        FirstOrder as FirstOrder,
        GradientDescent as GradientDescent,
        HeavyBall as HeavyBall,
        Nesterov as Nesterov,
    )
    from erasurehead.optimizers._quasi_newton import QuasiNewton as QuasiNewton
    from erasurehead.optimizers._schedules import Schedule as Schedule

__getattr__, __dir__ = lazy_names(__name__)

"""The training loop: every engine, every scheme and every problem goes through it.

This room takes a problem, a scheme, an optimizer and an engine, and knows all of them by their contracts only. `train`
runs the loop; each step of it asks the optimizer for an order, runs rounds with the workers until one of them ends with
an estimate, and tells the optimizer. A round is submitted, waited for, and decoded; messages that come after its end
have one way of their own. Whether speeds have changed for so long that work is shared anew is asked of
`delays/_speeds.py`. What happened is told as it happens (`Callback`, `Notice`), recorded (`StepRow`,
`ArrivalRow`), and returned (`Run`). The room knows nothing of run files, folders and screens: those watch it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.training._callbacks import Callback as Callback
    from erasurehead.training._loop import train as train
    from erasurehead.training._optimum import find_optimum as find_optimum
    from erasurehead.training._result import Resumption as Resumption, Run as Run
    from erasurehead.training._rows import ArrivalRow as ArrivalRow, Notice as Notice, StepRow as StepRow

__getattr__, __dir__ = lazy_names(__name__)

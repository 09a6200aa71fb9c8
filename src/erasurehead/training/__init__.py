"""The training loop: every engine, every scheme and every problem goes through it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.training.callbacks import Callback as Callback
    from erasurehead.training.loop import train as train
    from erasurehead.training.notices import Notice as Notice
    from erasurehead.training.optimum import Optimum as Optimum
    from erasurehead.training.optimum import find_optimum as find_optimum
    from erasurehead.training.result import Evaluation as Evaluation
    from erasurehead.training.result import Resumption as Resumption
    from erasurehead.training.result import Run as Run
    from erasurehead.training.rows import ArrivalRow as ArrivalRow
    from erasurehead.training.rows import StepRow as StepRow

# Workers need only the programs, and reports only the rows: neither imports the loop.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ArrivalRow": "rows",
        "Callback": "callbacks",
        "Evaluation": "result",
        "Notice": "notices",
        "Optimum": "optimum",
        "Resumption": "result",
        "Run": "result",
        "StepRow": "rows",
        "find_optimum": "optimum",
        "train": "loop",
    },
)

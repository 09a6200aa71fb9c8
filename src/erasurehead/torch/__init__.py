"""PyTorch loops of the user's own: for now, which ranks are late in them.

Everything here works on objects of PyTorch that the user has made, and changes nothing of what they compute. The room
knows PyTorch and the library's errors, and nothing else of the library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.torch._ddp import (
        StepTimes as StepTimes,
        measure as measure,
        stamped_allreduce as stamped_allreduce,
    )
    from erasurehead.torch._late_ranks import LateRank as LateRank, LateRanks as LateRanks

__getattr__, __dir__ = lazy_names(__name__)

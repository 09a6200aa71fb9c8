"""PyTorch loops of the user's own: for now, which ranks are late in them.

Everything here works on objects of PyTorch that the user has made, and changes nothing of what they compute. The room
knows PyTorch and the library's errors, and nothing else of the library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.torch.ddp import StepTimes as StepTimes
    from erasurehead.torch.ddp import measure as measure
    from erasurehead.torch.ddp import stamped_allreduce as stamped_allreduce
    from erasurehead.torch.late_ranks import LateRank as LateRank
    from erasurehead.torch.late_ranks import LateRanks as LateRanks

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "LateRank": "late_ranks",
        "LateRanks": "late_ranks",
        "StepTimes": "ddp",
        "measure": "ddp",
        "stamped_allreduce": "ddp",
    },
)

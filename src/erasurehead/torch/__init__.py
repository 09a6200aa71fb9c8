"""PyTorch loops of the user's own: as a team that nobody waits in, and which ranks are late in them.

A script joins its team (`join`), wraps its optimizer (`Team.optimizer`) and stays as it is; `simulate` runs it on a
virtual clock. `measure` names who is late in a loop of `DistributedDataParallel`, and changes nothing of what it
computes. Who belongs to a team and who gathers is agreed on in `_membership.py`. With a code, `_coded.py` gives
each rank its batch, and all that have a task the same random numbers for it; `_backward.py` counts the losses of each
task with its coefficient. The room knows PyTorch, delays, the faults and clock of peers, and schemes with their codes
and decoders, but no loop of the library's.
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
    from erasurehead.torch._simulate import Hang as Hang, Join as Join, simulate as simulate
    from erasurehead.torch._team import Team as Team, join as join

__getattr__, __dir__ = lazy_names(__name__)

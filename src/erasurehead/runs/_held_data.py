"""What redundant data cost: how many bytes each worker holds, and loads when it starts, in place of its own share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from erasurehead.codes import GradientCode
from erasurehead.datasets import Dataset
from erasurehead.datasets._sharded.folder import ShardFolder
from erasurehead.errors import counted
from erasurehead.reports._units import byte_unit


@dataclass(frozen=True)
class HeldData:
    """What redundant data cost.

    Attributes:
        tasks: how many tasks a worker holds, at most.
        of: how many there are.
        bytes: of their training rows.
        share: bytes of an equal share of all training rows.
        alike: whether all workers hold as many.
    """

    tasks: int
    of: int
    bytes: int
    share: int
    alike: bool = True

    @classmethod
    def by(cls, code: GradientCode, data: Dataset | ShardFolder) -> HeldData | None:
        """Return what the data of a code cost; None if no task is held twice."""
        if code.loads.sum() <= code.n_tasks:
            return None
        if isinstance(data, ShardFolder):
            whole = sum(file.bytes for file in data.manifest.tasks)
        else:
            rows = data.X_train
            parts = [rows] if isinstance(rows, np.ndarray) else [rows.data, rows.indices, rows.indptr]
            whole = sum(part.nbytes for part in (*parts, data.y_train))
        held, share = round(whole * code.load / code.n_tasks), round(whole / code.n_workers)
        return cls(code.load, code.n_tasks, held, share, code.load == int(code.loads.min()))

    def __str__(self) -> str:
        who = "each worker holds" if self.alike else "workers hold up to"
        held = f"{who} {self.tasks} of {counted('task', self.of)}"
        return f"{held}: {_size(self.bytes)} in place of {_size(self.share)}, in memory and to load at the start"


def _size(number: int) -> str:
    unit = byte_unit([number])
    return f"{number / unit.size:.3g} {unit.name}"

"""The interface of ways to meet, at the side of who gathers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import ClassVar

import numpy as np

from erasurehead._internal.arrays import Array


class Way(ABC):
    """Sums what ranks send towards one version of the team's model, and says when that version is closed.

    Arguments:
        length: length of the vectors that ranks send.
        dtype: float32 or float64.
    """

    name: ClassVar[str]

    waits: ClassVar[bool]
    """Whether a rank's step ends only with the version that it contributed to."""

    def __init__(self, length: int, dtype: np.dtype[np.floating]) -> None:
        self.length, self.dtype = length, dtype
        self.steps: dict[int, int] = {}
        """By rank: how many steps of it have been added since the last version."""

    @abstractmethod
    def fold(self, rank: int, vector: Array, steps: int, samples: float, now: float) -> None:
        """Add what a rank has sent.

        Arguments:
            rank: who sent it.
            vector: shape (length,), which may be overwritten afterwards.
            steps: how many steps it has the changes of.
            samples: the samples that these were computed from; 0 if unknown.
            now: seconds by the clock of who gathers.
        """

    @abstractmethod
    def closes(self, members: Collection[int]) -> bool:
        """Return whether there is enough for a version.

        Arguments:
            members: the ranks that still make steps.
        """

    @abstractmethod
    def close(self, members: Collection[int], now: float) -> Array:
        """Return what the ranks are told of the version that is now closed, and begin the next one."""

"""The interface of ways to meet, at the side of who gathers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import ClassVar

from erasurehead._internal.arrays import Array


class Way(ABC):
    """Sums what ranks send towards one version of the team's model, and says when that version is closed."""

    name: ClassVar[str]

    waits: ClassVar[bool]
    """Whether a rank's step ends only with the version that it contributed to."""

    keeps: ClassVar[bool] = False
    """Whether all that a rank has sent since the newest version is sent again when who gathers dies."""

    replaces: ClassVar[bool] = False
    """Whether what a rank sends takes the place of what it has sent before, instead of being added to it."""

    asks_at: float = math.inf
    """When `closes` is to be asked again, by the clock of who gathers, if nothing comes until then."""

    residual: float | None = None
    """What the last version lacks of the whole gradient, in tasks; None where no code is decoded."""

    steps: dict[int, int]
    """By rank: how many steps of it have been added since the last version."""

    @abstractmethod
    def fold(self, rank: int, vector: Array, steps: int, samples: float, seconds: float) -> None:
        """Add what a rank has sent.

        Arguments:
            rank: who sent it.
            vector: which stays as it is until the version is closed.
            steps: how many steps it has the changes of.
            samples: the samples that these were computed from; 0 if unknown.
            seconds: how long the rank needed for them.
        """

    def dropped(self, rank: int, seconds: float, now: float) -> None:  # noqa: B027
        """Note that a rank was too late with a step to add it, or had none when it was called."""

    def announced(self, rank: int, steps: int, seconds: float, now: float, late: bool) -> None:  # noqa: B027
        """Note that a rank is sending some steps, for ways that keep what was sent; they may take long to come.

        Arguments:
            rank, steps, seconds: as those of `fold`.
            now: by the clock of who gathers.
            late: whether they are not those that the next version waits for.
        """

    def calls(self, members: Collection[int], now: float) -> Collection[int]:
        """Return the ranks that are to send what they have, once in a version; arguments as those of `closes`."""
        return ()

    def heard(self, newest: Array) -> None:  # noqa: B027
        """Learn of a version of the team's model, whoever has closed it; the vector stays as it is."""

    @abstractmethod
    def closes(self, members: Collection[int], now: float) -> bool:
        """Return whether there is enough for a version.

        Arguments:
            members: the ranks that still make steps.
            now: seconds by the clock of who gathers.
        """

    @abstractmethod
    def close(self, members: Collection[int], now: float, out: Array) -> None:
        """Write what the ranks are told of the version that is now closed, and begin the next one.

        Arguments:
            members: the ranks that still make steps.
            now: seconds by the clock of who gathers.
            out: where to, which stays as it is then.
        """

    @abstractmethod
    def restart(self, newest: Array) -> None:
        """Begin a version anew after what a rank was told last, which stays as it is, with nothing added."""

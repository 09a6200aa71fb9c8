"""Where a rank's script runs: on this machine's clock, or on a virtual one."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from erasurehead.torch._member import Member
from erasurehead.torch._port import MemberPort
from erasurehead.torch._versions import Version


class RankPlace(ABC):
    """What a script's objects need of where they run.

    Attributes:
        rank: number of this rank, from 0.
        size: number of ranks that were started together.
        ahead: how many answers a script should ask for before it needs them, so that it does not wait for them.
        joins: whether this rank was started later, by a number of its own that is none of theirs.
        joined: whether its script has called `join`.
        team_ended: whether a rank is known to have come to the end of its script in the team.
    """

    rank: int
    size: int
    ahead: int = 1
    joins: bool = False
    joined: bool = False

    @property
    def team_ended(self) -> bool:
        return False

    @abstractmethod
    def now(self) -> float:
        """Return the seconds since the team began."""

    def expect(self, nbytes: int) -> None:  # noqa: B027
        """Let vectors of so many bytes in, and none that are larger; to be called before there is a member."""

    @abstractmethod
    def begin(self, member: Member) -> None:
        """Deliver messages to a member from now on, those that have come before included."""

    @abstractmethod
    def port(self) -> MemberPort:
        """Return the port of this rank's member."""

    @abstractmethod
    def held(self) -> AbstractContextManager[Any]:
        """Return a context in which no handler of the member is called, for the script's calls of the member."""

    @abstractmethod
    def wait(self, ready: Callable[[], bool], what: str) -> None:
        """Wait until something is so.

        Arguments:
            ready: says whether it is; called where no handler of the member is called.
            what: what is waited for, as it is told to a person.
        """

    @abstractmethod
    def at_end(self, call: Callable[[], object]) -> None:
        """Call something when the script has ended without an error."""

    def record(self, version: Version) -> None:  # noqa: B027
        """Take down a version that this rank has closed."""

    def compute(  # noqa: B027  # a real rank has computed already
        self, samples: float, step: int, until: Callable[[], bool] | None = None
    ) -> None:
        """Let the time of a rank's own work pass, on a virtual clock.

        Arguments:
            samples: number of samples in the step.
            step: number of the rank's step, from 0.
            until: says whether the rank leaves off before; called where no handler of the member is called.
        """

    def settle(self) -> None:  # noqa: B027  # on a real clock nothing is simultaneous
        """Let all else happen that happens at the same time, on a virtual clock."""

    @property
    def counts_samples(self) -> bool:
        """Whether samples must be counted although nobody says how many there are."""
        return False


_scripts = threading.local()


def current_place() -> RankPlace | None:
    """Return the place that was set for this thread; None if it is an ordinary one."""
    return getattr(_scripts, "place", None)


def set_place(place: RankPlace | None) -> None:
    """Say where the script of this thread runs."""
    _scripts.place = place

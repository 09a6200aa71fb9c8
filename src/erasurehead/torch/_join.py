"""How a script finds its team."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from time import monotonic
from typing import Any, final

from erasurehead.errors import ErasureHeadError
from erasurehead.torch._endpoints.local import LocalEndpoint
from erasurehead.torch._launchers import started
from erasurehead.torch._member import Member
from erasurehead.torch._place import Place, current_place
from erasurehead.torch._port import Port
from erasurehead.torch._runtime import Running
from erasurehead.torch._team import Team


def join() -> Team:
    """Return this process's team; a team of one where there are no others."""
    return Team(current_place() or _found_place())


def _found_place() -> Place:
    """Return where this process runs, by what its launcher says."""
    how = started()
    if how is None or how.size == 1:
        return Alone()
    if how.local_size < how.size:
        raise ErasureHeadError(
            f"{how.by} has started ranks on several hosts, and so far those of a team must be on one."
        )
    return Running(LocalEndpoint(how.team, how.rank, how.size), how.size)


@final
class Alone(Place):
    """A team of one."""

    def __init__(self) -> None:
        self.rank, self.size = 0, 1
        self._began = monotonic()

    def now(self) -> float:
        return monotonic() - self._began

    def begin(self, member: Member) -> None:
        raise AssertionError("a team of one has no member")

    def port(self) -> Port:
        raise AssertionError("a team of one has no port")

    def held(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def at_end(self, call: Callable[[], object]) -> None:
        pass

    def wait(self, ready: Callable[[], bool], what: str) -> None:
        assert ready()

"""Killing and stopping workers on purpose, for drills and tests: an interface in addition to that of engines."""

from __future__ import annotations

from abc import ABC, abstractmethod

from erasurehead.engines._base import Engine
from erasurehead.errors import EngineError


class FaultInjection(ABC):
    """Implemented by engines whose workers can be killed and paused; tested by `testing.FaultInjectionConformance`.

    Raises:
        EngineError: in all methods, if there is no such worker, or it cannot be reached from here.
    """

    @abstractmethod
    def kill(self, worker: int) -> None:
        """End a worker without warning, as a crash would: a `Died` event follows."""

    @abstractmethod
    def pause(self, worker: int) -> None:
        """Stop a worker without ending it, as if its machine hung: no event follows."""

    @abstractmethod
    def proceed(self, worker: int) -> None:
        """Let a paused worker continue, with the newest order that was submitted to it meanwhile."""


def injection(engine: Engine) -> FaultInjection:
    """Return an engine as one with fault injection.

    Raises:
        EngineError: if it has none.
    """
    if not isinstance(engine, FaultInjection):
        raise EngineError(f"the workers of the engine {engine.name!r} cannot be killed or stopped on purpose.")
    return engine

"""Workers that are killed and stopped on purpose, for drills and tests: a contract beside that of an engine."""

from __future__ import annotations

from abc import ABC, abstractmethod

from erasurehead.engines.base import Engine
from erasurehead.errors import EngineError


class FaultInjection(ABC):
    """What engines have in addition whose workers can be struck. The suite is `testing.FaultInjectionConformance`.

    Raises:
        EngineError: all methods, where there is no such worker, or it cannot be reached from here.
    """

    @abstractmethod
    def kill(self, worker: int) -> None:
        """End a worker without warning, as a crash would: a `Died` event follows."""

    @abstractmethod
    def pause(self, worker: int) -> None:
        """Stop a worker without ending it, as a machine that hangs would: no event follows."""

    @abstractmethod
    def proceed(self, worker: int) -> None:
        """Let a paused worker go on, with the newest order that was submitted to it meanwhile."""


def injection(engine: Engine) -> FaultInjection:
    """Return an engine as one whose workers can be struck.

    Raises:
        EngineError: if they cannot.
    """
    if not isinstance(engine, FaultInjection):
        raise EngineError(f"the workers of the engine {engine.name!r} cannot be killed or stopped on purpose.")
    return engine

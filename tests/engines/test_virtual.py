"""The virtual engine: the conformance suite, and what is its own."""

from __future__ import annotations

from erasurehead.delays.base import Delays
from erasurehead.engines import LateWork, VirtualEngine
from erasurehead.testing import EngineConformance, FaultInjectionConformance


class TestVirtualEngine(EngineConformance, FaultInjectionConformance):
    def make(self, delays: Delays | None = None, late: LateWork = "preempt") -> VirtualEngine:
        return VirtualEngine(delays, late)

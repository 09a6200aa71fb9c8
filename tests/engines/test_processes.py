"""The process engine: the conformance suite on real processes, and what is its own."""

from __future__ import annotations

import pytest

from erasurehead.delays.base import Delays
from erasurehead.engines import LateWork, ProcessEngine
from erasurehead.testing import EngineConformance

pytestmark = pytest.mark.processes


class TestProcessEngine(EngineConformance):
    def make(self, delays: Delays | None = None, late: LateWork = "preempt") -> ProcessEngine:
        return ProcessEngine(delays, late)

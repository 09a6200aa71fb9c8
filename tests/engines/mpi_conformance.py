"""Run by rank 0 of a job that `test_mpi.py` starts; not collected otherwise."""

from __future__ import annotations

from erasurehead.delays.base import Delays
from erasurehead.engines import LateWork
from erasurehead.engines.mpi import MPIEngine
from erasurehead.testing import EngineConformance


class TestMPIEngine(EngineConformance):
    def make(self, delays: Delays | None = None, late: LateWork = "preempt") -> MPIEngine:
        return MPIEngine(delays, late)

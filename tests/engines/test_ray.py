"""The Ray engine: the conformance suite on real actors, and what is its own."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from erasurehead.delays.base import Delays
from erasurehead.engines import LateWork
from erasurehead.engines.ray import RayEngine
from erasurehead.testing import EngineConformance

pytest.importorskip("ray", reason="the Ray engine needs ray: pip install 'erasurehead[ray]'")

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Generator[None]:
    """One cluster for all tests of this module: engines of a process share it as long as one of them is open."""
    with RayEngine():
        yield


class TestRayEngine(EngineConformance):
    def make(self, delays: Delays | None = None, late: LateWork = "preempt") -> RayEngine:
        return RayEngine(delays, late)

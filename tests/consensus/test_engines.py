"""What runs peers: the conformance suite on the virtual clock and on processes, and what is their own."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from erasurehead.consensus import ConsensusRun, Policy, train
from erasurehead.engines import ProcessEngine
from erasurehead.problems import LogisticRegression
from erasurehead.testing import PeerConformance


class TestVirtualClock(PeerConformance):
    virtual = True

    def train(self, problem: LogisticRegression, graph: str, policy: Policy | str, **settings: Any) -> ConsensusRun:
        return train(problem, graph, policy, **settings)


@pytest.mark.processes
@pytest.mark.usefixtures("nothing_is_left_in_shared_memory")
class TestProcesses(PeerConformance):
    engine: ProcessEngine

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def opened(cls) -> Generator[None]:
        with ProcessEngine() as cls.engine:
            yield

    def train(self, problem: LogisticRegression, graph: str, policy: Policy | str, **settings: Any) -> ConsensusRun:
        return train(problem, graph, policy, engine=self.engine, **settings)

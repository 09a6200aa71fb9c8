"""What runs without a coordinator log, and trackers among their callbacks."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from erasurehead import consensus, problems
from erasurehead.consensus import ConsensusCallback, Crash
from erasurehead.training import Notice


class Ended(ConsensusCallback):
    """Keeps how a run ended, and has something to say of itself."""

    def __init__(self) -> None:
        self.status: list[str] = []
        self.heard: list[Notice] = []
        self.own = [Notice("untracked", text="a callback has trouble")]

    def own_notices(self) -> list[Notice]:
        own, self.own = self.own, []
        return own

    def on_notice(self, notice: Notice) -> None:
        self.heard.append(notice)

    def on_done(self, status: str) -> None:
        self.status.append(status)


def trained(**more: Any) -> Any:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    problem = problems.LeastSquares(X, X @ [1.0, 2.0, 3.0])
    settings = {"peers": 4, "steps": 6, "rate": 0.1, "delays": "exponential(mean=1.0)", **more}
    return consensus.train(problem, "ring()", "dynamic()", **settings)


def test_peers_are_logged_as_runs_are(caplog: pytest.LogCaptureFixture) -> None:
    ended = Ended()
    with caplog.at_level(logging.DEBUG, "erasurehead"):
        run = trained(faults=[Crash(peer=2, at=2.0)], callbacks=[ended])
    by_level = {level: [one for one in caplog.records if one.levelno == level] for level in (10, 20, 30)}
    begin, end = by_level[logging.INFO]
    assert begin.getMessage() == f"4 peers on {run.graph} with {run.policy} begin"
    assert end.getMessage() == "finished"
    assert [one.__dict__["row"] for one in by_level[logging.DEBUG]] == [row.as_dict() for row in run.means]
    assert [one.getMessage() for one in by_level[logging.WARNING]] == [
        "a callback has trouble",
        "peers that are gone: 2",
    ]
    assert {one.name for one in caplog.records} == {"erasurehead.consensus"}
    assert ended.status == ["finished"]
    assert [notice.text for notice in ended.heard] == ["a callback has trouble"]

"""What runs peers: the conformance suite on the virtual clock and on processes, and what is their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead.consensus import ConsensusCallback, Crash, Policy, _engine_run, train
from erasurehead.consensus._experiment import ConsensusExperiment
from erasurehead.consensus._result import ConsensusRun
from erasurehead.consensus._rows import MeanRow, PeerRow
from erasurehead.engines import ProcessEngine, VirtualEngine
from erasurehead.errors import DataError, ErasureHeadError, InvalidArgument
from erasurehead.problems import LogisticRegression
from erasurehead.runs import RunFolder, TrainedModel
from erasurehead.training import Notice

from ..bounded import PATIENCE, PROMPT, left_of
from .conformance import PeerConformance, PeerStateConformance


class TestVirtualClock(PeerStateConformance):
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


class Strike(ConsensusCallback):
    """Kills a peer's process, as a user might, once the peers are at work."""

    def __init__(self, engine: ProcessEngine, peer: int) -> None:
        self.engine, self.peer, self.notices = engine, peer, list[Notice]()
        self.struck = False

    def on_step(self, row: PeerRow) -> None:
        if not self.struck and row.step >= 3:
            self.struck = True
            os.kill(self.engine.pid(self.peer), signal.SIGKILL)

    def on_notice(self, notice: Notice) -> None:
        self.notices.append(notice)


class Hang(ConsensusCallback):
    """Stops peers' processes once the peers are at work, and asks the run to end some time later."""

    FOR = 2.0

    def __init__(self, engine: ProcessEngine, peers: list[int]) -> None:
        self.engine, self.peers, self.notices = engine, peers, list[Notice]()
        self.struck, self.asked = 0.0, np.inf

    def on_step(self, row: PeerRow) -> None:
        if not self.struck and row.step >= 3:
            self.struck, self.asked = row.end, self.engine.now() + self.FOR
            for peer in self.peers:
                self.engine.pause(peer)

    def on_notice(self, notice: Notice) -> None:
        self.notices.append(notice)

    def stop(self) -> str:
        return "enough" if self.engine.now() > self.asked else ""


def few(problem: LogisticRegression, **more: Any) -> ConsensusRun:
    given: dict[str, Any] = {
        "peers": 4,
        "steps": 30,
        "rate": 0.5,
        "batch": 8,
        "policy": "full()",
        "delays": "exponential(mean=0.005)",
    }
    return train(problem, "path()", until=PATIENCE, **given | more)


@pytest.mark.processes
@pytest.mark.usefixtures("nothing_is_left_in_shared_memory")
class TestOwn:
    def test_messages_are_those_of_the_steps(self, problem: LogisticRegression) -> None:
        """Peers hear late that the run has ended, and what they sent meanwhile counted: 18 times as much, if quick."""
        with ProcessEngine() as engine:
            done = few(problem, engine=engine, steps=3, delays="none()")
        assert done.steps == 12
        to_all = 6  # on a path of four
        assert 2 * to_all <= done.vectors <= 6 * to_all  # some peers may be some steps ahead
        assert done.messages >= done.vectors

    def test_a_process_that_somebody_kills_is_noticed(self, problem: LogisticRegression) -> None:
        with ProcessEngine() as engine:
            strike = Strike(engine, 1)
            done = few(problem, engine=engine, callbacks=[strike], orphans="taken over")
        assert done.present == [0, 2, 3]
        assert [(notice.kind, notice.worker) for notice in strike.notices] == [("died", 1)]
        assert "SIGKILL" in strike.notices[0].text
        assert done.view_changes[0].added_links == [[0, 2]]
        assert len(done.shares[1]) == 0
        assert sum(map(len, done.shares)) == problem.n_samples
        assert done.steps == 120

    def test_the_last_peer_that_dies_ends_the_run(self, problem: LogisticRegression) -> None:
        faults = [Crash(peer, 0.05) for peer in range(3)]
        with ProcessEngine() as engine:
            done = few(problem, engine=engine, steps=5_000, faults=faults, callbacks=[Strike(engine, 3)])
        assert done.status == "failed"
        assert done.stopped == "every peer is gone"

    @pytest.mark.slow
    @pytest.mark.parametrize("hung", [[1], [0, 1, 2, 3]])
    def test_peers_that_hang_are_left_out_soon_after_the_run_was_asked_to_end(
        self, problem: LogisticRegression, hung: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_engine_run, "_STOP_TIMEOUT", 3.0)  # on a busy machine, others may be silent for a second
        with ProcessEngine() as engine:
            hang = Hang(engine, hung)
            done = few(
                problem,
                engine=engine,
                steps=100_000,
                evaluate_every=2,
                policy="local()",
                callbacks=[hang],
                stop=hang.stop,
            )
            assert engine.now() - hang.asked < PROMPT
        assert (done.status, done.stopped) == ("interrupted", "enough")
        left = [peer for peer in range(4) if peer not in hung]
        assert done.present == (left or list(range(4)))
        assert [notice.worker for notice in hang.notices] == hung
        assert all("killed, as it had sent no report for" in notice.text for notice in hang.notices)
        assert (done.x != 0.0).all()
        if left:  # what they did while the other one hung is not lost
            assert done.seconds > hang.struck + 0.5 * hang.FOR

    def test_a_run_that_is_asked_to_end_while_peers_start_has_its_first_model(
        self, problem: LogisticRegression
    ) -> None:
        initial = np.arange(float(problem.n_parameters))
        done = train(
            problem,
            "path()",
            "full()",
            engine="processes",
            stop=lambda: "enough",
            initial=initial,
            peers=4,
            steps=9,
            rate=0.5,
        )
        assert (done.status, done.stopped, done.steps, done.present) == ("interrupted", "enough", 0, [0, 1, 2, 3])
        assert (done.x == initial).all()
        assert len(done.means) == 1

    def test_a_target_and_a_sentence_end_it(self, problem: LogisticRegression) -> None:
        with ProcessEngine() as engine:
            goal = few(problem, engine=engine, steps=5_000, target=0.5)
            said = few(problem, engine=engine, steps=5_000, stop=lambda: "enough")
        assert goal.status == "finished"
        assert any(row.objective <= 0.5 for row in goal.means)
        assert (said.status, said.stopped) == ("interrupted", "enough")

    def test_the_same_run_file_works_on_processes(self, tmp_path: Path) -> None:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((160, 3)).round(4)
        lines = ["a,b,c,y", *(",".join(map(str, [*x, int(x[0] > 0)])) for x in X)]
        (tmp_path / "rows.csv").write_text("\n".join(lines))
        (tmp_path / "run.toml").write_text(
            f'[consensus]\npeers = 4\ngraph = "ring()"\nrate = 0.3\nbatch = 8\n[data]\nsource = "{tmp_path}/rows.csv"\n'
            '[delays]\nmodel = "exponential(mean=0.01)"\n[run]\nsteps = 15\nevaluate_every = 5.0\n'
        )
        for engine in ("virtual", "processes"):
            out = tmp_path / engine
            tables = tomllib.loads((tmp_path / "run.toml").read_text())
            tables["run"] |= {"engine": engine, "out": str(out)}
            done = ConsensusExperiment.from_tables(tables).run()
            opened = RunFolder.open(out)
            assert 60 <= len(opened.rows("peers.jsonl", PeerRow)) == done.steps < 64
            assert len(opened.rows("means.jsonl", MeanRow)) == len(done.means)
            assert opened.summary["engine"] == engine
            assert (opened.x == done.x).all()
            assert TrainedModel.load(out).evaluate(tmp_path / "rows.csv").metrics["accuracy"] > 0.9
        with pytest.raises(DataError, match="only runs on the virtual clock can be resumed"):
            ConsensusExperiment.resume(tmp_path / "processes")

    @pytest.mark.slow
    def test_peers_end_with_who_started_them(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text(ENDLESS)
        with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            pids = [int(word) for word in process.stdout.readline().split()]
            process.kill()
        assert len(pids) == 4
        assert left_of(pids) == []


ENDLESS = """
import numpy as np
from erasurehead.consensus import ConsensusCallback, train
from erasurehead.engines import ProcessEngine
from erasurehead.problems import LeastSquares

class Say(ConsensusCallback):
    def on_step(self, row):
        if row.step == 3 and row.peer == 0:
            print(*[engine.pid(peer) for peer in range(4)], flush=True)

if __name__ == "__main__":
    with ProcessEngine() as engine:
        train(LeastSquares(np.eye(4), np.ones(4)), "ring()", peers=4, steps=10**6, rate=0.1, engine=engine,
              callbacks=[Say()], delays="exponential(mean=0.01)")
"""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"engine": "ray"}, "engine must be one of virtual, processes, mpi"),
        ({"engine": "thread"}, "engine must be one of virtual, processes, mpi"),
        ({"engine": VirtualEngine()}, "workers of the engine 'virtual' cannot write to each other"),
        ({"engine": "processes", "keep_state": True}, "keep_state must be left out on processes"),
        ({"engine": "processes", "resume": {}}, "resume must be left out on processes"),
        ({"steps": 0}, "steps must be"),
        ({"until": -1.0}, "until must be a positive number of seconds"),
        ({"evaluate_every": 0.0}, "evaluate_every must be a positive number"),
    ],
)
def test_what_peers_cannot_run_on_is_said(problem: LogisticRegression, more: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"peers": 4, "steps": 3, "rate": 0.1}
    with pytest.raises(ErasureHeadError, match=said):
        train(problem, "ring()", **given | more)


def test_an_engine_with_delays_of_its_own_is_refused(problem: LogisticRegression) -> None:
    with ProcessEngine("exponential(mean=0.1)") as engine, pytest.raises(InvalidArgument, match="must have no delays"):
        train(problem, "ring()", peers=4, steps=3, rate=0.1, engine=engine)

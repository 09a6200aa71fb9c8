"""A rank in a process of its own: its thread, its script, and how each of them ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from erasurehead._internal.arrays import Array
from erasurehead.errors import ErasureHeadError
from erasurehead.torch._endpoints.local import LocalEndpoint
from erasurehead.torch._member import Member
from erasurehead.torch._message_heads import Head, Kind
from erasurehead.torch._runtime import ProcessPlace
from erasurehead.torch._ways._busy import Busy

from ..bounded import PATIENCE, PROMPT

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="ranks beside each other need Linux"),
    pytest.mark.usefixtures("quick_start"),
]


class Told:
    """A member that only notes what it is told."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, Head, float]] = []
        self.lost: list[frozenset[int]] = []
        self.times: list[float] = []
        self.place: Any = None
        self.membership = SimpleNamespace(belongs=False)

    def on_message(self, sender: int, head: Head, vector: Array | None) -> None:
        self.messages.append((sender, head, 0.0 if vector is None else float(vector.sum())))
        self.place.wake_script()

    def on_lost(self, ranks: frozenset[int]) -> None:
        self.lost.append(ranks)
        self.place.wake_script()

    def on_time(self) -> None:
        self.times.append(self.place.now())
        self.place.wake_script()


def places(count: int) -> tuple[list[ProcessPlace], list[Any]]:
    team = f"test-{os.getpid()}-{time.monotonic_ns()}"
    running = [ProcessPlace(LocalEndpoint(team, rank, count), count) for rank in range(count)]
    members: list[Any] = [Told() for _ in running]
    for place, member in zip(running, members, strict=True):
        member.place = place
        place.expect(1_000)
    return running, members


def test_messages_that_came_before_the_member_are_delivered_and_each_once() -> None:
    (first, second), (here, there) = places(2)
    try:
        second.begin(there)
        with second.held():
            second.send(0, Head(Kind.HELLO))
            second.send(0, Head(Kind.CHANGE, steps=3), np.ones(5, np.float32))
        time.sleep(0.05)
        first.begin(here)
        first.wait(lambda: len(here.messages) == 2, "two messages")
        assert here.messages == [(1, Head(Kind.HELLO), 0.0), (1, Head(Kind.CHANGE, steps=3), 5.0)]
        with first.held():
            first.send(1, Head(Kind.READ))
        second.wait(lambda: bool(there.messages), "a message")
    finally:
        second.close()
        first.close()


def test_a_time_comes_and_an_earlier_one_replaces_it() -> None:
    (place,), (member,) = places(1)
    place.begin(member)
    with place.held():
        place.wake_at(place.now() + PATIENCE)
    time.sleep(0.02)
    with place.held():
        due = place.now() + 0.05
        place.wake_at(due)
    place.wait(lambda: bool(member.times), "a time")
    assert due <= member.times[0] < due + PROMPT
    place.close()


def test_who_ends_is_lost_certainly_and_once() -> None:
    (first, second), (here, there) = places(2)
    first.begin(here)
    second.begin(there)
    with second.held():
        second.send(0, Head(Kind.DONE))
    first.wait(lambda: bool(here.messages), "a message")
    second.close()
    first.wait(lambda: bool(here.lost), "an end")
    time.sleep(0.05)
    first.close()
    assert here.lost == [frozenset({1})]


def test_changes_and_models_are_read_where_they_were_computed() -> None:
    n, running = 1_000, places(3)[0]
    members: list[Member] = []
    try:
        for place in running:
            model = np.zeros(n + 1, np.float32)
            place.expect(model.nbytes)
            with place.held():
                member = Member(place.port(), Busy(model), model, frozenset(range(3)), lambda _: None)
                place.begin(member)
            members.append(member)
        for place, member in zip(running, members, strict=True):
            place.wait(lambda: member.newest[1] >= 0, "the first model")  # noqa: B023
        for step in range(1, 21):
            for place, member in zip(running, members, strict=True):
                with place.held():
                    change = place.room(n, np.dtype(np.float32))
                    change[:] = place.rank
                    member.offer(change, 1, 1.0, 1.0)
            for place, member in zip(running, members, strict=True):
                place.wait(lambda: member.newest[1] >= step, "the next model")  # noqa: B023
        way = members[0].way
        assert isinstance(way, Busy)
        for place, member in zip(running[1:], members[1:], strict=True):
            newest = member.known.latest.vector
            assert newest[0] == newest[n - 1] == 20.0
            assert not newest.flags.owndata
            with place.held():
                change = place.room(n, np.dtype(np.float32))
                member.offer(change, 1, 1.0, 1.0)
        running[0].wait(lambda: len(way._came) == 2, "two changes")
        assert not any(change.flags.owndata for change in way._came)
        with running[0].held():
            ours = running[0]._endpoint
            assert isinstance(ours, LocalEndpoint)
            assert ours._places is not None
            assert ours._places.offset(members[0].known.latest.vector) >= 0
            assert os.fstat(ours._places.fd).st_size // ours._places.stride <= 6
    finally:
        for place in running:
            place.close()


def test_the_script_has_its_turn_while_messages_pour_in() -> None:
    (first, second), (here, there) = places(2)
    first.begin(here)
    second.begin(there)
    stop = threading.Event()

    def pour() -> None:
        while not stop.is_set():
            with second.held():
                second.send(0, Head(Kind.CHANGE), np.ones(10, np.float32))

    poured = threading.Thread(target=pour)
    poured.start()
    try:
        begin = time.monotonic()
        for _ in range(200):
            with first.held():
                pass
        assert time.monotonic() - begin < PROMPT
    finally:
        stop.set()
        poured.join()
    first.close()
    second.close()


def test_nothing_that_waits_uses_a_core() -> None:
    running, members = places(3)
    for place, member in zip(running, members, strict=True):
        place.begin(member)
    time.sleep(0.2)
    begin = time.process_time()
    time.sleep(1.0)
    assert time.process_time() - begin < 0.3
    for place in running:
        place.close()


def test_an_error_of_the_thread_is_raised_in_the_script() -> None:
    (first, second), (here, there) = places(2)

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("by a handler")

    here.on_message = broken
    first.begin(here)
    second.begin(there)
    with second.held():
        second.send(0, Head(Kind.HELLO))
    with pytest.raises(ZeroDivisionError, match="by a handler"):
        first.wait(lambda: False, "nothing")
    with pytest.raises(ZeroDivisionError, match="by a handler"), first.held():
        pass
    second.wait(lambda: bool(there.lost), "the end of the rank, as others do not wait for it")
    first.close()
    second.close()
    with pytest.raises(ErasureHeadError, match="Rank 1 has left its team already"), second.held():
        pass


def test_who_is_to_join_a_team_that_has_ended_is_told_so() -> None:
    place, member = ProcessPlace(LocalEndpoint(f"test-{time.monotonic_ns()}", 3, 3), 3), Told()
    place.expect(1_000)
    place.begin(member)  # type: ignore[arg-type]
    with pytest.raises(ErasureHeadError, match="Rank 3 was started to join a team of which nobody is there any more"):
        place.wait(lambda: False, "nothing")
    place.close()


def test_what_a_person_waits_for_is_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("erasurehead.torch._runtime._GLANCE", 0.01)
    monkeypatch.setattr("erasurehead.torch._runtime._PATIENCE", 0.02)
    (place,), _ = places(1)
    until, glances = time.monotonic() + PATIENCE, 0

    def ready() -> bool:
        nonlocal glances
        glances += bool(caplog.records)  # once it was told, it is looked some more times
        return glances > 8 or time.monotonic() > until

    place.wait(ready, "the first rank's model")
    assert [record.getMessage() for record in caplog.records] == [
        "Rank 0 has waited for the first rank's model for 0 s."
    ]
    place.close()


SCRIPT = """
import os, sys, time
import torch
import erasurehead.torch as eht
torch.manual_seed(0)
rank = int(os.environ["RANK"])
data = torch.utils.data.TensorDataset(torch.randn(2000, 10), torch.randint(0, 2, (2000,)))
loader = torch.utils.data.DataLoader(data, 20, num_workers=WORKERS, multiprocessing_context="fork" if WORKERS else None)
model = torch.nn.Linear(10, 2)
BEFORE
team = eht.join()
optimizer = team.optimizer(torch.optim.SGD(model.parameters(), 0.1), model)
for step, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    AFTER
sys.stdout.write(f"through {rank}\\n")
"""


def team_run(
    tmp_path: Path, after: str, workers: str = "0", ranks: int = 3, before: str = "pass"
) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "train.py"
    script = SCRIPT.replace("BEFORE", before).replace("AFTER", after).replace("WORKERS", workers)
    path.write_text(script, encoding="utf-8")
    command = [sys.executable, "-m", "erasurehead.torch.run", "-n", str(ranks), str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.usefixtures("nothing_is_left_in_shared_memory")
def test_a_script_trains_with_and_without_forked_data_loaders(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = team_run(tmp_path, "pass", "(2 * (rank > 0))")
    assert done.returncode == 0, done.stderr
    assert sorted(re.findall(r"through \d", done.stdout)) == ["through 0", "through 1", "through 2"]
    assert done.stderr == ""


ENDINGS = {
    2: ("raise ValueError('of the script')", "[2] ValueError: of the script"),
    3: ("os.kill(os.getpid(), 15)", "rank 3 was killed by SIGTERM"),
    4: ("os.kill(os.getpid(), 2)", "[4] KeyboardInterrupt"),
    5: ("sys.exit(3)", "rank 5 has ended with exit code 3"),
    6: ("os._exit(4)", "rank 6 has ended with exit code 4"),
}
"""By rank, how it ends, and what is told of it."""


@pytest.mark.processes
@pytest.mark.slow
def test_ranks_that_end_early_have_a_defined_end_and_the_others_go_on(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    early = "\n    ".join(f"if rank == {rank} and step == 20 + {rank}: {how}" for rank, (how, _) in ENDINGS.items())
    done = team_run(tmp_path, early, ranks=7)
    for _, told in ENDINGS.values():
        assert told in done.stderr
    assert sorted(re.findall(r"through \d", done.stdout)) == ["through 0", "through 1"]


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize(("victim", "code"), [(0, 3), (1, 0)])
def test_nobody_waits_for_a_rank_that_ends_before_it_comes(tmp_path: Path, victim: int, code: int) -> None:
    pytest.importorskip("torch")
    done = team_run(tmp_path, "pass", before=f"if rank == {victim}: sys.exit({code})")
    assert done.returncode == code
    assert sorted(re.findall(r"through (\d)", done.stdout)) == [str(rank) for rank in range(3) if rank != victim]


@pytest.mark.processes
@pytest.mark.slow
def test_who_trains_beside_the_team_or_joins_it_twice_is_told(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "train.py"
    path.write_text(
        "import torch\nimport erasurehead.torch as eht\nteam = eht.join()\n"
        "try: eht.join()\nexcept Exception as error: print(error)\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "erasurehead.torch.run", "-n", "2", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0
    assert done.stdout.count("That is this one: call join() once, and go on with the team it returned.") == 2
    assert done.stderr.count("has given no optimizer to Team.optimizer: others know nothing of what it trained.") == 2


@pytest.mark.processes
@pytest.mark.slow
def test_a_forked_process_is_no_rank(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    fork = (
        "if step == 5 and os.fork() == 0:\n        try: optimizer.step()\n"
        "        except Exception as error: os.write(1, f'{error}\\n'.encode())\n        os._exit(0)"
    )
    done = team_run(tmp_path, fork, ranks=2)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("and is no rank itself: only the process that has called join() makes steps.") == 2
    assert sorted(re.findall(r"through \d", done.stdout)) == ["through 0", "through 1"]

"""Ranks of JAX as real processes: one is killed, another takes its place, and one compiles for all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ..bounded import PATIENCE

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="ranks beside each other need Linux"),
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.timeout(2 * PATIENCE),
]

HERE = Path(__file__).parent


def launched(script: str, *arguments: str, options: tuple[str, ...] = (), **variables: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "erasurehead.torch.run", "-n", "3", *options, str(HERE / script), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | variables)


def test_the_others_go_on_when_a_rank_is_killed_and_another_joins(tmp_path: Path) -> None:
    """One that does not gather is killed, and then the one that does."""
    stop = tmp_path / "stop"
    launcher = launched("rank.py", str(stop), options=("--restarts", "2", "--output", "plain"))
    said: list[dict[str, Any]] = []

    def listen() -> None:
        assert launcher.stdout is not None
        with launcher.stdout:
            said.extend(map(json.loads, launcher.stdout))

    def until(count: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while sum("up" in one for one in said) < count and launcher.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert sum("up" in one for one in said) >= count

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        until(3)
        for victim, there in ((1, 4), (0, 5)):
            os.kill(next(one["pid"] for one in said if one.get("up") == victim), signal.SIGKILL)
            until(there)
    finally:
        stop.touch()
        code = launcher.wait(PATIENCE)
        listener.join()
    ended = {one["ended"]: one for one in said if "ended" in one}
    assert code == 0
    assert set(ended) == {2, 3, 4}
    assert all(one["loss"] < 1e-3 and one["memory"] == "false" for one in ended.values())


def test_a_rank_reads_only_what_another_one_has_written_to_the_end(tmp_path: Path) -> None:
    launcher = launched("half_written.py", str(tmp_path), options=("--output", "plain"))
    out, _ = launcher.communicate(timeout=PATIENCE)
    said = [json.loads(line) for line in out.splitlines()]
    assert said == [{"total": 30.0, "told": []}] * 3


def test_one_rank_compiles_for_all() -> None:
    launcher = launched("compiling.py", options=("--output", "plain"), LAYERS="4")
    out, _ = launcher.communicate(timeout=PATIENCE)
    assert launcher.returncode == 0
    said = [json.loads(line) for line in out.splitlines()]
    assert sorted((one["compiled"], one["read"]) for one in said) == [(0, 1), (0, 1), (1, 0)]
    assert not Path(said[0]["folder"]).exists()

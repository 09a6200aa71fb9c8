"""Whatever a command makes is its user's only, on every engine, while it runs and afterwards, whatever the umask is."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from .._internal.storage.exposed import exposed
from ..bounded import PATIENCE
from ..engines.mpi_jobs import environment, job
from ..typed import other
from .shop import SMALL, Typed

RUN = ("train", "--data", "shop.csv", *other(SMALL, "--steps", 3))
PEERS = (
    "consensus",
    "--data",
    "shop.csv",
    "--categorical",
    "--loss",
    "logistic",
    "--peers",
    4,
    "--graph",
    "ring()",
    "--steps",
    3,
    "--no-against-full",
    "--batch",
    8,
)
LOSS = "import jax.numpy as jnp\ndef loss(w):\n    return jnp.sum(jnp.tanh(w) * jnp.arange(float(w.shape[0])))\n"

COMMANDS: list[tuple[object, ...]] = [
    (*RUN, "--out", "new/run", "--checkpoint-every", 1),
    (*RUN, "--scheme", "uncoded"),
    (
        "compare",
        "--data",
        "shop.csv",
        *other(SMALL, "--steps", 3),
        "-s",
        "uncoded",
        "-s",
        "exact(load=2)",
        "--out",
        "new/x",
    ),
    (*PEERS, "--out", "new/run"),
    ("shard", "shop.csv", "--categorical", "--tasks", 2, "--out", "new/shards"),
    ("plan", "--delays", "exponential(1)", "-w", 4, "-s", "exact(load=2)", "--out", "new/plan"),
    ("delays", "fit", "trace.csv", "--out", "new/x"),
    ("drill", "--data", "shop.csv", "--categorical", "-w", 4, "--seconds", 3, "--engine", "virtual", "--out", "new/x"),
    ("drill", "peers", "--policy", "local()", "--peers", 4, "--seconds", 5, "--out", "new/x"),
    ("decompile", "my.py:loss", "--example", "float32[3]", "--out", "new.py"),
    ("reproduce", "erasurehead", "--figure", "table1", "--synthetic", "always", "--out", "new/x"),
]


@pytest.fixture
def permissive() -> Generator[None]:
    """The umask of somebody who wants everybody to write everything."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.slow
@pytest.mark.usefixtures("permissive")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(map(str, command[:3])))
def test_what_a_command_makes_is_its_users_only(
    typed: Typed, shop: Path, tmp_path: Path, command: tuple[object, ...]
) -> None:
    if command[0] == "decompile":
        pytest.importorskip("jax")
    (tmp_path / "my.py").write_text(LOSS)
    (tmp_path / "trace.csv").write_text(
        "worker,step,seconds\n" + "".join(f"{k % 5},{k // 5},1.{k}\n" for k in range(50))
    )
    before = {*tmp_path.iterdir()}
    done = typed(*command)
    assert done.code == 0 or command[0] == "drill", done.err  # so short, one may find that a promise was broken
    new = {path.name for path in tmp_path.iterdir() if path not in before}
    assert new - {"__pycache__"}
    given = {str(path) for path in before} | {str(tmp_path / "__pycache__")}
    assert not [said for said in exposed(tmp_path) if not said.partition(" ")[2].startswith(tuple(given))]


@pytest.mark.slow
@pytest.mark.parametrize("command", [RUN, PEERS], ids=["train", "consensus"])
def test_pictures_and_checkpoints_are_for_whom_access_says(
    typed: Typed, shop: Path, tmp_path: Path, command: tuple[object, ...]
) -> None:
    before = os.umask(0o077)
    try:
        done = typed(*command, "--out", "run", "--access", "group")
    finally:
        os.umask(before)
    assert done.code == 0, done.err
    modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in (tmp_path / "run").rglob("*")}
    assert modes == {(True, 0o750), (False, 0o640)}


WATCHED = """
import os, sys
from pathlib import Path
os.umask(0)
sys.path.insert(0, sys.argv[3])
from erasurehead.engines import MPIEngine
if sys.argv[1] == "mpi":
    MPIEngine.serve_unless_coordinator()
from exposed import exposed
from erasurehead.runs import Experiment
from erasurehead.consensus import ConsensusCallback
from erasurehead.consensus._experiment import ConsensusExperiment
from erasurehead.training import Callback

if __name__ == "__main__":
    shared = Path("/dev/shm")
    before = set(os.listdir(shared))

    def look():
        found = [*exposed(Path(os.environ["TMPDIR"])), *exposed(Path("new"))]
        found += [said for said in exposed(shared) if said.split("/")[3] not in before]
        print(*found, sep="\\n")

    class Watch(Callback):
        def on_step_end(self, row, x):
            look()

    class WatchPeers(ConsensusCallback):
        def on_mean(self, row):
            look()

    tables = {
        "scheme": "uncoded()", "data": {"source": sys.argv[2], "categorical": True},
        "run": {"engine": sys.argv[1], "workers": 2, "steps": 3, "out": "new/run"},
        "checkpoints": {"every_steps": 1}, "optimizer": {"name": "nesterov", "rate": 0.1},
    }
    Experiment.from_config(tables).run([Watch()])
    if sys.argv[1] == "processes":
        of_peers = {
            "data": tables["data"], "problem": {"loss": "logistic"}, "run": {**tables["run"], "out": "new/peers"},
            "consensus": {"peers": 3, "graph": "ring()"}, "delays": {"model": "none()"},
        }
        del of_peers["run"]["workers"]
        ConsensusExperiment.from_tables(of_peers).run([WatchPeers()])
    print("through")
"""


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize(
    "engine",
    [
        "processes",
        pytest.param("mpi", marks=pytest.mark.xdist_group("mpi")),
        pytest.param("ray", marks=pytest.mark.xdist_group("ray")),
    ],
)
def test_nothing_of_a_run_can_be_reached_by_others_while_it_runs(shop: Path, tmp_path: Path, engine: str) -> None:
    if engine == "ray":
        pytest.importorskip("ray")
    script = tmp_path / "script.py"
    script.write_text(WATCHED)
    with tempfile.TemporaryDirectory(prefix="eh-") as short:  # as Ray's sockets need it
        words = [script, engine, shop, Path(__file__).parents[1] / "_internal" / "storage"]
        command = job(3, *words) if engine == "mpi" else [sys.executable, *words]
        done = subprocess.run(
            list(map(str, command)),
            cwd=tmp_path,
            env=environment(Path(short)),
            text=True,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    said = done.stdout.split("\n")
    assert "through" in said, done.stderr
    assert [line for line in said if line] == ["through"]

"""What launchers say of the processes that they start; the variables are copied from real starts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from erasurehead.errors import ErasureHeadError
from erasurehead.torch._launchers import Started, started

from ..bounded import PATIENCE
from ..engines import mpi_jobs

TORCHRUN = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "MASTER_ADDR": "10.0.0.7",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_RESTART_COUNT": "0",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "3",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
    "PMIX_NAMESPACE": "prterun-host-1234@1",
    "PMIX_RANK": "3",
}
MPICH = {
    "PMI_RANK": "1",
    "PMI_SIZE": "2",
    "MPI_LOCALRANKID": "1",
    "MPI_LOCALNRANKS": "2",
    "PMI_PORT": "host:40123",
    "PMI_ID": "1",
}
SRUN = {
    "SLURM_PROCID": "9",
    "SLURM_STEP_NUM_TASKS": "11",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "2",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2),3",
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_ID": "0",
}


@pytest.mark.parametrize(
    ("environment", "numbers", "by"),
    [
        (TORCHRUN, (5, 8, 1, 4), "torchrun"),
        (TORCHRUN | {"ERASUREHEAD_TEAM": "x"}, (5, 8, 1, 4), "erasurehead.torch.run"),
        (OPEN_MPI, (3, 4, 3, 4), "mpiexec (Open MPI)"),
        (MPICH, (1, 2, 1, 2), "mpiexec (MPICH)"),
        (SRUN, (9, 11, 1, 3), "srun"),
        (TORCHRUN | SRUN, (5, 8, 1, 4), "torchrun"),  # torchrun started by srun
        ({"RANK": "0", "WORLD_SIZE": "1"}, (0, 1, 0, 1), "torchrun"),
    ],
)
def test_ranks_are_numbered_as_the_launcher_numbers_them(
    environment: dict[str, str], numbers: tuple[int, int, int, int], by: str
) -> None:
    found = started(environment)
    assert found is not None
    assert (found.rank, found.size, found.local_rank, found.local_size) == numbers
    assert found.by == by


def test_where_no_launcher_says_anything_one_is_alone() -> None:
    assert started({}) is None
    batch_script = {name: value for name, value in SRUN.items() if not name.startswith("SLURM_STEP")}
    assert started(batch_script) is None


def test_a_team_is_told_from_others_and_the_same_for_its_ranks() -> None:
    def team(environment: dict[str, str]) -> str:
        found = started(environment)
        assert isinstance(found, Started)
        return found.team

    assert team(TORCHRUN) == team(TORCHRUN | {"RANK": "2", "LOCAL_RANK": "0"})
    for change in ({"MASTER_PORT": "29501"}, {"TORCHELASTIC_RESTART_COUNT": "1"}, {"ERASUREHEAD_TEAM": "other"}):
        assert team(TORCHRUN) != team(TORCHRUN | change)
    assert team(OPEN_MPI) != team(OPEN_MPI | {"PMIX_NAMESPACE": "prterun-host-1234@2"})
    assert team(SRUN) != team(SRUN | {"SLURM_STEP_ID": "1"})


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        (TORCHRUN | {"RANK": "8"}, r"torchrun says that this is rank 8 \(RANK\) of 8 \(WORLD_SIZE\), and ranks count"),
        (TORCHRUN | {"RANK": "-1"}, "torchrun says which rank this is, but RANK is '-1', where a number of at least 0"),
        (TORCHRUN | {"WORLD_SIZE": ""}, "but WORLD_SIZE is '', where a number"),
        ({"RANK": "1"}, "but WORLD_SIZE is not set, where a number"),
        (
            {"RANK": "1", "WORLD_SIZE": "2", "MASTER_PORT": "1"},
            r"how many of them are on this host \(LOCAL_RANK does",
        ),
        (TORCHRUN | {"LOCAL_RANK": "4"}, "number 4 of 4 ranks on its host, and that there are 8 in all, which cannot"),
        ({n: v for n, v in OPEN_MPI.items() if "PMIX" not in n}, "one start can be told from another .* set ERASURE"),
        ({"PMIX_RANK": "3"}, "with PMIx has started this process as rank 3 .* does not say of how many"),
        (SRUN | {"SLURM_STEP_TASKS_PER_NODE": ""}, "how many of them are on this host"),
        (SRUN | {"SLURM_STEP_TASKS_PER_NODE": "4"}, "how many of them are on this host"),
    ],
)
def test_what_makes_no_sense_is_said_in_a_sentence(environment: dict[str, str], why: str) -> None:
    with pytest.raises(ErasureHeadError, match=why):
        started(environment)


@pytest.mark.parametrize(
    ("nodes", "host"),
    [
        ("node3", "node3"),
        ("node[03-05,07],big1", "node03"),
        ("a1,b[2-3]", "a1"),
        ("rack[7]-ib", "rack7-ib"),
        ("r[1-2]n[3-4]", None),
        ("", None),
    ],
)
def test_srun_says_on_which_host_rank_0_is(nodes: str, host: str | None) -> None:
    found, other = started(SRUN | {"SLURM_STEP_NODELIST": nodes}), started(SRUN | {"SLURM_JOB_ID": "78"})
    assert found is not None
    assert other is not None
    if host is None:
        assert found.contact is None
    else:
        assert found.contact is not None
        assert found.contact[0] == host
        assert 20_000 <= found.contact[1] < 30_000  # the same for all ranks, and hardly ever for another job
        given = started(SRUN | {"SLURM_STEP_NODELIST": nodes, "MASTER_ADDR": "there", "MASTER_PORT": "29500"})
        assert given is not None
        assert given.contact == ("there", 29_501)


SAY = (
    "import json, sys\nfrom dataclasses import asdict\nfrom erasurehead.torch._launchers import started\n"
    "sys.stdout.write(json.dumps(asdict(started())) + '\\n')"
)


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        [sys.executable, "-m", "erasurehead.torch.run", "-n", "3", "--output", "plain"],
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3"],
        [mpi_jobs.MPIEXEC, "--oversubscribe", "-n", "3", sys.executable],
        ["srun", "-n", "3", sys.executable],
        [sys.executable, str(Path(__file__).with_name("stand_in_srun.py")), "-n", "3", sys.executable],
    ],
    ids=["ours", "torchrun", "mpiexec", "srun", "what stands in for srun"],
)
def test_real_launchers(command: list[str], tmp_path: os.PathLike[str]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not here")
    if "torch.distributed.run" in command:
        pytest.importorskip("torch")
    path = os.path.join(tmp_path, "say.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(SAY)
    within = mpi_jobs.environment(Path(tmp_path))
    done = subprocess.run([*command, path], capture_output=True, text=True, timeout=PATIENCE, check=False, env=within)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert sorted(one["rank"] for one in found) == [0, 1, 2]
    assert sorted(one["local_rank"] for one in found) == [0, 1, 2]
    assert {(one["size"], one["local_size"]) for one in found} == {(3, 3)}
    assert len({one["team"] for one in found}) == 1


BY_MPI = """
import os, sys
os.environ["OMPI_COMM_WORLD_LOCAL_SIZE"], os.environ["OMPI_COMM_WORLD_LOCAL_RANK"] = "1", "0"  # each a host of its own
import torch
import erasurehead.torch as eht
try:
    eht.join(trusted_network=True)
except Exception as error:
    os.write(1, f"{error}\\n".encode())
import mpi4py.MPI
team = eht.join(trusted_network=True)
model = torch.nn.Linear(2, 1)
optimizer = team.optimizer(torch.optim.SGD(model.parameters(), 0.1), model)
for step in range(20):
    optimizer.zero_grad()
    model(torch.ones(4, 2)).square().mean().backward()
    optimizer.step()
team.close()
os.write(1, b"trained\\n")
"""


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.usefixtures("quick_start")
def test_ranks_of_several_hosts_find_the_first_one_by_mpi_and_without_it_are_told_so(tmp_path: Path) -> None:
    for needed in ("torch", "zmq"):
        pytest.importorskip(needed)
    path = tmp_path / "train.py"
    path.write_text(BY_MPI, encoding="utf-8")
    command = mpi_jobs.job(2, path, ft=False)
    within = mpi_jobs.environment(tmp_path)
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=within)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("or import mpi4py.MPI before join(), by which ranks find the first one.") == 2
    assert done.stdout.count("trained") == 2, done.stdout + done.stderr

"""Where a coordinator of MPI would have nobody to coordinate, it is said why, with what would work."""

from __future__ import annotations

from typing import Any

import pytest

from erasurehead.engines._mpi.rendezvous import check_place
from erasurehead.errors import EngineError


class Alone:
    """A communicator of one rank, as MPI has it in a process that no launcher of its own has started."""

    def Get_size(self) -> int:
        return 1

    def Get_rank(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        (None, "mpiexec -n 31, or under SLURM srun -n 31, for 30"),
        ("1", "mpiexec -n 31, or under SLURM srun -n 31, for 30"),
        ("5", r"srun has started 5 tasks, but MPI was not told.*srun --mpi=pmix .*mpiexec"),
    ],
)
def test_a_rank_that_is_alone_is_told_how_jobs_are_started(
    tasks: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone: Any = Alone()
    monkeypatch.delenv("SLURM_STEP_NUM_TASKS", raising=False)
    if tasks is not None:
        monkeypatch.setenv("SLURM_STEP_NUM_TASKS", tasks)
    with pytest.raises(EngineError, match=said):
        check_place(alone)

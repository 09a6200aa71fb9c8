"""Run a script as a rank and tell what became of it: `stack_rank.py FOLDER DIES SCRIPT ARGUMENTS ...`.

Writes the rank's model of the team to FOLDER, and a line of JSON. Rank 1 is killed in its step number DIES, unless that
is 0; the others wait for it in their step of that number, as quick ones could have trained on everything by then.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

import erasurehead.torch as eht


def main() -> None:
    folder, dies, *words = sys.argv[1:]
    rank = int(os.environ["RANK"])
    groups, teams, steps = list[Any](), list[eht.Team](), list[Any]()
    make_group, join = torch.distributed.init_process_group, eht.join

    def making(*args: Any, **options: Any) -> Any:
        groups.append(args)
        return make_group(*args, **options)

    def joining() -> eht.Team:
        teams.append(join())
        Path(folder, f"{rank} has joined").touch()  # none ends before another has begun, however late that is
        wait_for(*(f"{other} has joined" for other in range(int(os.environ["WORLD_SIZE"]))))
        return teams[-1]

    def stepping(*_: Any) -> None:
        steps.append(None)
        if len(steps) == int(dies):
            if rank == 1:
                Path(folder, "1 dies").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            wait_for("1 dies")

    def wait_for(*names: str) -> None:
        deadline = time.monotonic() + 250.0
        while missing := [name for name in names if not Path(folder, name).exists()]:
            assert time.monotonic() < deadline, missing
            time.sleep(0.01)

    torch.distributed.init_process_group, eht.join = making, joining
    register_optimizer_step_pre_hook(stepping)
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")
    for team in teams:
        torch.save(team.model().state_dict(), Path(folder, f"{rank}.pt"))
    told = {"rank": rank, "groups": len(groups), "steps": len(steps), "size": [team.size for team in teams]}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()

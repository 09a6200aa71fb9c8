"""Start ranks as `srun` does on one host, where it is not installed: its variables, and what it does when one dies.

    python stand_in_srun.py -n 3 --kill-on-bad-exit=0 COMMAND ...

With `--kill-on-bad-exit=1` all are ended when one ends with an error or by a signal. The exit code is the greatest of
the tasks'; 128 and the signal's number for one that was killed.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, required=True)
    parser.add_argument("--kill-on-bad-exit", type=int, default=0)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    step = {
        "SLURM_STEP_NUM_TASKS": options.n,
        "SLURM_STEP_TASKS_PER_NODE": options.n,
        "SLURM_NODEID": 0,
        "SLURM_JOB_ID": os.getpid(),
        "SLURM_STEP_ID": 0,
        "SLURM_STEP_NODELIST": socket.gethostname(),
    }
    tasks: list[subprocess.Popen[bytes]] = []
    for number in range(options.n):
        own = step | {"SLURM_PROCID": number, "SLURM_LOCALID": number}
        environment = os.environ | {name: str(value) for name, value in own.items()}
        tasks.append(subprocess.Popen(options.command, env=environment))

    def end(number: int, _: object = None) -> None:
        for task in tasks:
            if task.poll() is None:
                task.send_signal(number)

    signal.signal(signal.SIGTERM, end)
    while any(task.poll() is None for task in tasks):
        if options.kill_on_bad_exit and any(task.poll() for task in tasks):
            end(signal.SIGKILL)
        time.sleep(0.02)
    return max(code if code >= 0 else 128 - code for code in (task.wait() for task in tasks))


if __name__ == "__main__":
    sys.exit(main())

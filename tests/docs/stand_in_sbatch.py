"""Run a batch script at once, on this host, as `sbatch --wait` would where SLURM is installed.

    python stand_in_sbatch.py --wait job.sbatch ARGUMENTS ...

Its output goes to the file that `#SBATCH --output` names, `slurm-1.out` if none is named.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path


def options(script: str) -> dict[str, str]:
    """Return what the lines `#SBATCH --name=value` of a script say, above its first command."""
    head = re.match(r"(?:#[^\n]*\n|\s*\n)*", script)
    lines = head[0].splitlines() if head else []
    found = (re.match(r"#SBATCH --([\w-]+)(?:=(\S+))?", line) for line in lines)
    return {one[1]: one[2] or "" for one in found if one}


def main() -> int:
    script, *arguments = [word for word in sys.argv[1:] if word != "--wait"]
    said = options(Path(script).read_text(encoding="utf-8"))
    nodes, per_node = int(said.get("nodes", 1)), int(said.get("ntasks-per-node", 1))
    ntasks = int(said.get("ntasks", nodes * per_node))
    job = {
        "SLURM_JOB_ID": "1",
        "SLURM_JOB_NAME": said.get("job-name", Path(script).name),
        "SLURM_NTASKS": str(ntasks),
        "SLURM_JOB_NUM_NODES": str(nodes),
        "SLURM_NNODES": str(nodes),
        "SLURM_CPUS_PER_TASK": said.get("cpus-per-task", "1"),
        "SLURM_JOB_NODELIST": os.uname().nodename,
        "SLURM_SUBMIT_DIR": os.getcwd(),
    }
    sys.stdout.write("Submitted batch job 1\n")
    sys.stdout.flush()
    with Path(said.get("output", "slurm-%j.out").replace("%j", "1")).open("wb") as out:
        command = ["bash", script, *arguments]
        return subprocess.run(command, stdout=out, stderr=out, env=os.environ | job, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

"""
A plan: time against what is lost
=================================

``erasurehead plan`` simulates codes and ways of waiting on a trace or a law of the delays. Settings on the front
are those that nothing else beats in both; the bars are the first of its ranking. :doc:`/planning` explains the
page that it prints.

With a trace and data of your own::

    erasurehead plan --trace latencies.csv --data houses.csv --label price --out plan
"""

import shlex
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

folder = TemporaryDirectory()
command = """
    erasurehead plan --delays 'exponential(mean=0.5, seed=0)' --workers 12 --seconds-per-task 0.02
    --out plan
"""
print(subprocess.run(shlex.split(command), check=True, capture_output=True, text=True, cwd=folder.name).stdout)

plan = Path(folder.name) / "plan"
pictures = {
    plan / "tradeoff.png": "Settings by time of a step and residual, and the first of the ranking",
}

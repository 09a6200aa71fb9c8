"""
A comparison of schemes
=======================

What ``erasurehead compare`` draws: the metric against time, how long a step takes, how many times as fast each
scheme is, and the work of each worker in the first steps. The second picture is the gap of the objective, down to
where each run stays.

The pictures of :doc:`/results-schemes`, in full::

    erasurehead compare --steps 60 --delays 'exponential(mean=0.3, seed=0)' --target auc=0.84 --engine virtual
    erasurehead compare --data amazon --engine virtual -s uncoded -s 'exact(load=3)' \\
        -s 'erasurehead(load=3, wait_for=11)' -s adaptive --target auc=0.84
"""

import shlex
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

folder = TemporaryDirectory()
command = """
    erasurehead compare --engine virtual --synthetic always --rows 1000 --steps 60
    --scheme uncoded --scheme 'exact(load=3)' --scheme 'erasurehead(load=3, wait_for=11)'
    --delays 'exponential(mean=0.3, seed=0)' --workers 30 --out race
"""
print(subprocess.run(shlex.split(command), check=True, capture_output=True, text=True, cwd=folder.name).stdout)

figures = Path(folder.name) / "race" / "figures"
pictures = {
    figures / "comparison.png": "AUC against time, time per step, speed-up, and the work of each worker",
    figures / "gap.png": "Gap of the objective against time, for three schemes",
}

"""
Delays: which law fits a trace
==============================

``erasurehead delays fit`` fits seven families to the latencies of a cluster, ranks them, and names the workers
that are always slow. On the left, points on the diagonal fit; on the right, how often an answer takes longer than
so many seconds.

With a trace of your own (:doc:`/delays`)::

    erasurehead delays fit latencies.csv --out fits
"""

import shlex
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

folder = TemporaryDirectory()
seconds = 0.05 + np.random.default_rng(0).lognormal(-2.0, 0.8, size=(200, 12))
seconds[:, 7] *= 3.0  # one worker is always slow
rows = [f"{worker},{step},{seconds[step, worker]:.4f}" for step in range(200) for worker in range(12)]
(Path(folder.name) / "latencies.csv").write_text("\n".join(["worker,step,seconds", *rows]))

command = "erasurehead delays fit latencies.csv --out fits"
print(subprocess.run(shlex.split(command), check=True, capture_output=True, text=True, cwd=folder.name).stdout)

pictures = {
    Path(folder.name) / "fits" / "fits.png": "Probability plot of seven fitted laws, and the tails of trace and laws",
}

"""
Figure 2: convergence and the time of a step
============================================

Figure 2 of the ErasureHead paper, on all three data sets: the metric on the test rows against time, and below it
how long a step takes, beside what theory expects. Each worker is late by an exponential time of mean 0.5 s.

In full, with the public data where they are available::

    erasurehead reproduce erasurehead --figure 2

``--figure 2a`` to ``2f`` draw a single panel, and ``--engine processes`` waits in real time. :doc:`/reproduction`
says what came out.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from erasurehead.papers import reproduce

folder = TemporaryDirectory()
made = reproduce(
    "erasurehead", ["2"], Path(folder.name) / "figure-2", engine="virtual", synthetic="always", rows=2_000, steps=40
)

pictures = {
    made.folder / "figure-2.png": "Test metric against time, and the time of a step, on three data sets",
}

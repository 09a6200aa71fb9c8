"""
Figure 3: speed-ups over uncoded training
=========================================

Figure 3 of the ErasureHead paper: the time to a metric that all methods reach, over that of uncoded gradient
descent, for exact codes (EGC) and for ErasureHead (AGC), with two, three and five tasks a worker. Three seeds of
the delays.

In full::

    erasurehead reproduce erasurehead --figure 3
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from erasurehead.papers import reproduce

folder = TemporaryDirectory()
made = reproduce("erasurehead", ["3"], Path(folder.name) / "figure-3", synthetic="always", rows=2_000, steps=40)

pictures = {
    made.folder / "figure-3.png": "Speed-ups of exact codes and ErasureHead over uncoded training",
}

"""
Figure 4: what redundancy costs where nobody is late
====================================================

Figure 4 of the ErasureHead paper has no simulated stragglers: on the paper's machines some were slow by
themselves. On a virtual clock nobody is, and redundancy only costs.

In full, and on real processes, which may be slow by themselves::

    erasurehead reproduce erasurehead --figure 4
    erasurehead reproduce erasurehead --figure 4 --engine processes
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from erasurehead.papers import reproduce

folder = TemporaryDirectory()
made = reproduce("erasurehead", ["4"], Path(folder.name) / "figure-4", synthetic="always", rows=2_000, steps=40)

pictures = {
    made.folder / "figure-4.png": "Test metric against time, and the time of a step, without simulated stragglers",
}

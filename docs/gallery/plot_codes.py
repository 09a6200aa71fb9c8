"""
Codes: what stragglers take away
================================

``erasurehead codes compare`` shows how much of the gradient is lost when workers are missing, at random and at the
choice of an adversary. :doc:`/choosing_a_code` says what follows from that.

In full, with more straggler sets::

    erasurehead codes compare 'fractional_repetition(30, load=3)' 'cyclic_repetition(30, stragglers=2)' \\
        'regular(30, load=3)' --stragglers 1-15 --out codes
"""

import shlex
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

folder = TemporaryDirectory()
command = """
    erasurehead codes compare 'fractional_repetition(30, load=3)' 'cyclic_repetition(30, stragglers=2)'
    'regular(30, load=3)' --stragglers 1,2,3,4,6,8,10,12 --samples 100 --effort 100 --out codes
"""
print(subprocess.run(shlex.split(command), check=True, capture_output=True, text=True, cwd=folder.name).stdout)

codes = Path(folder.name) / "codes"
pictures = {
    codes / "residual.png": "Share of the gradient that random stragglers take away, for three codes",
    codes / "adversary.png": "Share of the gradient that the worst stragglers take away, for three codes",
}

"""
A fault drill
=============

``erasurehead drill`` makes the same run twice, without faults and with them, and draws when each fault struck
whom, and how far the faulty run has fallen behind. :doc:`/drills` explains the verdicts.

In full, ten minutes of virtual time with all kinds of faults::

    erasurehead drill --figures
"""

import shlex
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

folder = TemporaryDirectory()
command = "erasurehead drill --seconds 60 --kinds kill,stop,slow,corrupt --figures --out drill"
print(subprocess.run(shlex.split(command), check=True, capture_output=True, text=True, cwd=folder.name).stdout)

pictures = {
    Path(folder.name) / "drill" / "drill.png": "Faults on their workers, and the steps of baseline and faulty run",
}

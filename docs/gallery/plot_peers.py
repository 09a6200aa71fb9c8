"""
Peers: links, progress and consensus
====================================

``erasurehead consensus`` draws which neighbours each peer waited for, and how the peers' mean model and their
distance from it go on, beside the same run that waits for everybody. Peer 0 is five times slower than the others.

In full (:doc:`/consensus`)::

    erasurehead consensus --data mnist --peers 10 --steps 200
"""

import shlex
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

folder = TemporaryDirectory()
command = """
    erasurehead consensus --engine virtual --synthetic always --rows 1000 --peers 8 --steps 40
    --out peers
"""
print(subprocess.run(shlex.split(command), check=True, capture_output=True, text=True, cwd=folder.name).stdout)

figures = Path(folder.name) / "peers" / "figures"
pictures = {
    figures / "links.png": "How often each peer waited for each of its neighbours",
    figures / "consensus.png": "Objective and distance from consensus against time, beside a run that waits for all",
}

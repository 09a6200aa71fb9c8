"""
Without a coordinator: dynamic backup workers
=============================================

The setting of cb-DyBW (Xiong, Yan, Singh and Li, 2021): six peers, each with a model of its own, average with
their neighbours in a random graph, and in each step one of them is five times slower. Against the iterations of
each peer, waiting for everybody learns fastest; against time it is last.

In full, for MNIST and CIFAR-10, two models, and six and ten peers::

    erasurehead reproduce dybw
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from erasurehead.papers import reproduce

folder = TemporaryDirectory()
made = reproduce("dybw", ["mnist-lrm-6"], Path(folder.name) / "dybw", synthetic="always", rows=2_000, steps=30)

pictures = {
    made.folder / "mnist-lrm-6-iterations.png": "Loss against the iterations of each peer, for five policies",
    made.folder / "mnist-lrm-6-time.png": "Loss against time, for five policies",
}

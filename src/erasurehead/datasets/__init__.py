"""Public data sets, your own files and synthetic stand-ins as design matrices, with their fitted encodings.

`load` reads the data sets of the ErasureHead paper, `synthetic` makes data of the same shape, `read` reads your own
files and frames, and `shard` cuts a file that may be larger than memory into one per task. All but that return a
`Dataset`, whose encoding is saved with a model and applied to new files. The room knows nothing of training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.datasets._base import Dataset as Dataset
    from erasurehead.datasets._published.public import load as load
    from erasurehead.datasets._published.synthetic import synthetic as synthetic
    from erasurehead.datasets._reading import read as read
    from erasurehead.datasets._sharded.writing import shard as shard

__getattr__, __dir__ = lazy_names(__name__)

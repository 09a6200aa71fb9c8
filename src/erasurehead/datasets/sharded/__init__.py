"""Data where the workers are: a file cut into one file a task, with a manifest that says what they are.

`shard` cuts a file that may be larger than memory; `ShardFolder` reads what it made; `ShardedDataset` is such a folder
as something to learn from. `erasurehead.problems.sharded` trains on it.
"""

from erasurehead.datasets.sharded.dataset import ShardedDataset as ShardedDataset
from erasurehead.datasets.sharded.folder import ShardFolder as ShardFolder
from erasurehead.datasets.sharded.folder import is_sharded as is_sharded
from erasurehead.datasets.sharded.manifest import Manifest as Manifest
from erasurehead.datasets.sharded.writing import shard as shard

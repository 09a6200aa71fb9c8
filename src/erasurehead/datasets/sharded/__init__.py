"""Data where the workers are: a file cut into one file per task, with a manifest that describes them.

`shard` cuts a file that may be larger than memory; `ShardFolder` reads the result; `ShardedDataset` is such a folder
as a data set. `erasurehead.problems.sharded` trains on it.
"""

from erasurehead.datasets.sharded.dataset import ShardedDataset as ShardedDataset
from erasurehead.datasets.sharded.folder import ShardFolder as ShardFolder
from erasurehead.datasets.sharded.folder import is_sharded as is_sharded
from erasurehead.datasets.sharded.manifest import ShardManifest as ShardManifest
from erasurehead.datasets.sharded.writing import shard as shard

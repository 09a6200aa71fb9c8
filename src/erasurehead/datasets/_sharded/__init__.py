"""Data where the workers are: a file cut into one file per task, with a manifest that describes them.

`shard` cuts a file that may be larger than memory; `ShardFolder` is the result as a data set.
`erasurehead.problems._sharded` trains on it.
"""

from erasurehead.datasets._sharded.folder import ShardFolder as ShardFolder, is_sharded as is_sharded
from erasurehead.datasets._sharded.in_place import in_place as in_place
from erasurehead.datasets._sharded.manifest import ShardManifest as ShardManifest
from erasurehead.datasets._sharded.writing import shard as shard

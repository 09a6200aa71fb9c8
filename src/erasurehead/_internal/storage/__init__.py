"""Folders that are not trusted: nothing in them leads out of them, and damage to them is detected.

Run folders, checkpoints, shards and figures are all opened here: relative to the folder's own descriptor, without
following links, and regular files only.
"""

from erasurehead._internal.storage.access import ACCESS as ACCESS, Access as Access
from erasurehead._internal.storage.folders import Folder as Folder
from erasurehead._internal.storage.names import is_name as is_name

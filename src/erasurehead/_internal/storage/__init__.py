"""Folders that may come from anybody: nothing in them leads out of them, and what is damaged in them is noticed.

Run folders, checkpoints, shards and figures are all opened here: relative to the folder's own descriptor, without
following a link, and nothing but regular files.
"""

from erasurehead._internal.storage.access import ACCESS as ACCESS
from erasurehead._internal.storage.access import Access as Access
from erasurehead._internal.storage.folders import Folder as Folder
from erasurehead._internal.storage.names import is_name as is_name

"""Whether this system can map pages in advance: Linux can since its version 5.14."""

from __future__ import annotations

import mmap
import sys

from erasurehead.engines._shared_memory import _POPULATE_WRITE  # pyright: ignore[reportPrivateUsage]


def maps_in_advance() -> bool:
    if sys.platform != "linux":
        return False
    try:
        mmap.mmap(-1, mmap.PAGESIZE).madvise(_POPULATE_WRITE)
    except OSError:
        return False
    return True

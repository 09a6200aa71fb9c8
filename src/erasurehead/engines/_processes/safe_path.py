"""Where workers import from: what the coordinator's own path says, and no file that happens to lie in the folder.

The server that workers are forked from is started as `python -c ...`, for which Python puts the current folder before
everything else: a file `numpy.py` there would be imported in place of numpy. Workers themselves take over the path of
the coordinator, so that what lies beside the user's script is found as it was there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator

_SWITCH, _OURS = "PYTHONSAFEPATH", "erasurehead"


@contextlib.contextmanager
def safe_path() -> Generator[None]:
    """Let Python processes that are started in this block leave the current folder out of their path."""
    before = os.environ.get(_SWITCH)
    if before:
        yield
        return
    os.environ[_SWITCH] = _OURS
    try:
        yield
    finally:
        del os.environ[_SWITCH]
        if before is not None:
            os.environ[_SWITCH] = before


def forget() -> None:
    """Take the switch out of this process's environment, if it is ours: what a user's code starts is not our affair."""
    if os.environ.get(_SWITCH) == _OURS:
        del os.environ[_SWITCH]

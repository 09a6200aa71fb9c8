"""What the system tells of a process: Linux does, others nothing."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

_LONGEST = 1.0  # seconds that a process may take to stop
_GLANCE = 0.001  # seconds between two looks at it


def state_of(pid: int) -> str:
    """Return the letter of a process's state, such as `"T"` where it is stopped; empty where nothing is told."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    return status.rpartition(")")[2].split()[0]


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped, as far as the system tells."""
    return state_of(pid) in ("T", "t")


def stop(pid: int) -> None:
    """Stop a process. It stops a moment after the signal; what it is sent then, it might still answer.

    Raises:
        ProcessLookupError: if there is none.
    """
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + _LONGEST
    while state_of(pid) not in ("", "T", "t", "Z", "X") and time.monotonic() < deadline:
        time.sleep(_GLANCE)

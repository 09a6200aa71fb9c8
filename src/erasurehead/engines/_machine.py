"""Which processes run on the same machine."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def machine() -> str:
    """Return a text that two processes have in common exactly if they run on the same machine.

    They then see the same clock and the same process ids, and can share memory.
    """
    host = socket.gethostname()
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{host} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return host

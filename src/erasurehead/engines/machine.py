"""Which processes run beside each other."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def machine() -> str:
    """Return what two processes have in common if they run beside each other.

    They then see the same clock and the same process numbers, and can share memory.
    """
    host = socket.gethostname()
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{host} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return host

"""A cable between two network interfaces that delays and loses frames, where the kernel has no netem to do so.

    python slow_cable.py A B SECONDS JITTER LOSS

Both are TAP devices of this network namespace; each frame takes so long, more or less, and is lost so often.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time

_SET_NAME, _TAP, _NO_HEAD = 0x400454CA, 0x0002, 0x1000  # of linux/if_tun.h
_LONGEST = 1 << 16


def opened(name: str) -> int:
    """Return a TAP device as a file that frames are read from and written to."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _SET_NAME, struct.pack("16sH22x", name.encode(), _TAP | _NO_HEAD))
    return device


def main(one: str, other: str, seconds: float, jitter: float, loss: float) -> None:
    first, second = opened(one), opened(other)
    across = {first: second, second: first}
    latest = dict.fromkeys(across, 0.0)
    under_way: list[tuple[float, int, int, bytes]] = []
    drawn, count = random.Random(1), 0
    print("plugged", flush=True)
    while True:
        left = max(under_way[0][0] - time.monotonic(), 0.0) if under_way else None
        for device in select.select(list(across), [], [], left)[0]:
            frame = os.read(device, _LONGEST)
            if drawn.random() >= loss:
                count += 1
                due = time.monotonic() + max(seconds + jitter * drawn.uniform(-1.0, 1.0), 0.0)
                latest[device] = max(latest[device], due)  # frames stay in order, as in most networks
                heapq.heappush(under_way, (latest[device], count, across[device], frame))
        while under_way and under_way[0][0] <= time.monotonic():
            _, _, device, frame = heapq.heappop(under_way)
            try:
                os.write(device, frame)
            except OSError:  # its queue is full, or it is down: the frame is lost
                continue


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(float, sys.argv[3:6]))

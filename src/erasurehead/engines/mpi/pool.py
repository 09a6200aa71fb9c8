"""Frames to receive into, used again and again: fresh memory costs more than what is written into it."""

from __future__ import annotations

from collections import defaultdict

from erasurehead.engines.mpi.wire import Frame, new_frame


class Pool:
    """Frames that are free, by their size."""

    def __init__(self) -> None:
        self._free: dict[int, list[Frame]] = defaultdict(list)

    def take(self, n_bytes: int) -> Frame:
        """Return a frame of so many bytes that nobody else has."""
        free = self._free[n_bytes]
        return free.pop() if free else new_frame(n_bytes)

    def give(self, frame: Frame) -> None:
        """Give back a frame."""
        self._free[len(frame)].append(frame)

    def clear(self) -> None:
        """Forget all frames that are free."""
        self._free.clear()

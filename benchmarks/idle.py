"""A process that says that it is there, and waits. On its own, so that starting it imports nothing else."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it to be true; importing it would load `typing`

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


def idle(pipe: Connection) -> None:
    """Send a byte, wait for one, and end."""
    pipe.send_bytes(b"!")
    pipe.recv_bytes()

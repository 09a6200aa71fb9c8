"""A process that says that it is there, and waits. On its own, so that starting it imports nothing else."""


def idle(pipe) -> None:  # type: ignore[no-untyped-def]  # the type would be an import
    """Send a byte, wait for one, and end."""
    pipe.send_bytes(b"!")
    pipe.recv_bytes()

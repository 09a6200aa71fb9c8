"""The keys of a team: made from a secret that all of its ranks have, so that nobody else is let in."""

from __future__ import annotations

import hashlib
import importlib
import os
import stat
from pathlib import Path
from typing import Any, NamedTuple

from erasurehead.errors import invalid
from erasurehead.torch._endpoints._base import VERSION

_LEAST_SECRET = 16


class Keys(NamedTuple):
    """Public and secret keys, as ZeroMQ takes them: of those who listen, and of those who call."""

    listener: tuple[bytes, bytes]
    caller: tuple[bytes, bytes]

    @classmethod
    def of_team(cls, team: str, secret: bytes) -> Keys:
        """Return the keys of a team.

        Arguments:
            team: its name.
            secret: what only its ranks know.
        """
        zmq: Any = importlib.import_module("zmq")
        z85: Any = importlib.import_module("zmq.utils.z85")

        def pair(use: str) -> tuple[bytes, bytes]:
            salt = f"erasurehead {VERSION} {use} {team}".encode()
            own = z85.encode(hashlib.scrypt(secret, salt=salt, n=1 << 14, r=8, p=1, dklen=32))
            return zmq.curve_public(own), own

        return cls(pair("listens"), pair("calls"))


def read_secret(secret_file: str | os.PathLike[str] | None, trusted_network: bool) -> bytes | None:
    """Return the secret of a team; None where the network is trusted.

    Arguments:
        secret_file: the file that holds it; None for none.
        trusted_network: whether a team may do without.

    Raises:
        InvalidArgument: if there is neither a secret nor trust, or the secret is none.
    """
    if secret_file is None:
        if trusted_network:
            return None
        raise invalid(
            "secret_file",
            "must be given where ranks are on several hosts",
            None,
            "write a secret to a file that only you can read (head -c 32 /dev/urandom > secret; chmod 600 secret), the "
            "same on all hosts; or say trusted_network=True if nobody else can reach these hosts' ports",
        )
    path = Path(secret_file)
    try:
        status, secret = path.stat(), path.read_bytes().strip()
    except OSError as error:
        raise invalid("secret_file", f"must be a file that can be read ({error.strerror})", str(path)) from None
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise invalid("secret_file", "must be readable by its owner only", str(path), f"chmod 600 {path}")
    if len(secret) < _LEAST_SECRET:
        raise invalid("secret_file", f"must hold at least {_LEAST_SECRET} bytes", str(path))
    return secret

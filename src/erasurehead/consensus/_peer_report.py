"""What a peer in a worker reports to the driver of a run, as bytes in a message."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.consensus._rows import PeerRow

MAX_ROWS = 256
"""Largest number of steps in a report."""


@dataclass(frozen=True, eq=False)
class PeerReport:
    """What a peer has done since its last report.

    Attributes:
        until: the moment up to which the report is complete, in seconds since training began.
        rows: its steps that ended since the last report, ascending.
        messages: total number of messages it had sent when its model last changed before `until`; `vectors` of them
            carried a model.
        vectors: see `messages`.
        gradient_seconds: total processor seconds it had spent on gradients by then.
        last: whether this is its last report.
        model: its model at `until`, shape (n_parameters,).
        noticed: neighbours whose death it has noticed: number, incarnation, and when.
    """

    until: float
    rows: list[PeerRow]
    messages: int
    vectors: int
    gradient_seconds: float
    last: bool
    model: Array
    noticed: list[tuple[int, int, float]] = field(default_factory=list[tuple[int, int, float]])

    def write(self, out: Array) -> None:
        """Serialise the report.

        Arguments:
            out: at least `max_bytes` bytes, which are overwritten.
        """
        encoded = pickle.dumps(self)
        out[:8].view(np.int64)[0] = len(encoded)
        out[8 : 8 + len(encoded)] = np.frombuffer(encoded, dtype=np.uint8)

    @classmethod
    def read(cls, written: Array) -> PeerReport:
        """Return the report that `write` has serialised, of a worker of this run.

        Arguments:
            written: the bytes, uint8.
        """
        size = int(written[:8].view(np.int64)[0])
        return pickle.loads(written[8 : 8 + size].tobytes())

    @staticmethod
    def max_bytes(n_parameters: int, degree: int) -> int:
        """Return the largest number of bytes of a report.

        Arguments:
            n_parameters: length of the model.
            degree: largest number of neighbours of a peer.
        """
        return 8 + 8 * n_parameters + 1_024 + 64 * degree + MAX_ROWS * (192 + 40 * degree)

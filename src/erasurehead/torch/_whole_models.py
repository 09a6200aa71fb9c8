"""A model with its optimizer's state, as one rank asks for it and another one sends it, piece by piece.

For ways in which a script must follow each version: one that is too far behind goes on from another rank's. Both sides;
no input or output, no clock and no PyTorch, as in `_member`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.torch._membership import LEASE, Membership
from erasurehead.torch._message_heads import Head, Kind
from erasurehead.torch._port import MemberPort
from erasurehead.torch._versions import Name

_LOST = 2.0 * LEASE  # seconds without an answer after which a message was lost


@final
class WholeModels:
    """What a rank asks for of this kind, sends, and finds somebody to send.

    Arguments:
        port: through which it acts.
        membership: who belongs, and who gathers.
        resting: who makes no more steps, but stays.
        size: bytes of a piece.

    Attributes:
        asked: ranks to which this rank's script is to send its model with its optimizer's state, by `serve`.
        state: what came of `want`: a model with its optimizer's state, and its name.
        wants: whether it was asked for, and nothing has come that makes it needless.
        fresh: ranks that have the newest version, and wait for the next one.
        wanting: who has asked and was not told of anybody yet.
        stranded: whether all that are left wait for the model of another rank: it was gone with those that had it.
    """

    def __init__(self, port: MemberPort, membership: Membership, resting: Collection[int], size: int) -> None:
        self._port, self._membership, self._resting, self._size = port, membership, resting, size
        self.asked: list[int] = []
        self.state: tuple[Name, bytes] | None = None
        self.wants = self.stranded = False
        self.fresh: set[int] = set()
        self.wanting: list[int] = []
        self._wanted_at = 0.0
        self._served: dict[int, tuple[Name, bytes]] = {}
        self._pieces: list[bytes] = []

    @property
    def waits(self) -> bool:
        """Whether what was asked for has not come yet."""
        return self.wants and self.state is None

    def want(self) -> None:
        """Ask for a model with its optimizer's state, which will be `state`."""
        self.wants, self.state, self._pieces = True, None, []
        self._wanted_at = self._port.now()
        if self._membership.gathers:
            self._find_server(self._port.rank)
        else:
            view = self._membership.view
            self._port.send(view.gathers, Head(Kind.WANT, term=view.term))

    def take_state(self) -> tuple[Name, bytes]:
        """Return what was asked for; versions from then on are kept again only as far as a script may be behind."""
        state, self.state, self.wants = self.state, None, False
        assert state is not None
        return state

    def serve(self, name: Name, data: bytes) -> None:
        """Send a model with its optimizer's state to all that have asked."""
        for rank in self.asked:
            self._served[rank] = name, data
            self._send_piece(rank, 0)
        self.asked.clear()

    def on_message(self, sender: int, head: Head, vector: Array | None) -> None:
        """Handle a message that asks for one, has somebody send one, or brings a piece."""
        if head.kind is Kind.WANT and head.number:
            self._send_piece(sender, head.number)
        elif head.kind is Kind.WANT:
            self._find_server(sender)
        elif head.kind is Kind.SERVE:
            self.asked.append(head.number)
            self._port.wake_script()
        elif self.wants and vector is not None and head.number == len(self._pieces):
            self._pieces.append(vector.tobytes())
            self._wanted_at = self._port.now()
            if sum(map(len, self._pieces)) >= head.other:
                self.state = (head.one, head.version), b"".join(self._pieces)
                self._port.wake_script()
            else:
                self._port.send(sender, Head(Kind.WANT, number=len(self._pieces)))

    def on_time(self, steppers: Collection[int]) -> None:
        """Ask again if there was no answer for long, and see whether anybody who makes steps could answer."""
        if self.waits and self._port.now() > self._wanted_at + _LOST:
            self.stranded = self._membership.gathers and set(steppers) <= set(self.wanting)
            self.wanting.clear()  # who waits still will ask again
            self.want()
            self._port.wake_script()

    def on_fresh(self, rank: int) -> None:
        """Learn that a rank has the newest version, and waits; let it send its model to those that want one."""
        self.fresh.add(rank)
        wanting, self.wanting = self.wanting, []
        for other in wanting:
            self._find_server(other)

    def _find_server(self, rank: int) -> None:
        """Let a rank whose gradient of the next version is here send its model; it has the newest, and waits."""
        fresh = min((self.fresh | set(self._resting)) - self._membership.ended - {rank}, default=-1)
        if fresh == self._port.rank:
            self.asked.append(rank)
            self._port.wake_script()
        elif fresh >= 0:
            self._port.send(fresh, Head(Kind.SERVE, number=rank))
        elif rank not in self.wanting:
            self.wanting.append(rank)

    def _send_piece(self, rank: int, number: int) -> None:
        if rank not in self._served:
            return
        (term, version), data = self._served[rank]
        piece: Any = np.frombuffer(data[number * self._size : (number + 1) * self._size], np.uint8)
        if (number + 1) * self._size >= len(data):
            del self._served[rank]
        head = Head(Kind.STATE, number=number, version=version, one=term, other=len(data))
        self._port.send(rank, head, piece)

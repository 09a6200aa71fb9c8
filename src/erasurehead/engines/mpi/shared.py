"""Memory that the coordinator shares with a rank beside it, so that between them MPI carries words and no vectors."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from erasurehead.engines.base import NoRoom, Program
from erasurehead.engines.mailbox import Board, Slots


@dataclass(frozen=True, eq=False)
class Shared:
    """What both see.

    Attributes:
        board: where orders are put up, for all ranks beside the coordinator.
        slots: where this rank writes its messages.
    """

    board: Board
    slots: Slots


class Boards:
    """The coordinator's boards, by the elements that fit: programs with equal inboxes see the same one."""

    def __init__(self) -> None:
        self._boards: dict[int, Board] = {}

    def share(self, program: Program) -> Shared | None:
        """Return what to share with a rank that runs a program; None if there is no memory, or no file, for it."""
        with contextlib.suppress(NoRoom):
            if program.inbox not in self._boards:
                self._boards[program.inbox] = Board(program.inbox)
            return Shared(self._boards[program.inbox], Slots(program.outbox))
        return None

    def close(self) -> None:
        """Keep the boards open no longer."""
        for board in self._boards.values():
            board.close()
        self._boards.clear()


def settled(offered: Shared | None, accepted: bool) -> Shared | None:
    """Return what a rank shares with us, now that it has looked; the slots need not be found any more."""
    if offered is not None:
        offered.slots.close()
    return offered if accepted else None

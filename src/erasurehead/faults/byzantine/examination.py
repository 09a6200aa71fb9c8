"""What was found in the messages of a round, and what follows from it for the round's view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from erasurehead._internal.arrays import Array, finite
from erasurehead.engines.base import MessageLost
from erasurehead.schemes.wait_rules.view import View

Read: TypeAlias = Callable[[int], Array]
"""From a message that has arrived to its vector; it may raise `MessageLost`."""


@dataclass(frozen=True)
class Undecided:
    """Workers whose messages contradict each other, with nothing that has arrived to say who of them lies.

    Attributes:
        workers: ascending.
        equal: whether their messages should be equal, so that one more of them may tell.
        why: it cannot be told, as part of a sentence.
    """

    workers: tuple[int, ...]
    equal: bool
    why: str


@dataclass(frozen=True)
class Finding:
    """What comparing some messages with each other has brought.

    Attributes:
        accused: workers whose messages are wrong, each with how that is known.
        refused: messages that are erasures for the rest of the round, each with the reason.
        held: messages that contradict others, where one that may still come can tell who is right.
        compared: number of comparisons of whole vectors that it took.
        unlike: workers whose messages agree with the others', but not to the bit.
        undecided: workers that contradict each other.
        error: bound of what lies too small to be seen do to the decoded gradient, relative to its usual length.
    """

    accused: Mapping[int, str] = field(default_factory=dict[int, str])
    refused: Mapping[int, str] = field(default_factory=dict[int, str])
    held: Mapping[int, str] = field(default_factory=dict[int, str])
    compared: int = 0
    unlike: frozenset[int] = frozenset()
    undecided: tuple[Undecided, ...] = ()
    error: float = 0.0


@dataclass(frozen=True)
class Remark:
    """Something in an examination that was not known before in its round.

    Attributes:
        kind: `"lied"`: a worker is put aside; `"refused"`: messages are erasures; `"held"`: they wait for others.
        workers: of whom: one that lied, or who sent the messages.
        messages: that are refused or held, ascending; none of a worker that lied.
        why: as part of a sentence.
        text: all of it, as a sentence without a full stop.
    """

    kind: Literal["lied", "refused", "held"]
    workers: tuple[int, ...]
    messages: tuple[int, ...]
    why: str
    text: str


@dataclass(frozen=True)
class Examination:
    """What was found in all messages of a round that are in.

    Attributes:
        accused: workers caught by this round's messages, each with how that is known: to be put aside for good.
        refused: messages that are erasures for the rest of the round, each with the reason. Those of accused workers
            are among them.
        held: messages that contradict others, with nobody to say who is right yet: not to be used, but to be kept,
            and to be examined again when more has arrived.
        sound: messages that nothing speaks against.
        positions: of the accused: their numbers in the code.
        compared: number of comparisons of whole vectors that it took.
        seconds: that it took.
        remarks: what is new in this round, each told once.
        undecided: sets of workers that contradict each other, where nothing that has arrived tells who lies.
        error: bound of what lies too small to be seen do to the gradient decoded from sound messages, relative to the
            length of a sum of independent partial gradients; it holds for as many liars as are allowed for.
    """

    accused: Mapping[int, str]
    refused: Mapping[int, str]
    held: Mapping[int, str]
    sound: tuple[int, ...]
    positions: tuple[int, ...]
    compared: int
    seconds: float
    remarks: tuple[Remark, ...]
    undecided: tuple[Undecided, ...] = ()
    error: float = 0.0

    @property
    def reasons(self) -> tuple[str, ...]:
        """The remarks as sentences, for people."""
        return tuple(remark.text for remark in self.remarks)

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong with anything."""
        return not (self.accused or self.refused or self.held)

    def settle(self, view: View) -> bool:
        """Change a view accordingly: accused workers will not answer, refused messages are erasures, held ones
        count as if they had not come yet, and those that are cleared of a doubt count again.

        Returns:
            Whether the view has changed, so that the wait rule must be asked once more.
        """
        before = set(view.arrived), set(view.able), set(view.refused)
        view.refuse(self.refused)
        for position in self.positions:
            view.lose(position)
        here = set(view.arrived)
        if here & self.held.keys():
            view.hold(self.held)
        for message in self.sound:
            if message not in here:
                view.add(message)
        return before != (set(view.arrived), view.able, view.refused)


def unusable(messages: Iterable[int], read: Read) -> dict[int, str]:
    """Return the messages whose vector is lost or not finite, each with the reason.

    Arguments:
        messages: by their rows.
        read: the vector of a message; raises `MessageLost` where it is lost.
    """
    bad: dict[int, str] = {}
    for message in messages:
        try:
            if not finite(read(message)):
                bad[message] = NOT_FINITE
        except MessageLost as lost:
            bad[message] = str(lost)
    return bad


NOT_FINITE = "its vector is not finite"
"""Why a message is refused that is not wrong by comparison."""

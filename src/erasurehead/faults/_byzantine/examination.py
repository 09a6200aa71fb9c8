"""The result of examining a round's messages, and its consequences for the round's view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from erasurehead._internal.arrays import Array, finite
from erasurehead._internal.documents import Entries, PlainData
from erasurehead.engines._base import MessageLost
from erasurehead.schemes.wait_rules import View

Read: TypeAlias = Callable[[int], Array]
"""Returns the vector of a message that has arrived; may raise `MessageLost`."""


@dataclass(frozen=True)
class Undecided:
    """Workers whose messages contradict each other, while the arrivals do not tell which of them lies.

    Attributes:
        workers: their ids, ascending.
        equal: whether their messages should be equal, so that one more such message may decide.
        why: the reason why it cannot be told, as part of a sentence.
    """

    workers: tuple[int, ...]
    equal: bool
    why: str


@dataclass(frozen=True)
class Finding:
    """The result of comparing some messages with each other.

    Attributes:
        accused: workers whose messages are wrong, each with the evidence.
        refused: messages that are erasures for the rest of the round, each with the reason.
        held: messages that contradict others, where one that may still come can decide who is right.
        compared: number of comparisons of whole vectors that it took.
        unlike: workers whose messages agree with the others', but not bit for bit.
        undecided: workers that contradict each other.
        error: bound on the effect of lies too small to be detected on the decoded gradient, relative to its usual norm.
        dispute: two of the held messages, whose workers can be questioned; None if nobody is.
    """

    accused: Mapping[int, str] = field(default_factory=dict[int, str])
    refused: Mapping[int, str] = field(default_factory=dict[int, str])
    held: Mapping[int, str] = field(default_factory=dict[int, str])
    compared: int = 0
    unlike: frozenset[int] = frozenset()
    undecided: tuple[Undecided, ...] = ()
    error: float = 0.0
    dispute: tuple[int, int] | None = None


@dataclass(frozen=True)
class Remark:
    """A finding of an examination that is new in its round.

    Attributes:
        kind: `"lied"`: a worker is put aside; `"refused"`: messages are erasures; `"held"`: they wait for others.
        workers: the worker that lied, or those that sent the messages.
        messages: messages that are refused or held, ascending; empty for a worker that lied.
        why: the reason, as part of a sentence.
        text: the whole remark, as a sentence without a full stop.
        evidence: what a worker that was questioned is convicted by, as plain data.
    """

    kind: Literal["lied", "refused", "held"]
    workers: tuple[int, ...]
    messages: tuple[int, ...]
    why: str
    text: str
    evidence: Entries = field(default_factory=PlainData)


@dataclass(frozen=True)
class Examination:
    """The result of examining all messages of a round that have arrived.

    Attributes:
        accused: workers caught by this round's messages, each with the evidence; they are put aside for good.
        refused: messages that are erasures for the rest of the round, each with the reason. Those of accused workers
            are among them.
        held: messages that contradict others, where it is not known yet who is right: not to be used, but to be kept,
            and examined again when more messages have arrived.
        sound: messages without anything against them.
        positions: positions of the accused workers in the code.
        compared: number of comparisons of whole vectors that it took.
        seconds: seconds that it took.
        remarks: what is new in this round; each remark is made once.
        undecided: sets of workers that contradict each other, where the arrivals do not tell which of them lies.
        error: bound on the effect of lies too small to be detected on the gradient decoded from sound messages,
            relative to the norm of a sum of independent partial gradients; it holds for up to the allowed number of
            liars.
        disputes: pairs of held messages that nothing else will tell apart than questions to their workers.
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
    disputes: tuple[tuple[int, int], ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """The remarks as sentences, for people."""
        return tuple(remark.text for remark in self.remarks)

    def settle(self, view: View) -> bool:
        """Update a view accordingly: accused workers will not answer, refused messages are erasures, held ones
        count as if they had not come yet, and those that have been cleared count again.

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
        messages: rows of the messages.
        read: returns the vector of a message; raises `MessageLost` if it is lost.
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
"""The reason for refusing a message that is not refuted by comparison."""

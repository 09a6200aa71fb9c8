"""Which samples each rank gets: an epoch is handed out by who gathers, piece by piece, to whoever asks next.

So an epoch of the team is each sample once, although a fast rank makes more steps than a slow one, and nobody waits
at its end. No input or output, no clock and no PyTorch, as in `_member`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import cast, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.shares import parts
from erasurehead.delays._speeds import Speeds
from erasurehead.torch._message_heads import Head, Kind
from erasurehead.torch._port import MemberPort

Piece = tuple[int, int]
"""Where a piece of the epoch's order begins and ends."""

_GIVEN_BACK, _MEASURED, _WHERE = 1, 2, 3  # what a question's flag says, if it does not ask for so many samples
_ANOTHER_TOTAL = 1  # what an answer's flag says, if it is not a piece of one's own, nor all positions in a vector


@final
@dataclass
class Stock:
    """What of one data set's newest epoch has been handed out.

    Attributes:
        epoch: its number.
        total: number of its samples, as it was asked for first.
        position: where what has not been handed out yet begins, in the epoch's order.
        back: pieces that were handed out, but not trained on, and are to be handed out again.
        out: by rank, the pieces that it has and was not heard to have trained on, by the number of its question.
    """

    epoch: int = -1
    position: int = 0
    back: list[Piece] = field(default_factory=list[Piece])
    total: int = -1
    out: dict[int, dict[int, Piece]] = field(default_factory=dict[int, dict[int, Piece]])

    def take(
        self, rank: int, question: int, epoch: int, total: int, count: int, since: int = 0, shared: bool = True
    ) -> Piece:
        """Hand out the next piece of an epoch, from a position on; an empty one if there is nothing left of it.

        Where ranks share the epoch, how long its last piece is depends on who came when, so it is not one sample long.
        """
        if epoch > self.epoch:
            self.epoch, self.position, self.back, self.out, self.total = epoch, 0, [], {}, total
        own = self.out.setdefault(rank, {})
        if epoch < self.epoch:
            return 0, 0
        if question in own:  # it was asked again
            return own[question]
        back = bool(self.back)
        begin, last = self.back.pop(0) if back else (min(max(self.position, since), total), total)
        end = min(begin + count, last)
        if shared and last - end == 1 and end - begin > 2:
            end -= 1  # a last piece of one sample has no variance, and batch norm raises an error
        piece = begin, end
        if not back:
            self.position = end
        elif end < last:
            self.back.insert(0, (end, last))
        if piece[0] < piece[1]:
            own[question] = piece
            return piece
        return 0, 0

    def trained(self, rank: int, before: int) -> None:
        """Note that a rank has trained on what it got for all questions before one."""
        own = self.out.get(rank, {})
        for question in [one for one in own if one < before]:
            del own[question]

    def give_back(self, rank: int) -> None:
        """Take back what a rank has got and not trained on."""
        self.back.extend(sorted(self.out.pop(rank, {}).values()))

    @property
    def missing(self) -> list[Piece]:
        """The pieces before `position` that nobody is known to have trained on."""
        return sorted([*self.back, *(piece for own in self.out.values() for piece in own.values())])


@final
class Handouts:
    """Both sides: a rank's questions, and the answers of who gathers.

    A rank is given what it asked for, or, if shares follow the speeds that are measured, its share of the team's batch.

    Arguments:
        rank: number of this rank.

    Attributes:
        gathers: the rank that gathers, and hands out; None if that is not known yet.
        stocks: by number of the data set, in the order in which the script first used them.
        handed: by number of the question, the pieces that this rank was given and has not looked at; -1 and the number
            of samples of the epoch in other ranks, where that is another one.
        positions: what `where` has brought, once it has; None before.
    """

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.gathers: int | None = None
        self._members: frozenset[int] = frozenset()
        self._shared = False
        self.stocks: dict[int, Stock] = {}
        self.handed: dict[int, Piece] = {}
        self.positions: dict[int, Stock] | None = None
        self._asked: dict[int, Head] = {}  # questions that are not answered
        self._unused: dict[int, int] = {}  # by number of the question: data sets of what this rank has not trained on
        self._questions = 0
        self._seen: dict[tuple[int, int], int] = {}  # by data set and epoch: up to where samples were handed out
        self._speeds: Speeds | None = None

    # What the script calls

    def ask(self, port: MemberPort | None, stock: int, epoch: int, total: int, count: int, measured: int = 0) -> int:
        """Ask for the next piece, and return the number of the question.

        Arguments:
            port: to ask through; None in a team of one.
            stock: number of the data set.
            epoch: number of the epoch.
            total: number of its samples.
            count: number of samples that are wanted; of the team's batch, if shares are measured.
            measured: the number of ranks that share it by their speeds as they are measured; 0 if they do not.
        """
        self._questions += 1
        question = self._questions
        self._unused[question] = stock
        flag, oldest = (_MEASURED if measured else 0), min(self._unused)
        seen = self._seen.get((stock, epoch), 0)
        head = Head(Kind.ASK, flag, measured, epoch, question, stock, float(count), float(seen), total, oldest)
        self._asked[question] = head
        self._say(port, head)
        return question

    def used(self, question: int) -> None:
        """Note that this rank has trained on what it got for a question."""
        self._unused.pop(question, None)

    def where(self, port: MemberPort | None) -> None:
        """Ask for all that was handed out and trained on."""
        self._questions += 1
        self.positions = None
        oldest = min(self._unused, default=self._questions)
        head = Head(Kind.ASK, _WHERE, number=self._questions, other=oldest)
        self._asked[self._questions] = head
        self._say(port, head)

    def give_back(self, port: MemberPort | None, stock: int) -> None:
        """Give back whatever of a data set this rank has got and not trained on."""
        unused = [one for one, of in self._unused.items() if of == stock]
        for question in unused:
            del self._unused[question]
            self._asked.pop(question, None)
            self.handed.pop(question, None)
        oldest = min(unused, default=self._questions + 1)
        self._say(port, Head(Kind.ASK, _GIVEN_BACK, steps=stock, number=self._questions, other=oldest))

    # What happens

    def on_message(self, port: MemberPort, sender: int, head: Head, vector: Array | None = None) -> None:
        """Handle a question, or an answer."""
        if head.kind is Kind.HAND:
            self._hear(head, vector)
            port.wake_script()
        elif self.gathers == self.rank and (answer := self._answer(sender, head)) is not None:
            port.send(sender, *answer)

    def again(self, port: MemberPort) -> None:
        """Ask again what was not answered, as that may have been lost: it is answered as it would have been."""
        for head in list(self._asked.values()):
            self._say(port, head)

    def on_view(self, port: MemberPort | None, gathers: int | None, members: frozenset[int]) -> None:
        """Learn who gathers and who belongs: questions are asked again, and what is with others is given back."""
        if members != self._members:
            self._members, self._shared = members, self._shared or len(members) > 1
            for stock in self.stocks.values():
                for rank in stock.out.keys() - members:
                    stock.give_back(rank)
        if gathers != self.gathers:
            self.gathers = gathers
            if port is not None:
                self.again(port)

    def observe(self, rank: int, samples: float, seconds: float) -> None:
        """Learn how long a rank needed for some samples; of who gathers."""
        if self._speeds is not None and rank < self._speeds.n_workers:
            self._speeds.observe(rank, samples, seconds)

    def settle(self) -> None:
        """Go by the speeds that were measured, where that is due; of who gathers, after each version."""
        if self._speeds is not None:
            self._speeds.settle()

    def _say(self, port: MemberPort | None, head: Head) -> None:
        if self.gathers == self.rank:
            if (answer := self._answer(self.rank, head)) is not None:
                self._hear(*answer)
        elif port is not None and self.gathers is not None:
            port.send(self.gathers, head)

    def _hear(self, head: Head, vector: Array | None) -> None:
        if self._asked.pop(head.number, None) is None:  # it was answered before, or nobody wants to know any more
            return
        if vector is not None:
            self.positions = {}
            numbers = [int(number) for number in vector[1:]]
            while numbers:
                number, epoch, position, end, *numbers = numbers
                self.positions[number] = Stock(epoch, position, list(zip(*[iter(numbers[:end])] * 2, strict=True)))
                del numbers[:end]
        elif head.flag == _ANOTHER_TOTAL:
            self.handed[head.number] = -1, head.one
        else:
            key = head.steps, head.version
            self._seen = {key: max(self._seen.get(key, 0), head.other)}
            self.handed[head.number] = head.one, head.other

    def _answer(self, rank: int, head: Head) -> tuple[Head, Array | None] | None:
        if head.flag == _WHERE:
            told = [len(self.stocks)]
            for number, stock in self.stocks.items():
                stock.trained(rank, head.other)
                missing = [*chain(*stock.missing)]
                told += [number, stock.epoch, stock.position, len(missing), *missing]
            return Head(Kind.HAND, number=head.number), cast("Array", np.array(told, np.int64))
        stock = self.stocks.setdefault(head.steps, Stock())
        stock.trained(rank, head.other)
        if head.flag == _GIVEN_BACK:
            stock.give_back(rank)
            return None
        count = int(head.samples)
        if head.flag == _MEASURED:
            self._speeds = self._speeds or Speeds(head.term)
            joined = rank >= self._speeds.n_workers  # later, by a number beyond those that the team began with
            count = count // head.term if joined else int(parts(count, self._speeds.shares, least=1)[rank])
        if stock.epoch == head.version and stock.total not in (-1, head.one):
            return Head(Kind.HAND, _ANOTHER_TOTAL, number=head.number, one=stock.total), None
        since = int(head.seconds)  # who gathered before may have handed out more than is known here
        begin, end = stock.take(rank, head.number, head.version, head.one, max(count, 1), since, self._shared)
        return Head(Kind.HAND, 0, 0, head.version, head.number, head.steps, one=begin, other=end), None

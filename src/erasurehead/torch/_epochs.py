"""The batches of a team: epochs without replacement over all ranks, whatever reads the samples."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Literal, cast, final

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead._internal.shares import check_speeds, parts
from erasurehead.errors import check_count, invalid
from erasurehead.torch._handouts import Handouts, Piece, Stock
from erasurehead.torch._place import RankPlace
from erasurehead.torch._port import MemberPort

Speeds = Literal["measured"] | Sequence[float] | None


@final
@dataclass(frozen=True)
class Source:
    """Where a rank's batches come from.

    Arguments:
        place: where the script runs.
        handouts: who gets which samples.
        port: through which this rank asks; None in a team of one.
        add_samples: told how many samples each batch has.
        forgotten: says whether the team went on without this rank, and has ended.
    """

    place: RankPlace
    handouts: Handouts
    port: MemberPort | None
    add_samples: Callable[[int], None]
    forgotten: Callable[[], bool]

    def ask(self, stock: int, epoch: int, total: int, count: int, measured: int) -> int:
        """Ask for a piece of an epoch, and return the number of the question."""
        with self.place.held():
            return self.handouts.ask(self.port, stock, epoch, total, count, measured)

    def piece(self, question: int) -> Piece:
        """Wait for the answer, and return it; an empty piece where nobody will answer any more."""
        self.place.wait(lambda: question in self.handouts.handed or self.forgotten(), "which samples are next")
        with self.place.held():
            return self.handouts.handed.pop(question, (0, 0))

    def positions(self) -> dict[int, Stock]:
        """Return what of all data sets was handed out, as who gathers knows it."""
        with self.place.held():
            self.handouts.where(self.port)
        self.place.wait(lambda: self.handouts.positions is not None or self.forgotten(), "where the epoch is")
        return self.handouts.positions or {}

    def used(self, question: int) -> None:
        """Say that a batch was trained on."""
        with self.place.held():
            self.handouts.used(question)

    def give_back(self, stock: int) -> None:
        """Say that no more batches will be trained on."""
        with self.place.held():
            self.handouts.give_back(self.port, stock)


@final
class Batches:
    """What a rank trains on in one epoch; made by `Team.batches`.

    Its length is the number of batches of the whole team, which is the number of a rank's batches if all are equally
    fast: where nobody waits, fast ranks have more of them and slow ones fewer.
    """

    def __init__(
        self,
        feed: Feed,
        source: Source,
        epoch: int | None,
        batch_size: int,
        seed: int,
        drop_last: bool,
        speeds: Speeds,
    ) -> None:
        self._given, self.epoch = epoch, feed.numbered(epoch)
        self._feed, self._source, self._seed = feed, source, seed
        size, rank = source.place.size, source.place.rank
        self.batch_size = check_count("batch_size", batch_size, 1)
        if batch_size < size:
            raise invalid(
                "batch_size",
                f"must be at least the number of ranks, {size}, as it is the whole team's",
                batch_size,
                f"{size} gives each rank one sample a step",
            )
        self._measured = size * isinstance(speeds, str)
        if self._measured and speeds != "measured":
            raise invalid("speeds", "must be numbers, one a rank, or 'measured'", speeds)
        shares: Any = np.ones(size) if speeds is None or self._measured else check_speeds(cast("Array", speeds), size)
        # one that joins later has a number beyond them
        self._count = int(parts(batch_size, shares, least=1)[rank]) if rank < size else max(batch_size // size, 1)
        self._total = feed.total if not drop_last else feed.total // batch_size * batch_size
        self._drop_last = drop_last

    def __len__(self) -> int:
        if self._feed.iterable:
            raise TypeError("The batches of an iterable data set have no length.")
        return math.ceil(self._total / self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        if self._feed.through >= self.epoch:
            self.epoch = self._feed.numbered(self._given)
        loader, pieces = self._feed.loader(self._count, self._drop_last), self._feed.pieces
        rank = self._source.place.rank
        self._feed.begin(mixed(self._seed, self.epoch, 1 + rank))
        if self._feed.iterable:
            for batch in loader:
                self._add(self._count)
                yield batch
            return
        handed: deque[tuple[int, int]] = deque()
        pieces.begin(self._pieces(handed))
        try:
            for batch in loader:
                question, count = handed.popleft()
                self._add(count)
                self._feed.under_way.append(question)
                yield batch
                self._feed.trained(self._source)
            self._feed.through = self.epoch
        finally:  # the loop may have ended by a break after its step, or by an error before it
            pieces.begin(iter(()))
            self._feed.under_way.clear()
            self._source.give_back(self._feed.number)

    def _pieces(self, handed: deque[tuple[int, int]]) -> Generator[list[int]]:
        """Yield the samples of each of this rank's batches, and note which question brought them."""
        order = self._feed.order(self._seed, self.epoch)
        asked: deque[int] = deque()
        count = self.batch_size if self._measured else self._count
        while True:
            while len(asked) <= self._source.place.ahead:
                asked.append(self._source.ask(self._feed.number, self.epoch, self._total, count, self._measured))
            question = asked.popleft()
            begin, end = self._source.piece(question)
            if begin == end:
                return
            if begin < 0:
                raise invalid(
                    f"dataset of rank {self._source.place.rank}",
                    f"must have as many samples as in other ranks, of which an epoch has {end}",
                    self._total,
                )
            handed.append((question, end - begin))
            yield order[begin:end].tolist()

    def _add(self, count: int) -> None:
        if not self._source.place.counts_samples:
            self._source.add_samples(count)


@final
class Pieces:
    """A batch sampler whose batches are those of the epoch that was begun last."""

    def __init__(self) -> None:
        self._now: Iterator[list[int]] = iter(())

    def begin(self, pieces: Iterator[list[int]]) -> None:
        """Take another epoch's batches."""
        self._now = pieces

    def __iter__(self) -> Iterator[list[int]]:
        return self._now


class Feed(ABC):
    """One data set of a team, and what reads it.

    Arguments:
        data: with items by number and a length, unless it is iterable.
        number: of the data set, by its first use.
        shuffle: whether each epoch has an order of its own.
        options: of what reads it.
        iterable: whether it has no items by number.

    Attributes:
        reads: what is read: the data set, or what stands for it.
    """

    otherwise: str
    """What else may be done, for who has data of another kind."""

    def __init__(self, data: Any, number: int, shuffle: bool, options: dict[str, Any], iterable: bool = False) -> None:
        self.iterable = iterable
        if not self.iterable and not (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
            raise invalid(
                "dataset",
                f"must have a length and items by number{self.otherwise}",
                type(data).__name__,
                "a loader of your own is used as it is, without team.batches",
            )
        self.total = 0 if self.iterable else self.count(data)
        if not self.iterable and not self.total:
            raise invalid("dataset", "must hold at least one sample", 0)
        self.data, self.number, self.shuffle, self.options = data, number, shuffle, options
        self.reads = data
        self.next_epoch, self.through = 0, -1  # the last epoch to whose end this rank has come
        self.under_way: list[int] = []  # questions of batches that the script has and was not heard to have trained on
        self.pieces = Pieces()

    def count(self, data: Any) -> int:
        """Return how many samples there are."""
        return len(cast("Sized", data))

    def serves(self, data: Any, shuffle: bool, options: dict[str, Any]) -> bool:
        """Return whether this is how a data set is to be read."""
        return self.data is data and self.shuffle == shuffle and self.options == options

    def numbered(self, given: int | None) -> int:
        """Return the number of an epoch that begins: the next one, unless one is given."""
        epoch = self.next_epoch if given is None else given
        self.next_epoch = epoch + 1
        return epoch

    def order(self, seed: int, epoch: int) -> IntArray:
        """Return the order of an epoch's samples: the same on all ranks, shape (total,)."""
        return self.shuffled(seed, epoch) if self.shuffle else np.arange(self.total)

    @abstractmethod
    def shuffled(self, seed: int, epoch: int) -> IntArray:
        """Return the numbers of all samples in an order that is drawn by seed and epoch."""

    def begin(self, seed: int) -> None:  # noqa: B027
        """Let what this rank draws as it reads an epoch begin with a seed."""

    @abstractmethod
    def loader(self, count: int, drop_last: bool) -> Any:
        """Return what yields a batch for each of `pieces`, or batches of so many samples of an iterable data set."""

    def trained(self, source: Source) -> None:
        """Note that a step was made from what the script has."""
        while self.under_way:
            source.used(self.under_way.pop())

    def close(self) -> None:  # noqa: B027
        """End what outlives an epoch."""


def mixed(*numbers: int) -> int:
    """Return a seed made of numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))

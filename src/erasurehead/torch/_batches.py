"""The batches of a team: epochs without replacement over all ranks, read by PyTorch's `DataLoader`."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Literal, cast, final

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, Subset, get_worker_info

from erasurehead._internal.arrays import Array
from erasurehead._internal.shares import check_speeds, parts
from erasurehead.errors import check_count, invalid
from erasurehead.torch._handouts import Handouts, Piece, Stock
from erasurehead.torch._place import RankPlace
from erasurehead.torch._port import MemberPort

_OURS = ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last", "generator")
"""What a `DataLoader` takes, and `batches` says by itself."""

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
        self, feed: Feed, source: Source, epoch: int, batch_size: int, seed: int, drop_last: bool, speeds: Speeds
    ) -> None:
        self.epoch = epoch
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
        loader, pieces = self._feed.loader(self._count, self._drop_last), self._feed.pieces
        rank = self._source.place.rank
        self._feed.generator.manual_seed(mixed(self._seed, self.epoch, 1 + rank))
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
        order = permutation(self._feed.total, self._seed, self.epoch) if self._feed.shuffle else None
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
            yield (
                list(range(begin, end)) if order is None else cast("list[int]", cast("Any", order[begin:end]).tolist())
            )

    def _add(self, count: int) -> None:
        if not self._source.place.counts_samples:
            self._source.add_samples(count)


class _Pieces:
    """A batch sampler whose batches are those of the epoch that was begun last."""

    def __init__(self) -> None:
        self._now: Iterator[list[int]] = iter(())

    def begin(self, pieces: Iterator[list[int]]) -> None:
        """Take another epoch's batches."""
        self._now = pieces

    def __iter__(self) -> Iterator[list[int]]:
        return self._now


@final
class Feed:
    """One data set of a team, and the loader that reads it, which lives as long as the options stay the same.

    Arguments:
        data: a data set of PyTorch: with items by number and a length, or iterable.
        number: of the data set, by its first use.
        rank, size: of the team.
        shuffle: whether each epoch has an order of its own.
        options: of the `DataLoader`.
    """

    def __init__(self, data: Any, number: int, rank: int, size: int, shuffle: bool, options: dict[str, Any]) -> None:
        self.iterable = isinstance(data, IterableDataset)
        if not self.iterable and not (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
            raise invalid(
                "dataset",
                "must have a length and items by number, or be a torch.utils.data.IterableDataset",
                type(data).__name__,
                "a loader of your own is used as it is, without team.batches",
            )
        for name in _OURS:
            if name in options:
                raise invalid(name, "must not be given as an option of the DataLoader", options[name])
        self.total = 0 if self.iterable else len(cast("Sized", data))
        if not self.iterable and not self.total:
            raise invalid("dataset", "must hold at least one sample", 0)
        self.data, self.number, self.shuffle, self.options = data, number, shuffle, options
        self._split = _Split(data, rank, size) if self.iterable else None
        self.next_epoch, self.through = 0, -1  # the last epoch to whose end this rank has come
        self.under_way: list[int] = []  # questions of batches that the script has and was not heard to have trained on
        self.pieces, self.generator = _Pieces(), torch.Generator()
        self._loader: Any = None

    def serves(self, data: Any, shuffle: bool, options: dict[str, Any]) -> bool:
        """Return whether this is how a data set is to be read."""
        return self.data is data and self.shuffle == shuffle and self.options == options

    def loader(self, count: int, drop_last: bool) -> Any:
        """Return the loader, for batches of so many samples where the data set is iterable."""
        if self._split is not None:
            return DataLoader(
                self._split, batch_size=count, drop_last=drop_last, generator=self.generator, **self.options
            )
        if self._loader is None:
            sampler = cast("Any", self.pieces)
            self._loader = DataLoader(self.data, batch_sampler=sampler, generator=self.generator, **self.options)
        return self._loader

    def trained(self, source: Source) -> None:
        """Note that a step was made from what the script has."""
        while self.under_way:
            source.used(self.under_way.pop())

    def close(self) -> None:
        """End the loader's workers, where they outlive an epoch."""
        self._loader = None


class _Split(IterableDataset[Any]):
    """Every so many-th item of an iterable data set: those of one worker of one rank."""

    def __init__(self, data: Any, rank: int, size: int) -> None:
        self.data, self.rank, self.size = data, rank, size

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        workers = 1 if worker is None else worker.num_workers
        own = self.rank * workers + (0 if worker is None else worker.id)
        return (item for number, item in enumerate(self.data) if number % (self.size * workers) == own)


def shard(data: Any, rank: int, size: int) -> Any:
    """Return one rank's fixed part of a data set: every `size`-th item."""
    if isinstance(data, IterableDataset):
        return _Split(data, rank, size)
    if not (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        raise invalid("data", "must have a length and items by number, or be an IterableDataset", type(data).__name__)
    return Subset(data, range(rank, len(data), size))


def mixed(*numbers: int) -> int:
    """Return a seed made of numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


def permutation(total: int, seed: int, epoch: int) -> torch.Tensor:
    """Return the order of an epoch's samples: the same on all ranks, shape (total,)."""
    return torch.randperm(total, generator=torch.Generator().manual_seed(mixed(seed, epoch)))

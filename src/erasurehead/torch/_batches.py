"""Data sets of PyTorch as a team's: read by its `DataLoader`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast, final

import torch
from torch.utils.data import DataLoader, IterableDataset, Subset, get_worker_info

from erasurehead._internal.arrays import IntArray
from erasurehead.errors import invalid
from erasurehead.torch._epochs import Feed, mixed

_OURS = ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last", "generator")
"""What a `DataLoader` takes, and `batches` says by itself."""


@final
class LoaderFeed(Feed):
    """One data set of a team, and the loader that reads it, which lives as long as the options stay the same.

    Arguments:
        data: a data set of PyTorch: with items by number and a length, or iterable.
        number: of the data set, by its first use.
        rank, size: of the team.
        shuffle: whether each epoch has an order of its own.
        options: of the `DataLoader`.
    """

    otherwise = ", or be a torch.utils.data.IterableDataset"

    def __init__(self, data: Any, number: int, rank: int, size: int, shuffle: bool, options: dict[str, Any]) -> None:
        super().__init__(data, number, shuffle, options, isinstance(data, IterableDataset))
        for name in _OURS:
            if name in options:
                raise invalid(name, "must not be given as an option of the DataLoader", options[name])
        self._split = _Split(data, rank, size) if self.iterable else None
        self._generator = torch.Generator()
        self._loader: Any = None

    def shuffled(self, seed: int, epoch: int) -> IntArray:
        return cast("Any", permutation(self.total, seed, epoch)).numpy()

    def begin(self, seed: int) -> None:
        self._generator.manual_seed(seed)

    def loader(self, count: int, drop_last: bool) -> Any:
        if self._split is not None:
            return DataLoader(
                self._split, batch_size=count, drop_last=drop_last, generator=self._generator, **self.options
            )
        if self._loader is None:
            sampler = cast("Any", self.pieces)
            self._loader = DataLoader(self.reads, batch_sampler=sampler, generator=self._generator, **self.options)
        return self._loader

    def close(self) -> None:
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


def permutation(total: int, seed: int, epoch: int) -> torch.Tensor:
    """Return the order of an epoch's samples: the same on all ranks, shape (total,)."""
    return torch.randperm(total, generator=torch.Generator().manual_seed(mixed(seed, epoch)))

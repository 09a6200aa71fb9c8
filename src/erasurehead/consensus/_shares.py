"""Which peer holds which samples: even and label-skewed splits, and the samples of peers that are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead._internal.documents import Entries, PlainData
from erasurehead._internal.rng import scrambled, stream
from erasurehead._internal.text_parser import read_or_keep
from erasurehead.consensus._graphs import Graph
from erasurehead.errors import DataError, InvalidArgument, check_count, check_positive, counted, invalid, listed
from erasurehead.problems import Problem
from erasurehead.problems._sampled import Sampled

Shares: TypeAlias = tuple[IntArray, ...]
"""The samples of each peer, ascending."""


@final
@dataclass(frozen=True)
class SampleSplit:
    """How the samples are split among the peers.

    Arguments:
        alpha: concentration of the Dirichlet distribution of each class over the peers: the smaller, the fewer classes
            a peer has; None for an even split of shuffled samples.
        seed: seed of the shuffling and of the Dirichlet draws.
    """

    alpha: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_count("seed", self.seed, at_least=0)
        if self.alpha is not None:
            check_positive("alpha", self.alpha, "must be a positive finite number")

    def shares(self, problem: Problem, n_peers: int) -> Shares:
        """Return the samples of each peer.

        Raises:
            InvalidArgument: if a peer would have no data, or there are no classes.
        """
        rng = stream("shares", self.seed)
        if self.alpha is None:
            parts = [np.sort(part) for part in np.array_split(rng.permutation(problem.n_samples), n_peers)]
        else:
            parts = self._skewed(problem, n_peers, rng)
        return checked_shares(parts, problem.n_samples, n_peers, str(self))

    def _skewed(self, problem: Problem, n_peers: int, rng: np.random.Generator) -> list[IntArray]:
        labels: Any = getattr(problem, "labels", None)
        classes = None if labels is None else np.unique(labels)
        numbered = labels is not None and np.asarray(labels).dtype.kind in "iu"
        if classes is None or not (numbered or len(classes) <= max(2, problem.n_samples // 20)):
            raise invalid(
                "split", "must be even() for a problem without classes", str(self), "there are no labels to skew by"
            )
        assert self.alpha is not None
        parts: list[list[IntArray]] = [[] for _ in range(n_peers)]
        for label in classes:
            rows = rng.permutation(np.flatnonzero(labels == label))
            edges = np.rint(np.cumsum(rng.dirichlet(np.full(n_peers, self.alpha))) * len(rows)).astype(np.int64)
            for part, own in zip(parts, np.split(rows, edges[:-1]), strict=True):
                part.append(own)
        return [np.sort(np.concatenate(part)) for part in parts]

    def __str__(self) -> str:
        return f"even(seed={self.seed})" if self.alpha is None else f"dirichlet(alpha={self.alpha}, seed={self.seed})"


def even(seed: int = 0) -> SampleSplit:
    """Return the even split of shuffled samples.

    Arguments:
        seed: seed of the shuffling, at least 0.
    """
    return SampleSplit(None, seed)


def dirichlet(alpha: float = 0.3, seed: int = 0) -> SampleSplit:
    """Return the split in which each class is spread over the peers by a Dirichlet draw (Hsu, Qi and Brown, 2019).

    Arguments:
        alpha: concentration, greater than 0: the smaller, the fewer classes most of a peer's samples are from.
        seed: seed of the draws, at least 0.
    """
    return SampleSplit(alpha, seed)


SPLITS: Mapping[str, Callable[..., SampleSplit]] = {"even": even, "dirichlet": dirichlet}
"""The function for each name in the text of a split."""


def parse_split(text: str | SampleSplit) -> SampleSplit:
    """Return the split that a text stands for, such as `"dirichlet(alpha=0.3, seed=0)"`, or a split as it is."""
    return read_or_keep(text, "split", SampleSplit, SPLITS)


def checked_shares(shares: Sequence[Any], n_samples: int, n_peers: int, by: str = "shares") -> Shares:
    """Check shares, and return them as sorted arrays.

    Arguments:
        shares: the samples of each peer.
        n_samples: number of samples of the problem.
        n_peers: number of peers.
        by: the argument that errors about empty shares name.

    Raises:
        InvalidArgument: if there is not one share per peer, one is empty, or a sample does not exist or is held twice.
    """
    if len(shares) != n_peers:
        raise invalid("shares", f"must be {n_peers}, one per peer", len(shares))
    arrays = [np.sort(np.asarray(share, dtype=np.int64)) for share in shares]
    if empty := [peer for peer, share in enumerate(arrays) if not len(share)]:
        raise invalid(
            by,
            "must give every peer at least one sample",
            f"none for {listed(empty)} ({counted('sample', n_samples)}, {counted('peer', n_peers)})",
            "take more data, fewer peers, a larger alpha or another seed",
        )
    every = np.concatenate(arrays)
    if len(np.unique(every)) < len(every) or every.min() < 0 or every.max() >= n_samples:
        raise invalid("shares", f"must hold samples 0 to {n_samples - 1}, each with one peer at most", "others")
    return tuple(arrays)


class LocalGradients:
    """Stochastic gradients of the peers' local objectives, whose mean over the peers is the objective.

    The local objective of a peer is the mean loss over its samples, times the number of present peers, times the
    fraction of all samples that it holds, plus the penalty: so samples count the same, however they are split.

    Arguments:
        problem: what is minimised.
        shares: the samples of each peer.
        batch: number of samples per gradient, drawn with replacement from (seed, peer, step); None for all samples of
            the peer.
        seed: seed of the draws.

    Raises:
        InvalidArgument: if a batch is requested, but the problem computes gradients only of whole shares.
    """

    def __init__(self, problem: Problem, shares: Shares, batch: int | None = None, seed: int = 0) -> None:
        sampled = isinstance(problem, Sampled)
        if batch is not None:
            check_count("batch", batch)
            if not sampled:
                raise invalid(
                    "batch",
                    f"must be left out, as {type(problem).__name__} gives gradients of whole shares only",
                    batch,
                )
        if (own := getattr(problem, "batch_size", None)) is not None:
            raise invalid(
                "problem.batch_size", "must be None for peers, which draw their own batches", own, "use their batch"
            )
        self._penalty = problem.regularizer
        if self._penalty.sharp:
            raise invalid(
                "penalty", "must have a gradient everywhere for peers, which average models", self._penalty, "take l2"
            )
        self.problem, self.batch, self.seed = problem, batch, check_count("seed", seed, at_least=0)
        self._by_samples = problem if sampled else None  # isinstance of a protocol takes as long as a small gradient
        self.assign(shares)

    def assign(self, shares: Shares) -> None:
        """Set which samples each peer holds; peers without any count as absent.

        Raises:
            DataError: if no peer has any samples.
        """
        self.shares = shares
        total, present = sum(map(len, shares)), sum(1 for share in shares if len(share))
        if not total:
            raise DataError("No peer has any data left.")
        self.factors = np.array([len(share) * present / total for share in shares])
        self._counts = np.array([len(share) for share in shares], dtype=np.int64)
        self._starts = np.concatenate([[0], np.cumsum(self._counts)[:-1]])
        self._all_samples = np.concatenate(shares)
        self._shards: dict[int, Any] = {}

    def gradients(self, peers: Sequence[int], models: Array, steps: Sequence[int]) -> Array:
        """Return gradients of several peers. Each is the same bit for bit, whichever peers are in the same call.

        Arguments:
            peers: the peers.
            models: their models, shape (len(peers), n_parameters).
            steps: the step of each, from which its mini-batch is drawn.

        Returns:
            The gradients, including that of the penalty, shape (len(peers), n_parameters).
        """
        numbers = np.asarray(peers, dtype=np.int64)
        if self._by_samples is not None:
            gradients = self._of_samples(self._by_samples, numbers, models, np.asarray(steps, dtype=np.int64))
        else:
            each = zip(numbers.tolist(), models, steps, strict=True)
            gradients = np.stack([self._of_share(peer, model, step) for peer, model, step in each])
        if self._penalty.smooth:
            for own, model in zip(gradients, models, strict=True):
                own += self._penalty.gradient(model)
        return gradients

    def _of_samples(self, problem: Sampled, numbers: IntArray, models: Array, steps: IntArray) -> Array:
        factors = self.factors[numbers][:, None]
        if self.batch is not None:
            draws = _draw(self.seed, numbers, steps, self.batch)
            counts = self._counts[numbers][:, None].astype(np.uint64)
            rows = self._all_samples[
                self._starts[numbers][:, None] + ((draws * counts) >> np.uint64(32)).astype(np.int64)
            ]
            return problem.sample_gradients(models, rows) * factors
        gradients = np.empty_like(models)
        for count in np.unique(self._counts[numbers]).tolist():  # peers with equally many samples share one call
            own = np.flatnonzero(self._counts[numbers] == count)
            rows = self._all_samples[self._starts[numbers[own]][:, None] + np.arange(count)]
            gradients[own] = problem.sample_gradients(models[own], rows)
        return gradients * factors

    def _of_share(self, peer: int, model: Array, step: int) -> Array:
        rows = self.shares[peer]
        if peer not in self._shards:
            cuts = np.flatnonzero(np.diff(rows) != 1) + 1
            ranges = [slice(int(part[0]), int(part[-1]) + 1) for part in np.split(rows, cuts)]
            self._shards[peer] = self.problem.shard(ranges)
        shard, gradient = self._shards[peer], np.zeros(self.problem.n_parameters)
        support = slice(None) if shard.support is None else shard.support
        local = np.empty(self.problem.n_parameters if shard.support is None else len(shard.support))
        shard.combine(shard.take(model), np.ones(shard.n_tasks), int(step), local)
        gradient[support] = local
        return gradient * (self.problem.n_samples / len(rows) * self.factors[peer])


def _draw(seed: int, peers: IntArray, steps: IntArray, count: int) -> Any:
    """Return 32 random bits for each sample of each peer's mini-batch: splitmix64 of (seed, peer, step, sample).

    Arguments:
        seed: seed of the draws.
        peers, steps: the peers and their steps, shape (n,).
        count: number of samples of a batch.

    Returns:
        Shape (n, count), uint64.
    """
    key = (int(seed) * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) & (2**64 - 1)
    with np.errstate(over="ignore"):
        own = scrambled(peers.astype(np.uint64) * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(key))
        own = scrambled(own + steps.astype(np.uint64) * np.uint64(0x94D049BB133111EB))
        return scrambled(own[:, None] + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> (
            np.uint64(32)
        )


def taken_over(shares: Shares, gone_peer: int, successors: Sequence[int]) -> Shares:
    """Return the shares after the samples of a peer that is gone were divided among its successors.

    Raises:
        InvalidArgument: if there are no successors.
    """
    if not successors:
        sentence = f"No peer is left to take over the data of peer {gone_peer}."
        raise InvalidArgument("successors", "must be one or more", successors, sentence=sentence)
    updated = list(shares)
    for successor, part in zip(successors, np.array_split(shares[gone_peer], len(successors)), strict=True):
        updated[successor] = np.sort(np.concatenate([updated[successor], part]))
    updated[gone_peer] = np.empty(0, dtype=np.int64)
    return tuple(updated)


def peers_in(saved: Iterable[Any], n_peers: int) -> frozenset[int]:
    """Return the peers in a saved list.

    Raises:
        ValueError: if something in it is none of so many peers.
    """
    peers = frozenset(int(peer) for peer in saved)
    if not peers <= frozenset(range(n_peers)):
        raise ValueError(f"{sorted(peers)} are not all peers, 0 to {n_peers - 1}")
    return peers


class SampleOwnership:
    """Which peer holds which samples now. It depends only on which peers are gone, and not on the order of changes.

    Arguments:
        graph: the graph of all peers.
        shares: the initial shares.
        orphans: whether the samples of a peer that is gone are left out, or taken over by its neighbours.

    Attributes:
        shares: the samples that each peer holds now; empty for peers that are gone.
        gone: the peers that are gone.
    """

    def __init__(self, graph: Graph, shares: Shares, orphans: Literal["out", "taken over"]) -> None:
        self._graph, self._initial, self._orphans = graph, shares, orphans
        self.shares, self.gone = shares, frozenset[int]()

    def update(self, gone: frozenset[int]) -> bool:
        """Set which peers are gone.

        Returns:
            Whether the shares have changed.
        """
        if gone == self.gone:
            return False
        shares = self._initial
        for peer in sorted(gone):
            successors = self._successors(peer, gone)
            if self._orphans == "taken over" and successors:
                shares = taken_over(shares, peer, successors)
            else:
                shares = tuple(
                    np.empty(0, dtype=np.int64) if other == peer else share for other, share in enumerate(shares)
                )
        self.shares, self.gone = shares, gone
        return True

    def _successors(self, peer: int, gone: frozenset[int]) -> list[int]:
        """Return which peers take over from a peer that is gone, ascending.

        They are its neighbours; in place of neighbours that are gone, too, the neighbours of these, and so on.
        """
        reached, successors = [peer], set[int]()
        for one in reached:
            for other in self._graph.neighbours[one]:
                if other not in gone:
                    successors.add(other)
                elif other not in reached:
                    reached.append(other)
        return sorted(successors)

    def state(self) -> PlainData:
        """Return everything that `restore` needs, as plain data."""
        return {"orphaned": sorted(self.gone), "shares": [] if self.shares is self._initial else list(self.shares)}

    def restore(self, state: Entries) -> None:
        """Continue from what `state` returned; the shares follow from who is gone."""
        self.update(peers_in(state["orphaned"], self._graph.n_peers))

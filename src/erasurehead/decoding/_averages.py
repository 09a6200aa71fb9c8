"""The mean residual over random stragglers: in closed form where there is one, otherwise by Monte Carlo."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead._internal.rng import stream
from erasurehead.codes import GradientCode
from erasurehead.decoding._base import Decoder
from erasurehead.decoding._choice import make_decoder
from erasurehead.decoding._design import UniformOverlap
from erasurehead.decoding._groups import FirstPerGroup
from erasurehead.errors import check_count


@dataclass(frozen=True, eq=False)
class MeanResidual:
    """The mean residual of optimal decoding for several numbers of stragglers.

    Arguments:
        stragglers: numbers of stragglers, shape (k,).
        mean: mean over uniformly random sets of that many workers, shape (k,), in tasks.
        error: standard error of `mean`, shape (k,); 0 where `mean` is exact, NaN from a single sample.
        samples: number of random orders that were drawn; 0 for a closed form.
    """

    stragglers: IntArray
    mean: Array
    error: Array
    samples: int

    @property
    def exact(self) -> bool:
        """Whether the means are closed forms."""
        return self.samples == 0


def mean_residual(
    code: GradientCode,
    stragglers: IntArray,
    *,
    samples: int = 200,
    seed: int = 0,
    decoder: Decoder | None = None,
) -> MeanResidual:
    """Return the mean residual of optimal decoding over uniformly random sets of stragglers.

    Codes of replicas and block designs have closed forms. For others random orders of arrival are drawn, each of which
    gives one sample for every number of stragglers; the samples of different numbers are therefore correlated.

    Arguments:
        code: any code.
        stragglers: numbers of stragglers, shape (k,), each at most the number of workers.
        samples: number of random orders.
        seed: seed of the orders.
        decoder: an optimal decoder; `make_decoder(code)` if None.
    """
    counts = np.array([check_count("stragglers", s, at_least=0, at_most=code.n_workers) for s in stragglers])
    decoder = make_decoder(code) if decoder is None else decoder
    nothing = np.zeros(len(counts))
    if isinstance(decoder, FirstPerGroup):
        return MeanResidual(counts, _groups(decoder, counts), nothing, 0)
    if isinstance(decoder, UniformOverlap) and code.one_message_each:
        mean = np.array([decoder.residual_with(code.n_workers - int(s)) for s in counts])
        return MeanResidual(counts, mean, nothing, 0)
    random = stream("mean residual", seed)
    draws = np.array(
        [
            _along(decoder, random.permutation(code.n_workers), counts)
            for _ in range(check_count("samples", samples, at_most=1_000_000))
        ]
    )
    spread = draws.std(axis=0, ddof=1) if samples > 1 else np.full(len(counts), np.nan)
    return MeanResidual(counts, draws.mean(axis=0), spread / np.sqrt(samples), samples)


def _groups(decoder: FirstPerGroup, stragglers: IntArray) -> Array:
    """Return the mean for groups, each of which is missing if all of its workers straggle."""
    code, n = decoder.code, decoder.code.n_workers
    pairs = np.unique(np.stack([decoder.groups, code.owner]), axis=1)
    holders = np.bincount(pairs[0], minlength=len(decoder.gains))
    uncovered = code.n_tasks - float(decoder.gains.sum())
    sizes, kind = np.unique(holders, return_inverse=True)
    missing = np.array([[all_straggle(n, int(h), int(s)) for h in sizes] for s in stragglers])
    return np.asarray(uncovered + missing @ np.bincount(kind, decoder.gains), dtype=np.float64)


def all_straggle(n_workers: int, chosen: int, stragglers: int) -> float:
    """Return the probability that given workers are all among random stragglers: C(n - h, s - h) / C(n, s)."""
    ratios = (stragglers - np.arange(chosen)) / (n_workers - np.arange(chosen))
    return float(np.prod(np.maximum(ratios, 0.0)))


def _along(decoder: Decoder, order: IntArray, stragglers: IntArray) -> Array:
    """Return the residual when all but the last s workers of an order have arrived, for each s."""
    code = decoder.code
    if decoder.slack:  # the bound after each arrival is a little too large for a mean
        return np.array([decoder.residual(code.messages_of_workers(order[: code.n_workers - s])) for s in stragglers])
    session, residuals = decoder.begin(), np.empty(code.n_workers + 1)
    residuals[code.n_workers] = session.residual()
    for arrived, worker in enumerate(order.tolist(), start=1):
        session.extend(code.messages_of(worker))
        residuals[code.n_workers - arrived] = session.residual()
    return residuals[stragglers]

"""How much decoding amplifies rounding errors, and how coarse the messages of a code may be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple, final

import numpy as np
from numpy.typing import DTypeLike

from erasurehead._internal.arrays import IntArray
from erasurehead._internal.rng import stream
from erasurehead.codes import GradientCode
from erasurehead.codes._exact_weights import exact_weights
from erasurehead.codes._exactness import EXACT
from erasurehead.codes._worst_rounding import hardest
from erasurehead.decoding._alternatives import Alternatives
from erasurehead.decoding._base import Decoder
from erasurehead.decoding._blocks import Blocks
from erasurehead.decoding._choice import make_decoder
from erasurehead.decoding._design import UniformOverlap
from erasurehead.decoding._least_squares import LeastSquaresDecoder
from erasurehead.decoding._matrix_products import row_sums
from erasurehead.decoding._null_space import NullSpace
from erasurehead.errors import check_count, invalid

BEARABLE = 1e-3
"""The largest relative error of a gradient decoded from rounded messages that `check_rounding` allows."""

MARGIN = 10.0
"""How many times as far from plain sums the worst set may be as the worst that a search found, for `check_rounding`."""

_IN_BLOCKS = 256  # messages in small blocks for all of which together one decomposition is made


@dataclass(frozen=True)
class Conditioning:
    """The numerical conditioning of a code, over all sets of arrivals where there are few, else over sampled ones.

    Arguments:
        largest_coefficient: largest coefficient of the encoding, in magnitude.
        largest_weight: largest weight of the decodings, in magnitude.
        amplification: largest factor found between the rounding error of a message and the relative error of the
            decoded gradient, for partial gradients of equal length and independent directions; 1 for plain sums.
        bound: a factor that no set of as many stragglers exceeds; None if none is known.
        typical: the median factor.
        stragglers: number of workers missing from each set.
        sets: number of sets that were decoded.
    """

    largest_coefficient: float
    largest_weight: float
    amplification: float
    bound: float | None
    typical: float
    stragglers: int
    sets: int

    @property
    def proven(self) -> bool:
        """Whether no set is worse than `amplification`; otherwise it is the worst that was found."""
        return self.bound is not None and self.bound <= self.amplification * (1 + 1e-6)

    def error(self, dtype: DTypeLike) -> float:
        """Return the relative error to expect of a decoded gradient from messages of a dtype, in the worst set."""
        return _rounding(np.dtype(dtype).name) * self.amplification


def conditioning(
    code: GradientCode,
    stragglers: int | None = None,
    *,
    samples: int | None = None,
    seed: int = 0,
    decoder: Decoder | None = None,
) -> Conditioning:
    """Return the largest coefficient of a code, and its worst weights over sets of arrivals.

    The sets are all there are, if they are at most `samples`. Otherwise they are all workers, runs of neighbouring
    stragglers (the worst for cyclic codes), random ones, those that exchanging single workers makes of the worst of
    them, and the hardest that is known: of exact codes the set that a search by their exact weights finds, which
    examines up to a hundred thousand sets one by one and millions more by exchanging two workers, and says whether
    there can be worse ones (`bound`).

    Arguments:
        code: any code.
        stragglers: number of workers missing from each set; if None, the code's tolerance, or a quarter of the workers
            if that is zero or unknown.
        samples: number of random sets, and largest number of runs; if None, 200, or 50 for more than 100 workers.
        seed: seed of the random sets.
        decoder: `make_decoder(code)` if None.

    Raises:
        InvalidArgument: if there are not fewer stragglers than workers.

    >>> from erasurehead.codes import cyclic_repetition, fractional_repetition
    >>> conditioning(fractional_repetition(30, load=3)).amplification
    1.0
    >>> conditioning(cyclic_repetition(30, stragglers=5)).amplification > 50
    True
    """
    sets = _Sets(code, _stragglers(code, stragglers), samples, seed, make_decoder(code) if decoder is None else decoder)
    seen = list(sets.seen())
    weights, factors = np.array([one.weight for one in seen]), np.array([one.factor for one in seen])
    amplification = max(float(factors.max()), sets.prior.amplification)
    bound = amplification if sets.every else sets.prior.bound
    return Conditioning(
        largest_coefficient=float(np.abs(code.encoding.data).max(initial=0.0)),
        largest_weight=float(weights.max()),
        amplification=amplification,
        bound=None if bound is None else max(bound, amplification),
        typical=float(np.median(factors)),
        stragglers=sets.stragglers,
        sets=len(seen),
    )


def check_rounding(code: GradientCode, rounding: float, given: tuple[str, object]) -> None:
    """Raise if messages lose too much precision for a code, in whatever way; the error names a code that works.

    It goes by the bound that `conditioning` states. Where there is none, it examines its sets until one is too bad:
    where the rounding of the messages, or what float64 weights fail to decode although the code promises it, causes too
    large an error. As there may be worse sets, those of an exact code may be worse than plain sums by a tenth only of
    what would be borne.

    Arguments:
        code: any code.
        rounding: the largest error of an element, relative to the largest element of its message, at least 0.
        given: the argument that it comes from, and its value, for the error.

    Raises:
        InvalidArgument: if for some set of arrivals the error of the decoded gradient could exceed `BEARABLE` and that
            of a single message, or decoding would not be exact although no more workers are missing than the code
            tolerates.
    """
    argument, value = given
    sets = _Sets(code, _stragglers(code, None), None, 0, make_decoder(code))
    count, prior = sets.stragglers, sets.prior
    promised = code.tolerance is not None and 0 < count <= code.tolerance
    bearable = max(BEARABLE, rounding * (1.0 + EXACT)) / rounding if rounding else math.inf
    for one in sets.seen():
        if promised and one.left > EXACT:
            raise invalid(
                argument,
                f"must be fine enough for {code}, but not even float64 decodes it without {count} workers:"
                f" {one.left:.1e} of the gradient is left",
                value,
                f"use {stable_relative(code)}, which decodes with small weights",
            )
        searched = promised and prior.bound is None and not sets.every
        worst = max(one.factor, 1.0 + MARGIN * (one.factor - 1.0)) if searched else one.factor
        if one.hardest and prior.bound is not None:
            worst = max(worst, prior.bound)
        if worst > bearable:
            verb = "turn" if worst == one.factor else "may, without others, turn"
            finer = "float64 messages, or " if _rounding("float64") * worst <= BEARABLE else ""
            raise invalid(
                argument,
                f"must be fine enough for {code}, whose decoding weights reach {one.weight:.2g} and {verb} the rounding"
                f" of the messages into a relative error of {rounding * worst:.1e} (at most {BEARABLE:g})",
                value,
                f"use {finer}{stable_relative(code)}, which decodes with small weights",
            )


def stable_relative(code: GradientCode) -> str:
    """Return the call of a code with similar parameters that decodes without large weights."""
    n, tasks = code.n_workers, "" if code.n_tasks == code.n_workers else f", n_tasks={code.n_tasks}"
    stragglers = code.tolerance or 0
    if code.n_pieces > 1 and code.name != "communication_efficient_groups":
        return f"communication_efficient_groups({n}, load={code.load}, n_pieces={code.n_pieces}{tasks})"
    if stragglers and n % (stragglers + 1):
        return f"binary_repetition({n}, stragglers={stragglers}{tasks})"
    return f"fractional_repetition({n}, load={max(2, min(code.load, stragglers + 1 or code.load))}{tasks})"


def _stragglers(code: GradientCode, stragglers: int | None) -> int:
    if stragglers is None:
        return code.tolerance or code.n_workers // 4
    return check_count("stragglers", stragglers, at_least=0, at_most=code.n_workers - 1)


class _Known(NamedTuple):
    amplification: float
    bound: float | None
    stragglers: IntArray


class _Seen(NamedTuple):
    weight: float  # the largest, in magnitude
    factor: float  # amplification of rounding
    left: float  # fraction of the gradient that is not decoded
    hardest: bool  # whether it is the set that is known to be the hardest


_NOTHING_KNOWN = _Known(0.0, None, np.zeros(0, dtype=np.int64))


@final
class _Sets:
    """The sets of workers over which the conditioning of a code is measured.

    Arguments:
        code, samples, seed, decoder: as for `conditioning`.
        stragglers: number of workers missing from each set.
    """

    def __init__(self, code: GradientCode, stragglers: int, samples: int | None, seed: int, decoder: Decoder) -> None:
        self.code = code
        self.stragglers = stragglers
        self.samples = (
            (200 if code.n_workers <= 100 else 50)
            if samples is None
            else check_count("samples", samples, at_most=1_000_000)
        )
        self._seed = seed
        self._decoder = decoder
        self._squares = row_sums(code, power=2)
        design = isinstance(decoder, UniformOverlap) and code.one_message_each
        self._alike = code.replicas or (design and bool((self._squares == self._squares[0]).all()))
        self.every = self._alike or math.comb(code.n_workers, stragglers) <= self.samples
        """Whether these are all sets there are, or stand for all: of replicas and of designs all sets are alike."""

    @cached_property
    def prior(self) -> _Known:
        """What is known of the worst of all sets without decoding any."""
        code, s = self.code, self.stragglers
        if self.every or not 0 < s <= (code.tolerance or 0):
            return _NOTHING_KNOWN
        stated, least_norm = code.structure, isinstance(self._decoder, (NullSpace, LeastSquaresDecoder))
        if least_norm and stated.hardest is not None and stated.amplification is not None and s == code.tolerance:
            return _Known(stated.amplification, stated.amplification_bound, stated.hardest)
        if isinstance(self._decoder, Alternatives) and stated.classes is not None:
            return _Known(1.0, 1.0, np.arange(s))  # a class counts every task once, as it is
        # Blocks that are solved one by one have the weights of least norm together, too.
        blocks = isinstance(self._decoder, Blocks) and not self._decoder.decoders and code.n_messages <= _IN_BLOCKS
        weights = exact_weights(code) if least_norm or blocks else None
        if weights is None:
            return _NOTHING_KNOWN
        worst = hardest(code, weights, s)
        return _Known(worst.amplification, worst.bound, worst.stragglers)

    def seen(self) -> Iterator[_Seen]:
        """Decode one set of arrivals after another, the hardest first."""
        n, s = self.code.n_workers, self.stragglers
        gone = self.prior.stragglers
        if len(gone) and len(gone) <= s:
            others = np.setdiff1d(np.arange(n), gone)
            yield self._decoded(np.union1d(gone, others[: s - len(gone)]))._replace(hardest=True)
        yield self._decoded(gone[:0])
        if self.code.replicas or not s:
            return
        if self._alike:
            yield self._decoded(np.arange(s))
            return
        if self.every:
            yield from (self._decoded(np.array(chosen)) for chosen in combinations(range(n), s))
            return
        random, worst = stream("conditioning", self._seed), (0.0, gone)

        def tried() -> Iterator[IntArray]:
            yield from self._sampled(random)
            for _ in range(self.samples // 2):
                chosen = worst[1].copy()
                chosen[random.integers(s)] = random.choice(np.setdiff1d(np.arange(n), chosen))
                yield chosen

        for chosen in tried():
            one = self._decoded(chosen)
            worst = max(worst, (one.factor, chosen), key=lambda pair: pair[0])
            yield one

    def _sampled(self, random: np.random.Generator) -> Iterator[IntArray]:
        n, s = self.code.n_workers, self.stragglers
        for begin in np.unique(np.linspace(0, n, min(n, self.samples), endpoint=False).astype(np.int64)):
            yield (begin + np.arange(s)) % n
        for _ in range(self.samples):
            yield random.permutation(n)[:s]

    def _decoded(self, stragglers: IntArray) -> _Seen:
        code = self.code
        decoding = self._decoder.decode(code.messages_without(stragglers))
        noise = float((decoding.weights**2 @ self._squares[decoding.messages]).sum())
        factor = math.sqrt(noise / (code.n_tasks * code.n_pieces))
        weight = float(np.abs(decoding.weights).max(initial=0.0))
        return _Seen(weight, factor, decoding.residual / code.n_tasks, hardest=False)


def _rounding(dtype: str) -> float:
    return 2.0**-8 if dtype == "bfloat16" else float(np.finfo(dtype).eps) / 2

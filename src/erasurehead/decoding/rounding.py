"""How much decoding amplifies rounding errors, and how coarse the messages of a code may be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from erasurehead._internal.arrays import IntArray, dtype_of
from erasurehead._internal.rng import stream
from erasurehead.codes.base import GradientCode
from erasurehead.decoding.base import EXACT, Decoder
from erasurehead.decoding.choice import make_decoder
from erasurehead.decoding.products import row_sums
from erasurehead.errors import check_count, invalid

BEARABLE = 1e-3
"""The largest relative error of a gradient decoded from rounded messages that `check_dtype` allows."""


@dataclass(frozen=True)
class Conditioning:
    """The numerical conditioning of a code, over sampled sets of arrivals.

    Arguments:
        largest_coefficient: largest coefficient of the encoding, in magnitude.
        largest_weight: largest weight of the sampled decodings, in magnitude.
        amplification: worst factor, over the sets, between the rounding error of a message and the relative error of
            the decoded gradient, for partial gradients of equal length and independent directions; 1 for plain sums.
        typical: the median factor.
        stragglers: number of workers missing from each set.
        sets: number of sampled sets.
    """

    largest_coefficient: float
    largest_weight: float
    amplification: float
    typical: float
    stragglers: int
    sets: int

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
    """Return the largest coefficient of a code, and the worst weights over sampled sets of arrivals.

    The sets are all workers, runs of neighbouring stragglers (the worst for cyclic codes), random ones, and those that
    the code itself states as the worst (`Structure.hardest`). There may be worse sets.

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
    stragglers = _stragglers(code, stragglers)
    seen = list(_seen(code, stragglers, samples, seed, make_decoder(code) if decoder is None else decoder))
    weights, factors, _ = np.array(seen).T
    return Conditioning(
        largest_coefficient=float(np.abs(code.encoding.data).max(initial=0.0)),
        largest_weight=float(weights.max()),
        amplification=float(factors.max()),
        typical=float(np.median(factors)),
        stragglers=stragglers,
        sets=len(seen),
    )


def check_dtype(code: GradientCode, dtype: DTypeLike, stragglers: int | None = None) -> None:
    """Raise if messages are too coarse for a code; the error names a code that works.

    It examines the sets of `conditioning` until one is too bad: where the rounding of the messages, or what float64
    weights fail to decode although the code promises it, causes too large an error.

    Arguments:
        code: any code.
        dtype: dtype of the messages, a floating-point type, including `"bfloat16"`.
        stragglers: see `conditioning`.

    Raises:
        InvalidArgument: if for some sampled set of arrivals the error of the decoded gradient would exceed `BEARABLE`
            and that of a single message, or decoding would not be exact although no more workers are missing than the
            code tolerates.
    """
    kind = dtype_of(dtype) if isinstance(dtype, str) else np.dtype(dtype)
    if not (np.issubdtype(kind, np.floating) or kind.name == "bfloat16"):
        raise invalid("dtype", "must be a floating-point type", kind.name, "use float32 or float64")
    check_rounding(code, _rounding(kind.name), stragglers, ("dtype", kind.name))


def check_rounding(
    code: GradientCode, rounding: float, stragglers: int | None = None, given: tuple[str, object] | None = None
) -> None:
    """Raise if messages lose too much precision for a code, in whatever way: see `check_dtype`.

    Arguments:
        code: any code.
        rounding: the largest error of an element, relative to the largest element of its message, at least 0.
        stragglers: see `conditioning`.
        given: the argument that it comes from, and its value, for the error; by default `rounding` itself.

    Raises:
        InvalidArgument: as for `check_dtype`.
    """
    argument, value = ("rounding", rounding) if given is None else given
    coarse, count = rounding, _stragglers(code, stragglers)
    promised = code.tolerance is not None and count <= code.tolerance
    for weight, factor, left in _seen(code, count, None, 0, make_decoder(code)):
        if promised and left > EXACT:
            raise invalid(
                argument,
                f"must be fine enough for {code}, but not even float64 decodes it without {count} workers:"
                f" {left:.1e} of the gradient is left",
                value,
                f"use {stable_relative(code)}, which decodes with small weights",
            )
        if coarse * factor > max(BEARABLE, coarse * (1.0 + EXACT)):
            finer = "float64 messages, or " if _rounding("float64") * factor <= BEARABLE else ""
            raise invalid(
                argument,
                f"must be fine enough for {code}, whose decoding weights reach {weight:.2g} and turn the rounding of"
                f" the messages into a relative error of {coarse * factor:.1e} (at most {BEARABLE:g})",
                value,
                f"use {finer}{stable_relative(code)}, which decodes with small weights",
            )


def stable_relative(code: GradientCode) -> str:
    """Return the call of a code with similar parameters that decodes without large weights."""
    n, tasks = code.n_workers, "" if code.n_tasks == code.n_workers else f", n_tasks={code.n_tasks}"
    stragglers = code.tolerance or 0
    if code.n_pieces > 1:
        return f"communication_efficient_groups({n}, load={code.load}, n_pieces={code.n_pieces}{tasks})"
    if stragglers and n % (stragglers + 1):
        return f"binary_repetition({n}, stragglers={stragglers}{tasks})"
    return f"fractional_repetition({n}, load={max(2, min(code.load, stragglers + 1 or code.load))}{tasks})"


def _stragglers(code: GradientCode, stragglers: int | None) -> int:
    if stragglers is None:
        return code.tolerance or code.n_workers // 4
    return check_count("stragglers", stragglers, at_least=0, at_most=code.n_workers - 1)


def _seen(
    code: GradientCode, stragglers: int, samples: int | None, seed: int, decoder: Decoder
) -> Iterator[tuple[float, float, float]]:
    """Yield the largest weight, the amplification, and the undecoded fraction of one set of arrivals after another."""
    squares = row_sums(code, power=2)
    if samples is None:
        samples = 200 if code.n_workers <= 100 else 50
    # With replicas the weights are the same for every set.
    missing = 0 if code.replicas else stragglers
    for present in _sets(code, missing, check_count("samples", samples), seed):
        decoding = decoder.decode(code.messages_of_workers(present))
        noise = float((decoding.weights**2 @ squares[decoding.messages]).sum())
        factor = float(np.sqrt(noise / (code.n_tasks * code.n_pieces)))
        yield float(np.abs(decoding.weights).max(initial=0.0)), factor, decoding.residual / code.n_tasks


def _rounding(dtype: str) -> float:
    return 2.0**-8 if dtype == "bfloat16" else float(np.finfo(dtype).eps) / 2


def _sets(code: GradientCode, stragglers: int, samples: int, seed: int) -> Iterator[IntArray]:
    n_workers = code.n_workers
    yield np.arange(n_workers)
    if not stragglers:
        return
    hardest = code.structure.hardest
    if hardest is not None and 0 < len(hardest) <= stragglers:
        others = np.setdiff1d(np.arange(n_workers), hardest)
        yield others[stragglers - len(hardest) :]
    for begin in np.unique(np.linspace(0, n_workers, min(n_workers, samples), endpoint=False).astype(np.int64)):
        yield np.sort((begin + stragglers + np.arange(n_workers - stragglers)) % n_workers)
    random = stream("conditioning", seed)
    for _ in range(samples):
        yield np.sort(random.permutation(n_workers)[stragglers:])

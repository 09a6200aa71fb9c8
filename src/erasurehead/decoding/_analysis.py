"""Analysis of a code: residual against stragglers, load, bytes, rounding, time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray, IntArray, whole_numbers
from erasurehead._internal.resources import check_seconds
from erasurehead._internal.rng import stream
from erasurehead._internal.shown import shown
from erasurehead.codes import GradientCode
from erasurehead.decoding._adversary import worst_case
from erasurehead.decoding._averages import mean_residual
from erasurehead.decoding._base import Decoder
from erasurehead.decoding._bounds import is_biregular, spectral_bound
from erasurehead.decoding._choice import make_decoder
from erasurehead.decoding._matrix_products import backward
from erasurehead.decoding._one_step import SumMoments
from erasurehead.decoding._rounding import Conditioning, conditioning
from erasurehead.errors import check_count, counted, invalid

_FULL = 100  # up to this many workers, every number of stragglers is examined by default
_SECONDS = 2e-7  # least cost of a residual per coefficient of the code


@dataclass(frozen=True, eq=False)
class Curves:
    """Residuals against the number of stragglers, all in tasks, all of shape (k,).

    Arguments:
        stragglers: numbers of straggling workers, ascending.
        mean: mean residual of optimal decoding over random stragglers.
        mean_error: standard error of `mean`; 0 where it is a closed form.
        one_step: mean residual of unbiased one-step decoding, in closed form; NaN where undefined.
        worst: residual of optimal decoding against an adversary.
        worst_proven: whether no set is worse; otherwise it is the worst that the search found.
        bound: the spectral upper bound on `worst`; NaN for codes that are not biregular.
    """

    stragglers: IntArray
    mean: Array
    mean_error: Array
    one_step: Array
    worst: Array
    worst_proven: BoolArray
    bound: Array


@dataclass(frozen=True, eq=False)
class Cost:
    """The costs of a code.

    Arguments:
        load: the largest number of tasks on a worker; mean_load: their mean.
        replication: the smallest and the largest number of workers that hold a task.
        storage: number of copies of the data set that the workers hold in total.
        messages: largest number of messages of a worker per step.
        upload: what that worker sends per step, in gradients (a message of one of m pieces is 1/m of one).
        decoder: class of the decoder that `make_decoder` chooses.
        decoding_seconds: seconds to decode one random set with a tenth of the workers missing, median of several.
        decoding_products: the same time, divided by that of one product of the encoding with a vector.
    """

    load: int
    mean_load: float
    replication: tuple[int, int]
    storage: float
    messages: int
    upload: float
    decoder: str
    decoding_seconds: float
    decoding_products: float


@dataclass(frozen=True, eq=False)
class Analysis:
    """The result of `analyse`.

    Arguments:
        code: the code.
        curves: residuals against stragglers.
        cost: load, storage, upload, decoding time.
        conditioning: how much decoding amplifies rounding errors.
        samples: number of random orders behind `curves.mean`; 0 for a closed form.
    """

    code: GradientCode
    curves: Curves
    cost: Cost
    conditioning: Conditioning
    samples: int

    def __repr__(self) -> str:
        return f"Analysis({self.code!r}, up to {counted('straggler', int(self.curves.stragglers.max()))})"

    def plot(self, ax: Any = None, kind: str = "adversary") -> Any:
        """Draw what is lost to stragglers with matplotlib (the extra `report`), and return the axes.

        Arguments:
            ax: where to draw; by default in a new figure.
            kind: `"adversary"`, random against the worst stragglers; or `"one_step"`, one weight for all messages
                against the best weights.

        Raises:
            InvalidArgument: if there is no such picture, or `ax` is something else.
            MissingExtra: if matplotlib is not installed.
        """
        return shown("reports._code_curves", "plot_analysis")(self, ax, kind)

    def as_dict(self) -> dict[str, object]:
        """Return everything as plain lists and numbers, as for JSON."""
        curves = {
            name: [None if value != value else value for value in np.asarray(column).tolist()]
            for name, column in vars(self.curves).items()
        }
        return {
            "code": repr(self.code),
            "name": self.code.name,
            "n_workers": self.code.n_workers,
            "n_tasks": self.code.n_tasks,
            "tolerance": self.code.tolerance,
            "source": self.code.source,
            "samples": self.samples,
            "curves": curves,
            "cost": {**vars(self.cost), "replication": list(self.cost.replication)},
            "conditioning": dict(vars(self.conditioning)),
        }


def analyse(
    code: GradientCode,
    stragglers: Sequence[int] | IntArray | None = None,
    *,
    samples: int | None = None,
    effort: int = 200,
    enumerate_up_to: int = 2000,
    seed: int = 0,
) -> Analysis:
    """Measure a code: residuals against stragglers (mean, one-step, worst, bound), costs, conditioning.

    Arguments:
        code: any code.
        stragglers: numbers of stragglers to examine; if None, all numbers for up to 100 workers, otherwise 21 of them.
        samples: number of random orders for means without a closed form; if None, 200 for up to 100 workers, else
            fewer.
        effort: number of residuals that the adversary may compute for each number of stragglers.
        enumerate_up_to: number of sets up to which all are tried; the worst case is then proven.
        seed: seed of samples and search. Everything except for the decoding time is the same for the same seed.

    Raises:
        InvalidArgument: if there are more stragglers than workers.

    >>> from erasurehead.codes import fractional_repetition
    >>> found = analyse(fractional_repetition(12, load=3), [0, 2, 3, 6])
    >>> found.curves.worst.tolist(), found.curves.mean.round(4).tolist()
    ([0.0, 0.0, 3.0, 6.0], [0.0, 0.0, 0.0545, 1.0909])
    """
    n = code.n_workers
    check_count("effort", effort)
    check_count("enumerate_up_to", enumerate_up_to, at_least=0)
    check_count("seed", seed, at_least=0)
    if samples is not None:
        check_count("samples", samples, at_most=1_000_000)
    if stragglers is None:
        stragglers = np.arange(n + 1) if n <= _FULL else np.unique(np.linspace(0, n, 21).astype(np.int64))
    given = whole_numbers("stragglers", stragglers).tolist()
    counts = np.unique([check_count("stragglers", s, at_least=0, at_most=n) for s in given])
    if not len(counts):
        raise invalid("stragglers", "must name at least one number", list(stragglers))
    if samples is None:
        samples = 200 if n <= _FULL else max(8, 20_000 // n)
    seconds = _SECONDS * code.encoding.nnz * (samples + effort * len(counts))
    check_seconds(f"The analysis of {code.name} of {counted('worker', n)}", seconds, "a code of fewer workers is alike")
    decoder = make_decoder(code)
    mean = mean_residual(code, counts, samples=samples, seed=seed, decoder=decoder)
    worst, proven = _worst(code, counts, decoder, effort, enumerate_up_to, seed)
    bounded = is_biregular(code)
    curves = Curves(
        stragglers=counts,
        mean=mean.mean,
        mean_error=mean.error,
        one_step=_one_step(code, counts),
        worst=worst,
        worst_proven=proven,
        bound=np.array([spectral_bound(code, int(s)) if bounded else np.nan for s in counts]),
    )
    return Analysis(code, curves, _cost(code, decoder), conditioning(code, seed=seed, decoder=decoder), mean.samples)


def _worst(
    code: GradientCode, counts: IntArray, decoder: Decoder, effort: int, enumerate_up_to: int, seed: int
) -> tuple[Array, BoolArray]:
    residuals, proven = np.empty(len(counts)), np.zeros(len(counts), dtype=bool)
    start: IntArray | None = None
    for place, s in enumerate(counts.tolist()):
        worst = worst_case(
            code, s, enumerate_up_to=enumerate_up_to, effort=effort, seed=seed, decoder=decoder, start=start
        )
        residuals[place], proven[place], start = worst.residual, worst.proven, worst.stragglers
    return np.maximum.accumulate(residuals), proven


def _one_step(code: GradientCode, counts: IntArray) -> Array:
    if code.n_pieces != 1 or not code.one_message_each or (moments := SumMoments.of(code)).vanish:
        return np.full(len(counts), np.nan)
    return np.array([moments.residual(code.n_tasks, code.n_workers - int(s)) for s in counts])


def _cost(code: GradientCode, decoder: Decoder) -> Cost:
    present = stream("timing", 0).permutation(code.n_workers)[code.n_workers // 10 :]
    messages = code.messages_of_workers(present)
    vector = np.ones(code.n_messages)
    decoder.decode(messages)  # compiles, and prepares whatever is prepared once
    backward(code, vector)
    decoding, product = np.array([_seconds(code, decoder, messages, vector) for _ in range(5)]).T
    most = int(code.messages_per_worker.max())
    return Cost(
        load=code.load,
        mean_load=float(code.loads.mean()),
        replication=(int(code.replication.min()), int(code.replication.max())),
        storage=float(code.loads.sum()) / code.n_tasks,
        messages=most,
        upload=most / code.n_pieces,
        decoder=type(decoder).__name__,
        decoding_seconds=statistics.median(decoding.tolist()),
        decoding_products=statistics.median((decoding / product).tolist()),
    )


def _seconds(code: GradientCode, decoder: Decoder, messages: IntArray, vector: Array) -> tuple[float, float]:
    begin = time.perf_counter()
    decoder.decode(messages)
    middle = time.perf_counter()
    backward(code, vector)
    return middle - begin, time.perf_counter() - middle

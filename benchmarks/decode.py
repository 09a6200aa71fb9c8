"""Time to decode one set of arrivals, in products of the encoding with a vector, and against dense least squares.

Families of all structures at 30, 300, 3,000 and 10,000 workers (or the nearest number at which they exist), with two
thirds of the workers arrived; exact codes with as many missing as they bear. A product is `encoding @ vector` by scipy,
timed in the same repetition. `numpy.linalg.lstsq` decodes the same set up to 300 workers.

For sparse codes without structure the products are also *counted*, as the solver spends them (an iteration looks at
every entry four times): until the residual is within 1e-6 a task of that of scipy's `lsqr` run to the end, and until
the solver, which does not know the optimum, stops. Counts for more arrivals follow without a target.

Run: python benchmarks/decode.py
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import time
from collections.abc import Callable, Iterator

import numpy as np
from scipy.sparse.linalg import lsqr

from common import interleave, ratio, report
from erasurehead import codes
from erasurehead.codes import GradientCode
from erasurehead.decoding import make_decoder
from erasurehead.decoding._sparse import SparseLeastSquares

SIZES = (30, 300, 3000, 10_000)
DENSE = 300
PLANES = {30: 5, 300: 17, 3000: 53, 10_000: 97}  # orders of projective planes of about so many points
REPETITIONS = 15

STRUCTURED: dict[str, Callable[[int], GradientCode]] = {
    "repetition": lambda n: codes.fractional_repetition(n, load=3),
    "coupons": lambda n: codes.build("batched_coupons", n, load=10),
    "pieces by group": lambda n: codes.build("communication_efficient_groups", n, load=6, n_pieces=2),
    "plane": lambda n: codes.build("projective_plane", PLANES[n]),
    "graph": lambda n: codes.build("graph_code", n, replication=4),
}
EXACT: dict[str, Callable[[int], GradientCode]] = {
    "cyclic mds": lambda n: codes.build("cyclic_mds", n, stragglers=3),
    "binary repetition": lambda n: codes.build("binary_repetition", n, stragglers=6),
}
SPARSE: dict[str, Callable[[int], GradientCode]] = {
    "regular 3": lambda n: codes.build("regular", n, load=3),
    "regular 10": lambda n: codes.build("regular", n, load=10),
    "bernoulli 3": lambda n: codes.build("bernoulli", n, 3),
    "bernoulli 10": lambda n: codes.build("bernoulli", n, 10),
    "blocks of 10": lambda n: codes.build("stochastic_block", n, 10, 0.5, 1.2 / n),
    "blocks of 5": lambda n: codes.build("stochastic_block", n, 5, 0.8, 1.0 / n),
    "expander 4": lambda n: codes.build("expander", n, load=4),
}


def arrivals(code: GradientCode, fraction: float, seed: int = 0) -> np.ndarray:
    """Return the messages of a random part of the workers, ascending."""
    random = np.random.default_rng([2025, seed])  # a stream of its own: codes may be drawn with seed 0 as well
    present = random.permutation(code.n_workers)[: round(fraction * code.n_workers)]
    return code.messages_of_workers(np.sort(present))


def time_one(code: GradientCode, messages: np.ndarray, dense: bool) -> Iterator[tuple[str, float]]:
    """Yield the time of a decoding over that of a product, and that of least squares over a decoding."""
    decoder, vector, batch = make_decoder(code), np.ones(code.encoding.shape[1]), 20

    def products() -> None:
        for _ in range(batch):
            code.encoding @ vector

    sides: dict[str, Callable[[], object]] = {"decode": lambda: decoder.decode(messages), "product": products}
    if dense:
        rows = code.encoding.toarray()[messages]
        sides["lstsq"] = lambda: np.linalg.lstsq(rows.T, code.target.T, rcond=None)
    seconds = interleave(sides, repetitions=REPETITIONS, warmup=2)
    yield "products", ratio(seconds, "decode", "product") * batch
    if dense:
        yield "lstsq / ours", ratio(seconds, "lstsq", "decode")


def count_one(name: str, code: GradientCode) -> Iterator[tuple[str, float, str | None]]:
    """Yield the products counted until the residual is within 1e-6 a task of the optimum, and until the solver stops.

    The optimum is scipy's `lsqr`, run to the end, where that is feasible.
    """
    decoder = SparseLeastSquares(code)
    for fraction in (1 / 3, 1 / 2, 2 / 3, 0.8, 0.9, 1.0):
        messages = arrivals(code, fraction)
        stopped = decoder.solve(messages)
        yield f"{name} counted at {fraction:.0%} until it stops", stopped.products, None
        if fraction < 0.7:
            rows = code.encoding[messages]
            _, _, _, length, *_ = lsqr(rows.T, np.ones(code.n_tasks), atol=1e-13, btol=1e-13, iter_lim=20_000)
            enough = length**2 + 1e-6 * code.n_tasks
            low, high = 0, stopped.products // 4
            while low < high:
                middle = (low + high) // 2
                reached = decoder.solve(messages, limit=middle).decoding.residual <= enough
                low, high = (low, middle) if reached else (middle + 1, high)
            solution = decoder.solve(messages, limit=low)
            reached = solution.decoding.residual <= enough
            yield f"{name} counted at {fraction:.0%}", solution.products if reached else np.inf, "<= 200"
            excess = (stopped.decoding.residual - length**2) / code.n_tasks
            yield f"{name} excess at {fraction:.0%} / 1e-6 n", max(0.0, excess) / 1e-6, "<= 1"


def main() -> None:
    ratios: dict[str, float] = {}
    targets: dict[str, str] = {}
    for n in SIZES:
        for families, limit in ((STRUCTURED, "<= 20"), (EXACT, None), (SPARSE, None)):
            for name, build in families.items():
                begin = time.perf_counter()
                code = build(n if name != "cyclic mds" else n // 2 * 2)
                fraction = 2 / 3 if code.tolerance is None or families is not EXACT else 1 - code.tolerance / n
                for what, value in time_one(code, arrivals(code, fraction), n <= DENSE):
                    key = f"{name} n={n} {what}"
                    ratios[key] = value
                    if limit and what == "products":
                        targets[key] = limit
                if families is SPARSE and n == SIZES[-1]:
                    for key, value, target in count_one(name, code):
                        ratios[key] = value
                        if target:
                            targets[key] = target
                print(
                    f"# {name} at {n}: {make_decoder(code).__class__.__name__}, {time.perf_counter() - begin:.1f} s",
                    flush=True,
                )
    report("decode", ratios, targets)


if __name__ == "__main__":
    main()

"""What it costs to ask `residual_below(e)` at every arrival, at 10,000 workers.

Workers arrive in random order, one by one, and the session is asked for its residual after each: `add` and `residual`
in Python, as the training loop does. For sparse codes e is the optimal residual at two thirds of the workers, so that
this is where the rule stops at the earliest.

- Structured codes: the mean time of one decision, and the time of all decisions until everything has arrived when the
  sequence is judged as a whole (`residuals`, as planners do), both over one decoding of two thirds of the workers.
- Sparse codes of load up to 3: time of all decisions until the stop over one decoding at the stop; the largest excess
  of the bound over the optimum at 150 places on the way, and whether it was ever below it.
- Denser codes: the same time, and how many arrivals too late they stop. Codes with more messages than tasks, whose
  residual is nearly zero at the stop, follow without targets.

The optimum on the way is that of the decoder itself, which `benchmarks/decode.py` compares with scipy's `lsqr`.

Run: python benchmarks/decide.py
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

from collections.abc import Callable, Iterator

import numpy as np

from common import interleave, ratio, report
from decode import PLANES
from erasurehead import codes
from erasurehead.codes import GradientCode
from erasurehead.decoding import make_decoder
from erasurehead.decoding._sparse import SparseLeastSquares

N = 10_000
REPETITIONS = 5
PLACES = 150

STRUCTURED: dict[str, Callable[[], GradientCode]] = {
    "repetition": lambda: codes.fractional_repetition(N, load=3),
    "pieces by group": lambda: codes.build("communication_efficient_groups", N, load=6, n_pieces=2),
    "plane": lambda: codes.build("projective_plane", PLANES[N]),
    "graph": lambda: codes.build("graph_code", N, replication=4),
}
LIGHT: dict[str, Callable[[], GradientCode]] = {
    "regular 3": lambda: codes.build("regular", N, load=3),
    "bernoulli 2": lambda: codes.build("bernoulli", N, 2),
    "bernoulli 3": lambda: codes.build("bernoulli", N, 3),
    "blocks of 3": lambda: codes.build("stochastic_block", N, 3, 0.8, 0.6 / N),
    "expander 3": lambda: codes.build("expander", N, load=3),
}
DENSE: dict[str, Callable[[], GradientCode]] = {
    "regular 5": lambda: codes.build("regular", N, load=5),
    "bernoulli 5": lambda: codes.build("bernoulli", N, 5),
    "blocks of 5": lambda: codes.build("stochastic_block", N, 5, 0.8, 1.0 / N),
    "blocks of 10": lambda: codes.build("stochastic_block", N, 10, 0.5, 1.2 / N),
    "bernoulli 10": lambda: codes.build("bernoulli", N, 10),
    "margulis": lambda: codes.build("margulis", round(N**0.5)),
}

MANY: dict[str, Callable[[], GradientCode]] = {
    "regular 3, 5,000 tasks": lambda: codes.build("regular", N, load=3, n_tasks=N // 2),
    "bernoulli 3, 5,000 tasks": lambda: codes.build("bernoulli", N, 3, n_tasks=N // 2),
}

Rows = Iterator[tuple[str, float, str | None]]


def order_of(code: GradientCode) -> np.ndarray:
    """Return the messages in a random order of arrival."""
    return np.random.default_rng([2026, 0]).permutation(code.n_messages)


def decide(decoder, order: list[int]) -> float:
    """Ask for the residual after each arrival, and return the last one."""
    session, residual = decoder.begin(), np.inf
    for message in order:
        session.add(message)
        residual = session.residual()
    return residual


def structured(code: GradientCode) -> Rows:
    decoder, order = make_decoder(code), order_of(code)
    arrived, sequence = np.sort(order[: 2 * len(order) // 3]), order.tolist()
    seconds = interleave(
        {
            "decisions": lambda: decide(decoder, sequence),
            "sequence": lambda: decoder.residuals(order),
            "decode": lambda: decoder.decode(arrived),
        },
        repetitions=REPETITIONS,
    )
    yield "one decision / decode", ratio(seconds, "decisions", "decode") / len(order), "<= 1"
    yield "all decisions, in Python / decode", ratio(seconds, "decisions", "decode"), None
    yield "all decisions, as a sequence / decode", ratio(seconds, "sequence", "decode"), None


def sparse(code: GradientCode, tight: str | None = None, quick: str | None = "<= 30") -> Rows:
    decoder, order = SparseLeastSquares(code), order_of(code)
    stop = 2 * len(order) // 3
    e = decoder.residual(order[:stop])
    bounds = decoder.residuals(order)
    late = int(np.argmax(bounds <= e)) + 1 - stop
    sequence, arrived = order[: stop + late].tolist(), np.sort(order[: stop + late])
    seconds = interleave(
        {"decisions": lambda: decide(decoder, sequence), "decode": lambda: decoder.decode(arrived)},
        repetitions=REPETITIONS,
    )
    yield "all decisions / decode", ratio(seconds, "decisions", "decode"), quick
    places = np.unique(np.linspace(1, stop, PLACES).astype(int))
    optima = np.array([decoder.residual(order[:place]) for place in places])
    excess = bounds[places - 1] / optima - 1
    yield "largest excess of the bound / 1%", float(excess.max()) / 0.01, tight
    # The decoder's own optimum is too large by up to 1e-6 a task.
    below = float(((optima - bounds[places - 1]) / code.n_tasks).max())
    yield "largest shortfall of the bound / 1e-6 n", max(0.0, below) / 1e-6, "<= 1"
    yield "arrivals too late", float(late), None


def main() -> None:
    ratios: dict[str, float] = {}
    targets: dict[str, str] = {}
    kinds = (
        (STRUCTURED, structured),
        (LIGHT, lambda code: sparse(code, tight="<= 1")),
        (DENSE, sparse),
        (MANY, lambda code: sparse(code, quick=None)),
    )
    for families, measure in kinds:
        for name, build in families.items():
            for what, value, target in measure(build()):
                ratios[f"{name}: {what}"] = value
                if target:
                    targets[f"{name}: {what}"] = target
            print(f"# {name}", flush=True)
    report("decide", ratios, targets)


if __name__ == "__main__":
    main()

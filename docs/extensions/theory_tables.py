"""The tables of the theory page: each formula beside its simulated value.

`python docs/extensions/theory_tables.py` writes them into `docs/theory.md`; a test makes them anew and compares.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
from theory_formulas import (
    Erasures,
    any_but,
    lemma3,
    lemma4,
    lemma5,
    lemma8,
    missing_groups,
    predicted_times,
    scaled,
    theorem1,
    theorem2,
    theorem3,
)

from erasurehead import delays
from erasurehead._internal.arrays import Array
from erasurehead.codes import fractional_repetition, uncoded
from erasurehead.decoding import make_decoder
from erasurehead.planning import Constants
from erasurehead.planning._convergence import lemma1
from erasurehead.planning._simulation import Timing, simulate, stop_times
from erasurehead.planning._step_times import (
    additive,
    all_groups,
    first_arrivals,
    first_or_all_groups,
    minimum_mean,
    order_statistic,
)
from erasurehead.schemes import wait_rules

PAGE = Path(__file__).resolve().parents[1] / "theory.md"
TRIALS = 100_000
N, C, R = 30, 3, 15
SETTINGS = ((30, 3, 15), (30, 5, 15), (24, 4, 12), (12, 2, 6))
_MARK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def erasures() -> list[str]:
    """Return Lemmas 2 and 5, and the number of missing groups."""
    rows: list[tuple[str, ...]] = []
    for n, c, r in ((30, 3, 11), (30, 3, 15), (30, 5, 15)):
        missing, law = ~_heard(n, c, r), Erasures(n, c, r)
        both = missing[:, 0] | missing[:, 1]
        name = f"{n}, {c}, {r}"
        rows.append((name, "$p$", f"{law.p:.5f}", _said(missing[:, 0]), f"at most {lemma5(law):.5f} (Lemma 5)"))
        rows.append((name, "$q$", f"{law.q:.5f}", _said(both), f"at most $2p$ = {2 * law.p:.5f}"))
        counts = missing.sum(axis=1)
        for j in range(4):
            rows.append((name, f"$P(j = {j})$", f"{missing_groups(law)[j]:.5f}", _said(counts == j), ""))
    return _table(("n, c, r", "", "formula", "simulated", ""), rows)


def moments() -> list[str]:
    """Return Lemmas 3 and 4 for gradients of length 4 that are drawn once."""
    groups = np.random.default_rng(5).standard_normal((N // C, 4))
    law = Erasures(N, C, R)
    estimates = _heard(N, C, R).astype(float) @ groups / N
    full = groups.sum(axis=0) / N
    factor, second = lemma3(law, groups / N)
    along = estimates @ full / float(full @ full)
    sigma = float(np.linalg.norm(groups, axis=1).max()) / C
    bound = lemma4(law, float(np.linalg.norm(full)), sigma, N)
    squares = (estimates**2).sum(axis=1)
    return _table(
        ("", "formula", "simulated", ""),
        [
            (r"$E[g] = (1 - p) \nabla f$: the factor", f"{factor:.5f}", _said(along), "Lemma 3"),
            (r"$E\lVert g \rVert^2$", f"{second:.5f}", _said(squares), "Lemma 3"),
            (r"its bound", f"{bound:.5f}", _said(squares), "Lemma 4: not below"),
        ],
    )


def statistics() -> list[str]:
    """Return Lemmas 6 and 7."""
    times = np.random.default_rng(1).exponential(size=(TRIALS, N))
    ordered = np.sort(times, axis=1)
    rows = [
        (f"$H_{{{N}}} - H_{{{N - r}}}$: answer {r} of {N}", f"{order_statistic(N, r):.5f}", _said(ordered[:, r - 1]))
        for r in (1, 11, 15, 30)
    ]
    rows.append(("1/5: the first of 5", f"{minimum_mean(5):.5f}", _said(times[:, :5].min(axis=1))))
    return _table(("mean 1", "formula", "simulated"), rows)


def steps() -> list[str]:
    """Return Lemma 8 with the law that grows with the load, lambda = 1."""
    rows: list[tuple[str, ...]] = []
    for n, c, r in SETTINGS:
        found = lemma8(n, c, r, 1.0)
        exact = _simulated(n, c, wait_rules.decodable())
        printed = f"{found.exact_as_printed:.5f}"
        off = abs(found.exact_as_printed - exact.mean()) / _error(exact)
        first, joint = (
            _simulated(n, c, wait_rules.first(r)),
            _simulated(n, c, wait_rules.first(r) | wait_rules.decodable()),
        )
        name = f"{n}, {c}, {r}"
        rows += [
            (name, "uncoded, (12)", f"{found.uncoded:.5f}", _said(_simulated(n, 1, wait_rules.decodable())), ""),
            (name, "exact, corrected", f"{found.exact:.5f}", _said(exact), ""),
            (name, "exact, (13) as printed", printed, _said(exact), f"{off:.0f} standard errors off"),
            (name, "r-th answer, (14)", f"{found.approximate:.5f}", _said(first), ""),
            (name, "r-th answer or all groups", f"{found.joint:.5f}", _said(joint), ""),
        ]
    return _table(("n, c, r", "", "formula", "simulated", ""), rows)


def additive_steps() -> list[str]:
    """Return the same with the law of the published experiments: mean 0.5 s whatever the load, 0.01 s a task."""
    law, single = additive(C, 0.01, 2.0), additive(1, 0.01, 2.0)

    coded, plain, whole = fractional_repetition(N, C), uncoded(N), wait_rules.decodable()
    some, rest = wait_rules.first(R), wait_rules.first(N - C + 1)
    cases = (
        (r"uncoded: $t + H_n / \lambda$", first_arrivals(single, N, N), plain, whole),
        (r"exact: $c t + H_{n/c} / (\lambda c)$", all_groups(law, N, C), coded, whole),
        (r"any $n - c + 1$: $c t + (H_n - H_{c-1}) / \lambda$", any_but(law, N, C - 1), coded, rest),
        (r"r-th answer: $c t + (H_n - H_{n-r}) / \lambda$", first_arrivals(law, N, R), coded, some),
        ("r-th answer or all groups", first_or_all_groups(law, N, C, R), coded, some | whole),
    )
    model = delays.Exponential(0.5, seed=2)
    rows = [
        (name, f"{formula:.5f}", _said(simulate(Timing(make_decoder(code), rule, model, 0.01), TRIALS).seconds))
        for name, formula, code, rule in cases
    ]
    return _table(("n = 30, c = 3, r = 15", "formula (s)", "simulated (s)"), rows)


def convergence() -> list[str]:
    """Return Lemma 1 and Theorems 1 and 2 beside the mean of real descents."""
    rows: list[tuple[str, ...]] = []
    problem = _Quadratics(N)
    for r in (11, 15, 20):
        law = Erasures(N, C, r)
        gaps, constants, _ = problem.descend(C, r, 120, 2000)
        tight, loose = theorem1(constants, law, N), theorem2(constants, N, C, r)
        for step in (20, 120):
            rows.append((f"{r}", f"{step}", _mean(gaps[step]), f"{tight.after(step):.4f}", f"{loose.after(step):.4f}"))
    exact, constants, _ = problem.descend(1, N, 120, 1)
    rows += [
        ("30", f"{step}", f"{exact[step][0]:.4f}", f"{lemma1(constants).after(step):.4f} (Lemma 1)", "")
        for step in (20, 120)
    ]
    return _table(("r", "step", "simulated", "Theorem 1", "Theorem 2"), rows)


def times() -> list[str]:
    """Return Theorem 3 beside simulated descents and simulated steps."""
    rows: list[tuple[str, ...]] = []
    n = 2 * N
    problem = _Quadratics(n, spread=0.05, flattest=0.5)
    for c, r in ((6, 40), (10, 30), (10, 40)):
        gaps, constants, spent = problem.descend(c, r, 40, 2000)
        epsilon = 0.02 * constants.gap
        bound, theory = theorem3(constants, n, c, r, epsilon), predicted_times(constants, n, c, r, 1.0 / c, epsilon)
        approximate = _time_to(gaps.mean(axis=1), spent, epsilon)
        exact_gaps, _, exact_spent = problem.descend(c, n, 40, 2000, whole=True)
        exact = _time_to(exact_gaps.mean(axis=1), exact_spent, epsilon)
        plain_gaps, _, plain_spent = problem.descend(1, n, 40, 2000, rate=1.0 / c)
        plain = _time_to(plain_gaps.mean(axis=1), plain_spent, epsilon)
        rows += [
            (f"{c}, {r}", "uncoded", f"{bound.uncoded:.3f}", f"{theory.uncoded:.3f}", f"{plain:.3f}"),
            (f"{c}, {r}", "exact", f"{bound.exact:.3f}", f"{theory.exact:.3f}", f"{exact:.3f}"),
            (f"{c}, {r}", "exact, as printed", f"{bound.exact_as_printed:.3f}", "", f"{exact:.3f}"),
            (f"{c}, {r}", "ErasureHead", f"{bound.approximate:.3f}", f"{theory.approximate:.3f}", f"{approximate:.3f}"),
        ]
    return _table(("c, r", "", "Theorem 3", "`predicted_times`", "simulated"), rows)


class _Quadratics:
    """f = (1/n) sum_i (x - a_i)^T diag(1, mu) (x - a_i) / 2, begun 3 away from its minimum in each coordinate."""

    def __init__(self, n: int, spread: float = 1.0, flattest: float = 0.1) -> None:
        self.n, self.curvature = n, np.array([1.0, flattest])
        self.centres = spread * np.random.default_rng(0).standard_normal((n, 2))

    def descend(
        self, c: int, r: int, steps: int, runs: int, whole: bool = False, rate: float | None = None
    ) -> tuple[Array, Constants, float]:
        """Return f - f* after each step, shape (steps + 1, runs), the constants of the path, and the mean step time.

        Arguments:
            c: tasks a worker.
            r: workers waited for, with the shortened step of Theorem 1.
            steps: of each run.
            runs: how many.
            whole: wait for all groups instead, with the full gradient.
            rate: lambda; 1/c if left out.
        """
        law = scaled(self.n, c, 1.0 / c if rate is None else rate)
        rng, p = np.random.default_rng(7), 0.0 if whole or r == self.n else Erasures(self.n, c, r).p
        x = np.tile(self.centres.mean(axis=0) + 3.0, (runs, 1))
        sigma, gaps, spent = 0.0, [self._gap(x)], 0.0
        for _ in range(steps):
            came = law.shift + law.mean * rng.exponential(size=(runs, self.n))
            groups = came.reshape(runs, -1, c).min(axis=2)
            stop = groups.max(axis=1) if whole else np.sort(came, axis=1)[:, r - 1]
            spent += float(stop.mean()) / steps
            gradients = (x[:, None, :] - self.centres) * self.curvature
            sigma = max(sigma, float(np.linalg.norm(gradients, axis=2).max()))
            weights = np.repeat(groups <= stop[:, None], c, axis=1) / (self.n * (1.0 - p))
            x = x - (1.0 - p) * np.einsum("rn,rnd->rd", weights, gradients)
            gaps.append(self._gap(x))
        return np.array(gaps), Constants(float(self.curvature[1]), 1.0, sigma, float(gaps[0][0])), spent

    def _gap(self, x: Array) -> Array:
        return 0.5 * ((x - self.centres.mean(axis=0)) ** 2) @ self.curvature


def _time_to(gaps: Array, seconds: float, epsilon: float) -> float:
    return int(np.argmax(gaps <= epsilon)) * seconds


def _simulated(n: int, c: int, rule: wait_rules.WaitRule) -> Array:
    law = delays.ShiftedExponential(1.0 / n, 1.0 / n, seed=1, scale_with_load=True)
    code = uncoded(n) if c == 1 else fractional_repetition(n, c)
    return stop_times(Timing(make_decoder(code), rule, law), TRIALS)


def _heard(n: int, c: int, r: int) -> Array:
    order = np.random.default_rng(0).random((TRIALS, n)).argsort(axis=1)[:, :r] // c
    heard = np.zeros((TRIALS, n // c), dtype=bool)
    heard[np.arange(TRIALS)[:, None], order] = True
    return heard


def _error(samples: Array) -> float:
    return float(samples.std(ddof=1)) / math.sqrt(len(samples))


def _said(samples: Array) -> str:
    samples = samples.astype(float)
    return f"{samples.mean():.5f} ± {_error(samples):.5f}"


def _mean(samples: Array) -> str:
    return f"{samples.mean():.4f} ± {_error(samples):.4f}"


def _table(headers: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (headers, ("---",) * len(headers), *rows)]


TABLES: Mapping[str, Callable[[], list[str]]] = {
    "erasures": erasures,
    "moments": moments,
    "statistics": statistics,
    "steps": steps,
    "additive": additive_steps,
    "convergence": convergence,
    "times": times,
}


def filled(text: str) -> str:
    """Return the page with its tables made anew."""
    return _MARK.sub(lambda found: f"{found[1]}{chr(10).join(TABLES[found[2]]())}\n{found[3]}", text)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

"""Soft designs: moments, feasibility, expected residual."""

from __future__ import annotations

import numpy as np
import pytest

from erasurehead.codes._soft_designs import soft_design
from erasurehead.errors import InvalidArgument


def draws(count: int, **parameters: float) -> list[np.ndarray]:
    return [soft_design(24, load=6, density=0.6, seed=seed, **parameters).encoding.toarray() for seed in range(count)]


@pytest.mark.slow
def test_moments_of_a_row_and_of_two_rows() -> None:
    rows = np.array(draws(1_500, common=1.6))
    assert rows.sum(axis=2).mean() == pytest.approx(6, rel=0.01)
    assert (rows**2).sum(axis=2).mean() == pytest.approx(6, rel=0.02)
    overlaps = np.einsum("dwt,dvt->wv", rows, rows) / len(rows)
    assert overlaps[~np.eye(24, dtype=bool)].mean() == pytest.approx(1.6, rel=0.05)


def test_expected_residual_of_equal_weights() -> None:
    s, n, k, load, common = 4, 24, 24, 6.0, 1.6
    weight = load / (load + common * (n - s - 1))
    found = [((weight * rows[s:].sum(axis=0) - 1) ** 2).sum() for rows in draws(600, common=common)]
    expected = k - load**2 * (n - s) / (load + common * (n - s - 1))  # SCHEMES 6a: exact for fixed weights
    assert np.mean(found) == pytest.approx(expected, rel=0.05)


def test_nobody_is_idle_and_the_density_is_kept() -> None:
    code = soft_design(200, load=6, density=0.04, seed=3)
    assert code.loads.min() >= 1
    assert code.replication.min() >= 1
    assert code.loads.mean() == pytest.approx(8, rel=0.1)


def test_the_least_overlap_is_the_default() -> None:
    assert soft_design(24, 6, 0.35).structure.common == pytest.approx(1.4739, abs=1e-4)  # SCHEMES 6a: 1.474


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"density": 0.35, "common": 1.304}, r"common must lie in \[1.47391, 2.1\].*use common=1.47391"),
        ({"density": 0.35, "common": 3.0}, r"common must lie in .*use common=2.1"),
        ({"density": 0.2}, r"load must lie in \(0, n_tasks \* density = 4.8\], but it is 6; use density=0.25"),
        ({"density": 1.2}, r"density must be a probability in \(0, 1\], but it is 1.2"),
        ({"density": 0}, r"density must be a probability in \(0, 1\], but it is 0"),
    ],
)
def test_infeasible_moments_are_refused(parameters: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        soft_design(24, 6, **parameters)


def test_a_suggested_density_works() -> None:
    with pytest.raises(InvalidArgument, match=r"or density=0\.9") as caught:
        soft_design(24, 6, 0.35, common=1.33)
    density = float(str(caught.value).split("density=")[1].rstrip("."))
    assert soft_design(24, 6, density, common=1.33).n_workers == 24

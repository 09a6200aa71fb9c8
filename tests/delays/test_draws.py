"""The random numbers are the same whatever the block in which they are asked for, and they are what they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from erasurehead.delays import _draws as draws
from erasurehead.delays._draws import Kind, draw

KINDS: list[Kind] = ["exponential", "uniform", "normal"]


@settings(max_examples=60)
@given(
    kind=st.sampled_from(KINDS),
    first=st.integers(0, 2500),
    count=st.integers(1, 40),
    wide=st.sampled_from([1, 5, 16, 63, 64, 65, 100, 1023, 1030, 20_000]),
    narrow=st.integers(1, 1100),
    within=st.integers(0, 39),
)
def test_rows_do_not_depend_on_the_block_nor_on_how_many_workers_are_asked_for(
    kind: Kind, first: int, count: int, wide: int, narrow: int, within: int
) -> None:
    block = draw(kind, 3, first, count, wide)
    row = draw(kind, 3, first + within % count, 1, min(narrow, wide))[0]
    assert (block[within % count, : len(row)] == row).all()


@pytest.mark.parametrize("n_workers", [7, 64, 200, 1200])
def test_whole_tiles_and_single_rows_are_the_same_numbers(n_workers: int) -> None:
    block = draw("exponential", 0, 1024, 1024, n_workers)
    for step in (0, 1, 255, 256, 1023):
        assert (draw("exponential", 0, 1024 + step, 1, n_workers)[0] == block[step]).all()


@pytest.mark.parametrize("n_workers", [7, 30, 64, 200])
@pytest.mark.parametrize("machine_code", [True, False])
def test_blocks_that_are_asked_for_again_are_the_same_numbers(
    n_workers: int, machine_code: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole tiles are drawn at once the first time, and kept from the second time on."""
    import numba  # noqa: F401  # pyright: ignore[reportMissingTypeStubs, reportUnusedImport]

    monkeypatch.setattr(draws, "_MANY", 0 if machine_code else 1 << 62)
    seed = 2 * n_workers + machine_code  # that no other test has asked for
    first, second, third = (draw("exponential", seed, 1024, 1024, n_workers, factor=0.3) for _ in range(3))
    assert (first == second).all()
    assert (first == third).all()
    for step in (0, 1, 1023):
        assert (draw("exponential", seed, 1024 + step, 1, n_workers, factor=0.3)[0] == first[step]).all()


def test_unit_stream_and_seed_each_change_every_number() -> None:
    base = draw("uniform", 0, 0, 64, 1500)
    for other in (
        draw("uniform", 1, 0, 64, 1500),
        draw("uniform", 0, 0, 64, 1500, unit=1),
        draw("uniform", 0, 0, 64, 1500, stream=1),
        draw("uniform", 0, 64, 64, 1500),
    ):
        assert not (base == other).any()
        assert abs(np.corrcoef(base.ravel(), other.ravel())[0, 1]) < 0.02


@pytest.mark.parametrize(("kind", "law"), [("exponential", "expon"), ("uniform", "uniform"), ("normal", "norm")])
@pytest.mark.parametrize("shape", [(4096, 20), (256, 900), (4, 50_000)])
def test_the_draws_follow_their_law(kind: Kind, law: str, shape: tuple[int, int]) -> None:
    values = draw(kind, 5, 0, *shape)
    assert stats.kstest(values.ravel(), law).pvalue > 1e-3
    assert len(np.unique(values)) > 0.999 * values.size
    mean, spread = values.mean(), values.std()
    for axis in (0, 1):
        if values.shape[axis] < 200:
            continue  # too few for their mean to be normal
        deviation = (values.mean(axis=axis) - mean) / (spread / np.sqrt(values.shape[axis]))
        assert np.abs(deviation).max() < 6.0


def test_neighbouring_tiles_are_not_correlated() -> None:
    values = draw("normal", 9, 0, 4096, 64)
    workers = np.corrcoef(values.T) - np.eye(64)
    assert np.abs(workers).max() < 6.0 / np.sqrt(4096)
    tiles = values.reshape(4, 1024 * 64)
    assert np.abs(np.corrcoef(tiles) - np.eye(4)).max() < 5.0 / np.sqrt(1024 * 64)


def test_the_numbers_are_these_on_every_machine() -> None:
    """Recorded once: a change means that runs of earlier versions cannot be repeated."""
    assert draw("uniform", 0, 0, 1, 2)[0].tolist() == pytest.approx(FIRST_UNIFORMS, abs=0)
    assert draw("exponential", 0, 5, 1, 1100)[0, [3, 70, 1099]].tolist() == pytest.approx(SOME_EXPONENTIALS, rel=1e-14)


FIRST_UNIFORMS = [0.5694456211961099, 0.9638845578669551]
SOME_EXPONENTIALS = [1.415397248129811, 1.3142847615577977, 0.7633495416007562]

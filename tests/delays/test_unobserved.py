"""Workers that a round has no row of: what is taken of them, and that no round is thrown away."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import delays
from erasurehead.delays import Bootstrap, Trace, _unobserved
from erasurehead.delays._unobserved import completed

WHOLE = delays.Exponential(0.5, seed=3).rows(0, 200, 12)


def with_holes(share: float, seed: int = 1) -> np.ndarray:
    rows = WHOLE.copy()
    rows[np.random.default_rng(seed).random(rows.shape) < share] = np.nan
    return rows


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(share=st.sampled_from([0.01, 0.1, 0.4]), seed=st.integers(0, 99))
def test_who_is_absent_is_slower_than_the_latest_answer_and_no_round_is_lost(share: float, seed: int) -> None:
    rows = with_holes(share, seed)
    for absent in ("censored", "late"):
        found = completed(Trace.from_table(rows), absent)
        assert found.seconds.shape == rows.shape
        known = ~np.isnan(rows)
        assert (found.seconds[known] == rows[known]).all() or found.gone
        latest = np.where(known, rows, 0.0).max(axis=1)[:, None]
        assert (found.seconds >= np.where(known, 0.0, latest)).all()
        assert (found.absent == ~known).all()
    assert np.isfinite(found.seconds).all()
    assert np.isinf(completed(Trace.from_table(rows), "dead").seconds[~known]).all()


@pytest.mark.parametrize("since", [0, 1, 3, 100, 190])
def test_a_worker_that_is_silent_to_the_end_is_gone(since: int) -> None:
    rows = WHOLE.copy()
    rows[max(since, 1) :, 4] = np.nan
    found = completed(Trace.from_table(rows))
    assert found.gone == (4,)
    assert np.isinf(found.seconds[:, 4]).all()
    assert np.isfinite(np.delete(found.seconds, 4, axis=1)).all()
    assert completed(Trace.from_table(rows), "late").gone == ()


def test_a_worker_that_is_often_absent_is_not_gone() -> None:
    rows = WHOLE.copy()
    rows[np.arange(200) % 2 == 1, 4] = np.nan
    assert completed(Trace.from_table(rows)).gone == ()


def test_what_was_cut_off_at_random_has_the_mean_that_it_had() -> None:
    """Kaplan and Meier: a third of the delays is known only to be longer than an independent time."""
    limits = np.random.default_rng(0).exponential(1.0, WHOLE.shape)
    cut = Trace.from_table(np.minimum(WHOLE, limits))
    trace = replace(cut, censored=(limits < WHOLE).ravel())
    assert 0.3 < trace.censored.mean() < 0.36
    seconds = completed(trace).seconds
    assert seconds[np.isfinite(seconds)].mean() == pytest.approx(WHOLE.mean(), rel=0.06)
    assert np.minimum(WHOLE, limits).mean() < 0.7 * WHOLE.mean()


def test_what_is_longer_than_anything_seen_never_comes() -> None:
    cut = Trace.from_table(np.minimum(WHOLE, 0.5))
    trace = replace(cut, censored=(WHOLE > 0.5).ravel())
    seconds = completed(trace).seconds
    assert (np.isinf(seconds) == (WHOLE > 0.5)).all()


def test_the_model_is_written_with_what_was_taken_and_read_again(tmp_path: object) -> None:
    path = f"{tmp_path}/t.csv"
    Trace.from_table(with_holes(0.05)).write(path)
    with pytest.warns(UserWarning, match="steps lack some workers"):
        trace = Trace.read(path)
    for absent in _unobserved.ABSENT:
        model = Bootstrap.from_trace(trace, absent=absent, seed=2)
        with pytest.warns(UserWarning, match="steps lack some workers"):
            again = delays.parse(str(model))
        assert (again.rows(0, 300, 12) == model.rows(0, 300, 12)).all()
    dead = Bootstrap.from_trace(trace, seed=2).if_dead()
    assert dead is not None
    assert (dead.rows(0, 99, 12) == Bootstrap.from_trace(trace, absent="dead", seed=2).rows(0, 99, 12)).all()
    assert Bootstrap(WHOLE).if_dead() is None

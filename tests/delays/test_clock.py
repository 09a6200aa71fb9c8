"""Delays along the clock: the same moment meets the same draw, however many steps are taken meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead import delays, schemes
from erasurehead.delays import _clock
from erasurehead.engines import VirtualEngine
from erasurehead.errors import DataError, InvalidArgument
from erasurehead.optimizers import GradientDescent
from erasurehead.testing._problems import Quadratic
from erasurehead.training import train

from ..arrays import Array

TEXTS = [
    "along(exponential(0.5, seed=1), every=2.0)",
    "along(markov(0.1, 0.2, none(), exponential(1.0, seed=3), seed=4), every=0.5)",
    "stalls(5.0, 2.0, seed=3)",
    "stalls(5.0, 2.0, seed=3) + exponential(0.1, seed=4)",
    "bimodal(0.3, stalls(5, 2, seed=1), exponential(0.1, seed=9), seed=5)",
    "per_worker([stalls(5, 2, seed=1), none()], kinds=[0, 1, 0, 1, 0, 1])",
    "scaled(stalls(5, 2, seed=1), factors=[1.0, 2.0, 1.0, 2.0, 1.0, 2.0])",
    "per_order(stalls(5, 2, seed=1))",
]


@pytest.mark.parametrize("text", TEXTS)
def test_they_have_a_text_and_say_that_they_follow_the_clock(text: str) -> None:
    model = delays.parse(text)
    assert delays.parse(str(model)) == model
    assert model.follows_clock
    values = np.stack([model.row(step, 6, posted=0.37 * step) for step in range(40)])
    assert (values >= 0).all()
    assert np.isfinite(values).all()


@given(st.floats(0, 500), st.integers(0, 10_000), st.integers(0, 10_000))
def test_the_step_does_not_matter_where_the_clock_is_followed(posted: float, step: int, other: int) -> None:
    for text in TEXTS[:3]:
        model = delays.parse(text)
        assert (model.row(step, 4, posted=posted) == model.row(other, 4, posted=posted)).all()
    drawn = delays.Exponential(0.5)
    assert (drawn.row(step, 4, posted=posted) == drawn.row(step, 4)).all()


@given(st.floats(0, 2000), st.floats(0, 1))
def test_a_stall_lasts_as_long_as_it_lasts_whatever_is_asked_meanwhile(posted: float, share: float) -> None:
    model = _clock.Stalls(5.0, 2.0, seed=7)
    first = model.row(0, 8, posted=posted)
    for worker in np.flatnonzero(first > 0.1):
        later = posted + share * float(first[worker])
        again = float(model.row(99, 8, posted=later)[worker])
        assert later + again == pytest.approx(posted + float(first[worker]), abs=0.003)


@pytest.mark.slow
def test_stalls_have_the_mean_that_they_state_and_do_not_depend_on_who_else_is_asked() -> None:
    model = _clock.Stalls(20.0, 3.0, seed=1)
    values = np.stack([model.row(0, 50, posted=t) for t in np.arange(0.0, 2000.0, 2.3)])
    assert values.mean() == pytest.approx(model.expected, rel=0.1)
    assert (model.row(0, 3, posted=77.0) == model.row(0, 50, posted=77.0)[:3]).all()
    assert (model.rows(500, 7, 4) == np.stack([model.rows(500 + k, 1, 4)[0] for k in range(7)])).all()


def test_more_steps_do_not_meet_more_stalls() -> None:
    """A method that asks ten times as often is slowed down for as much of the time, and not ten times as often."""
    model = delays.parse("stalls(5, 2, seed=3) + scaled(along(exponential(1.0), every=1e9), factors=[0, 0, 0, 0])")
    problem = Quadratic.random(8, 3, seed=1)
    shares: list[float] = []
    for seconds in (1.0, 0.2):
        engine = VirtualEngine(model, seconds_per_task=seconds)
        steps = round(100 / seconds / 2)
        run = train(problem, schemes.uncoded(4), GradientDescent(np.zeros(3), 0.01), engine, steps, evaluate_every=0)
        shares.append(sum(row.waited - seconds for row in run.steps) / run.seconds)
    assert shares[1] == pytest.approx(shares[0], rel=0.6)


class OfItsOwn(delays.Delays):
    """A model of one's own that says which draw an order meets."""

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: Any = 1.0, out: Array | None = None
    ) -> Array:
        values = np.tile(np.arange(first, first + count, dtype=float)[:, None], n_workers)
        if out is not None:
            out[:] = values
        return values if out is None else out

    follows_clock = True

    def draw_of(self, step: int, posted: float) -> int:
        return 1 + int(posted >= 3.0)

    def __str__(self) -> str:
        return "of_its_own()"


def test_a_model_of_ones_own_says_which_draw_an_order_meets() -> None:
    problem = Quadratic.random(8, 3, seed=1)
    run = train(problem, schemes.uncoded(4), GradientDescent(np.zeros(3), 0.1), VirtualEngine(OfItsOwn()), 5)
    assert [row.waited for row in run.steps] == [1.0, 1.0, 1.0, 2.0, 2.0]


def test_an_order_may_be_delayed_once_and_not_each_of_its_messages() -> None:
    model = delays.parse("per_order(exponential(0.5, seed=1))")
    assert model.row(3, 4, unit=0).tolist() == delays.Exponential(0.5, seed=1).row(3, 4).tolist()
    assert model.row(3, 4, unit=1).tolist() == [0.0] * 4
    assert model.expected == 0.5


def test_a_trace_is_played_in_its_own_order(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    rows = [(step, worker, 0.1 * step + 0.01 * worker) for step in range(5) for worker in range(3)]
    path.write_text("step,worker,seconds\n" + "".join(f"{s},{w},{x}\n" for s, w, x in rows))
    model = delays.parse(f"trace({str(path)!r}, start=3)")
    assert model.rows(0, 4, 3)[:, 0] == pytest.approx([0.3, 0.4, 0.0, 0.1])
    assert delays.parse(str(model)).rows(0, 4, 3).tolist() == model.rows(0, 4, 3).tolist()
    along = delays.parse(f"along(trace({str(path)!r}), every=0.5)")
    assert along.row(77, 3, posted=1.6)[0] == pytest.approx(0.3)
    with pytest.raises(InvalidArgument, match="3 workers"):
        model.row(0, 4)
    censored = delays.Trace.from_table(np.ones((2, 2)))
    object.__setattr__(censored, "censored", np.array([True, False, False, False]))
    with pytest.raises(DataError, match="censored"):
        _clock.InOrder.from_trace(censored)


@pytest.mark.parametrize(
    "text",
    [
        "along(none(), every=0)",
        "along(stalls(1, 1), every=1)",
        "stalls(0, 1)",
        "stalls(1, inf)",
        "stalls(1, 1, seed=-1)",
    ],
)
def test_what_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        delays.parse(text)

"""What distinguishes the delay models that are made of others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from erasurehead import delays
from erasurehead.delays import _base, _clock, _distributions, _fixed, _sometimes_slow
from erasurehead.delays._base import Scaled
from erasurehead.errors import InvalidArgument


def test_bimodal_is_slow_as_often_as_it_says_and_never_twice_in_a_row_by_habit() -> None:
    model = _sometimes_slow.Bimodal(0.2, _fixed.NoDelay(), delays.Fixed(((1.0,) * 40,)), seed=0)
    slow = model.rows(0, 2048, 40)
    assert slow.mean() == pytest.approx(0.2, abs=4 * np.sqrt(0.16 / slow.size))
    again = slow[1:][slow[:-1] == 1.0].mean()
    assert again == pytest.approx(0.2, abs=0.02)


class TestMarkov:
    MODEL = _sometimes_slow.MarkovModulated(0.02, 0.1, _fixed.NoDelay(), delays.Fixed(((1.0,) * 200,)), seed=3)

    def test_slow_spells_last_and_come_as_often_as_the_chain_says(self) -> None:
        slow = self.MODEL.is_slow(0, 4096, 100).astype(float)
        assert slow.mean() == pytest.approx(0.02 / 0.12, rel=0.05)
        assert slow[0].mean() == pytest.approx(0.02 / 0.12, abs=0.12)
        assert 1.0 - slow[1:][slow[:-1] == 1.0].mean() == pytest.approx(0.1, rel=0.05)
        assert slow[1:][slow[:-1] == 0.0].mean() == pytest.approx(0.02, rel=0.05)

    @pytest.mark.parametrize("first", [0, 1, 63, 64, 65, 700])
    def test_a_block_begins_in_the_state_where_the_one_before_ended(self, first: int) -> None:
        whole = self.MODEL.is_slow(0, 720, 30)
        assert (self.MODEL.is_slow(first, 20, 30) == whole[first : first + 20]).all()

    def test_all_messages_of_a_step_are_in_the_same_state(self) -> None:
        assert (self.MODEL.row(9, 50, unit=0) == self.MODEL.row(9, 50, unit=1)).all()


def test_a_sum_adds_its_terms_and_refuses_terms_that_would_be_slow_together() -> None:
    compute, network = delays.Exponential(0.5, seed=1), _distributions.LogNormal(0.1, 1.0, seed=2)
    total = compute + network + _fixed.Late((2,))
    assert isinstance(total, _base.Sum)
    assert len(total.terms) == 3
    expected = compute.row(4, 5) + network.row(4, 5)
    expected[2] = np.inf
    assert (total.row(4, 5) == expected).all()
    with pytest.raises(InvalidArgument, match="seed 1 in several"):
        _ = compute + _sometimes_slow.Bimodal(0.1, _fixed.NoDelay(), delays.Exponential(1.0, seed=1), seed=7)


def test_workers_of_unequal_kind() -> None:
    fast, slow = delays.Exponential(0.1, seed=1), delays.Exponential(1.0, seed=1)
    model = _base.PerWorker((fast, slow), (0, 1, 0))
    assert model.row(3, 3).tolist() == [fast.row(3, 3)[0], slow.row(3, 3)[1], fast.row(3, 3)[2]]
    factors = Scaled(fast, (1.0, 10.0, 1.0))
    assert factors.row(3, 3) == pytest.approx(model.row(3, 3))
    for narrow in (model, factors):
        with pytest.raises(InvalidArgument, match="each of 4 workers"):
            narrow.row(0, 4)


def test_a_worker_that_never_answers_does_not_do_so_at_factor_zero_either() -> None:
    model = Scaled(_fixed.Late((0,)), (0.0, 1.0, 0.0))
    assert model.row(0, 3).tolist() == [np.inf, 0.0, 0.0]
    assert model.row(0, 3, posted=1.5).tolist() == [np.inf, 0.0, 0.0]


def test_what_is_no_model_is_no_part_of_one() -> None:
    model: Any = delays.Exponential(0.5)
    for make in (
        lambda: model + 3,
        lambda: _base.Sum((model, "late([1])")),  # pyright: ignore[reportArgumentType]
        lambda: Scaled(2.0, (1.0,)),  # pyright: ignore[reportArgumentType]
        lambda: _base.PerWorker((model, None)),  # pyright: ignore[reportArgumentType]
        lambda: _sometimes_slow.Bimodal(0.1, model, 2),  # pyright: ignore[reportArgumentType]
        lambda: _sometimes_slow.MarkovModulated(0.1, 0.2, 1, model),  # pyright: ignore[reportArgumentType]
        lambda: _clock.AlongClock(1.0, 1.0),  # pyright: ignore[reportArgumentType]
        lambda: _clock.PerOrder("none"),  # pyright: ignore[reportArgumentType]
    ):
        with pytest.raises(InvalidArgument, match="must be a delay model"):
            make()


def test_late_workers_are_late_from_their_step_on() -> None:
    model = _fixed.Late((1, 9), by=2.0, since=3)
    assert model.rows(2, 3, 2).tolist() == [[0.0, 0.0], [0.0, 2.0], [0.0, 2.0]]


def test_an_infinite_mean_is_allowed_and_said() -> None:
    with pytest.warns(UserWarning, match="infinite mean"):
        model = _distributions.Pareto(1.0, 0.8)
    assert np.isfinite(model.row(0, 100)).all()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bimodal(1.5, none(), none())", "share must be from 0 to 1"),
        ("markov(0.6, 0.6, none(), none())", "alternate instead of lasting"),
        ("markov(0, 0.6, none(), none())", "enter must be greater than 0"),
        ("scaled(none(), [1, -1])", r"factors\[1\] must be at least 0"),
        ("per_worker([none()], [0, 1])", r"kinds\[1\] must name one of 1 models"),
        ("late([])", "workers must name at least one worker"),
        ("late([-1])", r"workers\[0\] must be at least 0"),
        ("late([1], by=-2)", "by must be at least 0"),
        ("weibull(1, 0)", "shape must be finite and greater than 0"),
        ("pareto(0, 2)", "minimum must be finite and greater than 0"),
        ("lognormal(1, -1)", "sigma must be finite and greater than 0"),
    ],
)
def test_errors_name_the_argument_and_the_rule(text: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        delays.parse(text)


def test_no_models_and_no_factors_are_refused_where_they_are_given() -> None:
    with pytest.raises(InvalidArgument, match="models must be at least one"):
        _base.PerWorker(())
    with pytest.raises(InvalidArgument, match="factors must be at least one"):
        Scaled(_fixed.NoDelay(), ())

"""Delay models of one's own that give what is no delay: whoever asks them names worker, step, and what came."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from erasurehead import delays, engines, optimizers, schemes
from erasurehead.delays import _fixed
from erasurehead.delays._base import Scaled
from erasurehead.errors import InvalidArgument, Unreachable
from erasurehead.planning import forecast
from erasurehead.testing._problems import Quadratic
from erasurehead.training import train


@dataclass(frozen=True)
class Own(delays.Delays):
    """Gives a table of ones, changed."""

    change: Callable[[np.ndarray], Any]

    def rows(self, first: int, count: int, n_workers: int, unit: int = 0, work: Any = 1.0, out: Any = None) -> Any:
        return self.change(np.ones((count, n_workers)))

    def __str__(self) -> str:
        return "own()"


def with_one(value: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(rows: np.ndarray) -> np.ndarray:
        rows[:, 2:3] = value
        return rows

    return change


NO_DELAY = r"the delay of worker 2 in step 0, by own\(\), must be a number of seconds of at least 0, or inf, but it is "
NO_ROWS = r"what the delay model own\(\) returns must be numbers, in rows of equal length"
SHAPE = r"what the delay model own\(\) returns must have shape \([12], [1-4]\), got "

WRONG: dict[str, tuple[Callable[[np.ndarray], Any], str]] = {
    "nan": (with_one(np.nan), NO_DELAY + "nan"),
    "negative": (with_one(-0.5), NO_DELAY + r"-0\.5"),
    "minus inf": (with_one(-np.inf), NO_DELAY + "-inf"),
    "too few": (lambda rows: rows[:, :-1], SHAPE + r"\([12], [0-3]\)"),
    "one number": (lambda rows: 1.0, SHAPE + r"\(\)"),
    "no steps": (lambda rows: rows[0], SHAPE + r"\([1-4],\)"),
    "texts": (lambda rows: [["a"] * rows.shape[1]], NO_ROWS),
    "ragged": (lambda rows: [[1.0], [1.0, 2.0]], NO_ROWS),
    "nothing": (lambda rows: None, "what the delay model own"),
    "complex": (lambda rows: rows * 1j, NO_ROWS),
}

ASKING: dict[str, Callable[[delays.Delays], object]] = {
    "row": lambda model: model.row(0, 4),
    "seconds": lambda model: model.seconds(3, 0),
    "virtual": lambda model: trained(model),
    "a sum": lambda model: trained(model + _fixed.NoDelay()),
    "planning": lambda model: planned(model),
    "factors": lambda model: trained(Scaled(model, (1.0, 1.0, 2.0, 1.0))),
    "carried over": lambda model: trained(model, "carry"),
}


def trained(model: delays.Delays, late: Any = "preempt") -> object:
    problem = Quadratic.random(8, 3, seed=1, l2=0.1)
    engine = engines.VirtualEngine(model, late)
    return train(problem, schemes.uncoded(4), optimizers.GradientDescent(problem.initial(), 0.1), engine, 3)


def planned(model: delays.Delays) -> object:
    return forecast("uncoded()", 4, model, steps=1)


class Wordless(Own):
    """Cannot be written down, or would be long."""

    def __str__(self) -> str:
        raise AssertionError("it was put in words")


def test_a_model_is_put_in_words_for_errors_only() -> None:
    """A table of a thousand rows made each message of a run take a fifteenth of a second."""
    assert Wordless(lambda rows: rows).row(0, 4).tolist() == [1.0] * 4


@pytest.mark.parametrize("asking", ASKING)
@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_delay_is_named(wrong: str, asking: str) -> None:
    change, said = WRONG[wrong]
    # Of what befalls a worker while it computes, an engine tells as of any failure.
    with pytest.raises((InvalidArgument, Unreachable), match=said):
        ASKING[asking](Own(change))


def test_a_table_that_is_returned_as_it_is_stays_as_it_is() -> None:
    table = np.ones((1, 4))
    model = Own(lambda rows: table) + delays.Exponential(0.5)
    assert model.row(0, 4).tolist() == model.row(0, 4).tolist()
    assert table.tolist() == [[1.0] * 4]

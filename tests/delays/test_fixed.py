"""Given delays: tables, none, and the replay of a recorded run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from erasurehead import delays
from erasurehead.delays import _fixed
from erasurehead.errors import DataError, InvalidArgument


def test_a_table_is_read_step_by_step_and_begins_again() -> None:
    model = delays.Fixed(((0.1, 0.2), (0.3, float("inf"))))
    assert model.rows(1, 3, 2).tolist() == [[0.3, np.inf], [0.1, 0.2], [0.3, np.inf]]
    assert delays.parse(str(model)) == model


def test_no_delay_is_zero() -> None:
    assert not _fixed.NoDelay().rows(0, 3, 4).any()


def arrival(step: int, worker: int, seconds: float, unit: int = 0, **more: object) -> dict[str, object]:
    return {"step": step, "worker": worker, "unit": unit, "seconds": seconds, "censored": False, "late": False, **more}


class TestRecorded:
    ROWS = (
        arrival(4, 0, 0.5),
        arrival(4, 1, 0.9, censored=True),
        arrival(5, 0, 0.25),
        arrival(5, 0, 0.75, unit=1),
        arrival(5, 1, 1.0),
    )

    def test_each_message_comes_when_it_came_and_a_censored_one_never(self) -> None:
        model = _fixed.Recorded.from_rows(self.ROWS)
        assert model.rows(4, 2, 2).tolist() == [[0.5, np.inf], [0.25, 1.0]]
        assert model.row(5, 2, unit=1).tolist() == [0.5, np.inf]

    def test_a_late_message_comes_late_not_never(self) -> None:
        late = arrival(4, 1, 1.4, censored=True, late=True)
        assert _fixed.Recorded.from_rows([*self.ROWS, late]).row(4, 2).tolist() == [0.5, 1.4]

    def test_it_is_read_from_a_run_and_named_by_its_file(self, tmp_path: Path) -> None:
        path = tmp_path / "arrivals.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in self.ROWS))
        model = delays.parse(str(_fixed.Recorded.from_file(str(path))))
        assert model.row(5, 2).tolist() == [0.25, 1.0]

    def test_beyond_the_record_is_an_error_not_a_guess(self) -> None:
        model = _fixed.Recorded.from_rows(self.ROWS)
        for ask in ({"step": 6, "n_workers": 2}, {"step": 4, "n_workers": 3}, {"step": 3, "n_workers": 1}):
            with pytest.raises(InvalidArgument, match=r"steps 4 to 5, 2 messages, 2 workers"):
                model.row(**ask)

    def test_no_rows_and_broken_lines_are_said(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="no arrivals"):
            _fixed.Recorded.from_rows([])
        broken = tmp_path / "arrivals.jsonl"
        broken.write_text('{"step": 0, "unit": 0, "worker": 0, "seconds": 1.0}\n{"ste\n')
        with pytest.raises(DataError, match="line 2"):
            _fixed.Recorded.from_file(str(broken))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fixed([[0.1, -1]])", r"table\[0\]\[1\] must be at least 0"),
        ("fixed([])", "at least one row"),
        ("fixed([[1, 2], [3]])", "rows of equal length"),
        ("exponential(mean=0)", "mean must be finite and greater than 0"),
        ("exponential(mean=1, seed=-1)", "seed must be at least 0"),
        ("exponential(mean=1, seed=0.5)", "seed must be a whole number"),
        ("shifted_exponential(shift=-1, mean=1)", "shift must be finite and at least 0"),
        ("exponential()", "missing a required argument: 'mean'"),
        ("gaussian(1)", "must use known names; known are none"),
    ],
)
def test_errors_name_the_argument_and_the_rule(text: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said.replace("; known", ".*known")):
        delays.parse(text)


def test_a_table_with_too_few_workers_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="each of 3 workers"):
        delays.Fixed(((0.1, 0.2),)).row(0, 3)

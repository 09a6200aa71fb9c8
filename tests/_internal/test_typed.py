"""What is written of declared data is the same when it is read back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from hypothesis import given, strategies as st

from erasurehead import schemes
from erasurehead._internal.typed import differences, from_differences, row_maker
from erasurehead.faults import FaultPolicy
from erasurehead.training import StepRow

from ..training.test_notices import dying, heard


def test_rows_are_the_same_when_they_are_read_back_from_json() -> None:
    run, _ = heard(dying(), schemes.exact(6, 2), FaultPolicy(on_death="spread", verify=True))
    make = row_maker(StepRow, Path("steps.jsonl"))
    back = [make(0, json.loads(json.dumps(row.as_dict()))) for row in run.steps]
    assert back == run.steps


@given(st.lists(st.integers(-(2**50), 2**50), unique=True, max_size=30))
def test_whole_numbers_survive_their_steps(values: list[int]) -> None:
    ascending = np.array(sorted(values), dtype=np.int64)
    np.testing.assert_array_equal(from_differences(json.loads(json.dumps(differences(ascending)))), ascending)

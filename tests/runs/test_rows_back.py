"""Rows of a run are the same when they are read back."""

from __future__ import annotations

import json
from pathlib import Path

from erasurehead import schemes
from erasurehead.faults import FaultPolicy
from erasurehead.runs._typed import row_maker
from erasurehead.training import StepRow

from ..training.test_notices import dying, heard


def test_rows_are_the_same_when_they_are_read_back_from_json() -> None:
    run, _ = heard(dying(), schemes.exact(6, 2), FaultPolicy(on_death="spread", verify=True))
    make = row_maker(StepRow, Path("steps.jsonl"))
    back = [make(0, json.loads(json.dumps(row.as_dict()))) for row in run.steps]
    assert back == run.steps

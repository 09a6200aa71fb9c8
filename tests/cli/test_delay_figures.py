"""The pages on delays and planning: figures that commands print are those of the pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from erasurehead import delays
from erasurehead.cli._delay_pages import chance
from erasurehead.cli._plan_pages import PROCESSES
from erasurehead.delays import Trace

from ..docs.pages import DOCS

DELAYS, PLANNING = (DOCS / name for name in ("delays.md", "planning.md"))


@pytest.mark.slow
def test_what_is_claimed_of_the_aws_trace_holds(data_folder: Path) -> None:
    path = data_folder / "traces" / "aws_lambda" / "sam-gc-cnn_profile_est_desktop_long.csv.gz"
    where = {"region": "Canada", "load": 0.5}
    trace = Trace.read(path, {"step": "round", "seconds": "latency_s"}, where)
    assert (trace.n_workers, trace.n_steps) == (256, 30)
    best = delays.fit_trace(trace)[0]
    assert f"has a gap of {best.gap:.2f} where chance leaves {chance(best):.3f}" in " ".join(DELAYS.read_text().split())


def test_the_number_of_processes_is_the_one_that_the_page_names() -> None:
    assert f"more than {PROCESSES} workers" in " ".join(PLANNING.read_text().split())

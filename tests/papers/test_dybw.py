"""The setting of cb-DyBW: what is asked for is made, with every policy in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from erasurehead.errors import InvalidArgument
from erasurehead.papers import reproduce
from erasurehead.papers._dybw import DYBW, POLICIES


def test_figures_are_chosen_by_their_beginning() -> None:
    assert DYBW.select([]) == DYBW.figures
    assert DYBW.select(["mnist-lrm"]) == ("mnist-lrm-6", "mnist-lrm-10")
    with pytest.raises(InvalidArgument, match="must be one of mnist-lrm-6"):
        DYBW.select(["svhn"])
    with pytest.raises(InvalidArgument, match="must be virtual"):
        reproduce("dybw", engine="processes")


@pytest.mark.slow
@pytest.mark.parametrize("model", ["lrm", "2nn"])
def test_a_setting_is_run_and_drawn(model: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    made = reproduce("dybw", [f"mnist-{model}-6"], tmp_path / "out", steps=3, synthetic="always", rows=200)
    assert [exhibit.id for exhibit, _ in made.exhibits] == [f"mnist-{model}-6-iterations", f"mnist-{model}-6-time"]
    summary = made.exhibits[0][0].summary.rows()
    assert [row["policy"] for row in summary] == list(POLICIES)
    times = {str(row["policy"]): row["seconds per iteration"] for row in summary}
    assert times["cb-DyBW, measured tree"] < times["cb-Full"]
    facts = json.loads((tmp_path / "out" / "reproduction.json").read_text())
    assert len(facts["exhibits"]) == 2
    assert "none of the paper's was verified" in (tmp_path / "out" / "reproduction.md").read_text()

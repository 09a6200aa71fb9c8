"""The pages on delays and planning: texts of models are read, files are written, and claims on real data hold."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from erasurehead import delays
from erasurehead.errors import InvalidArgument

from ..typed import typed
from .pages import DOCS

DELAYS, PLANNING = (DOCS / name for name in ("delays.md", "planning.md"))


def models() -> list[str]:
    table = DELAYS.read_text(encoding="utf-8").split("| text | what |")[1].split("\n\n")[0]
    return [text for line in table.splitlines()[2:] for text in re.findall(r"`([^`]+)`", line.split(" | ")[0])]


@pytest.mark.parametrize("text", [text for text in models() if "'" not in text and text != "a + b"])
def test_every_model_of_the_page_is_read(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = delays.parse(text)
    row = model.row(step=50, n_workers=2 if text.startswith("per_worker") else 10)
    assert (row >= 0.0).all()
    assert delays.parse(str(model)) == model


def test_the_page_has_every_name_that_a_text_may_use() -> None:
    with pytest.raises(InvalidArgument) as refused:
        delays.parse("magic()")
    known = set(re.findall(r"\w+", str(refused.value).split("known are")[1].split(", joined")[0]))
    shown = {text.partition("(")[0] for text in models()}
    assert known - shown == {"fixed", "scaled"}


@pytest.mark.slow
def test_the_files_of_a_plan_are_those_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = delays.Exponential(0.5, seed=0).rows(0, 40, 8)
    delays.Trace.from_table(np.round(rows, 3)).write("latencies.csv")
    done = typed("plan", "--trace", "latencies.csv", "--json")
    assert done.code == 0
    table = PLANNING.read_text(encoding="utf-8").split("| file | content |")[1].split("\n\n")[0]
    named = {text for line in table.splitlines()[2:] for text in re.findall(r"`([\w.]+)`", line.split(" | ")[0])}
    assert {Path(name).name for name in done.json["files"]} == named
    assert {path.name for path in Path("runs/plan-1").iterdir()} == named

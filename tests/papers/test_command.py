"""`erasurehead reproduce`: exit codes, and what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ..typed import typed

SMALL = ("--synthetic", "always", "--rows", "600", "--steps", "3")


def call(*arguments: str) -> tuple[int, str, str]:
    done = typed("reproduce", *arguments)
    return done.code, done.out, done.err


@pytest.mark.slow
def test_figures_are_made_and_json_is_all_that_is_printed(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    code, printed, _ = call("erasurehead", "--figure", "2f", "-f", "table1", *SMALL, "--out", str(out), "--json")
    assert code == 0
    facts = json.loads(printed)
    assert [item["figure"] for item in facts["exhibits"]] == ["table1", "2f"]
    assert (facts["engine"], facts["late"], facts["steps"]) == ("virtual", "preempt", 3)
    assert all(Path(path).is_file() for item in facts["exhibits"] for path in item["files"])


def test_people_get_the_tables_and_where_the_rest_is(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    code, printed, said = call("erasurehead", "-f", "table1", *SMALL, "--out", str(tmp_path / "out"))
    assert code == 0
    assert "| Amazon | synthetic stand-in | dimension |" in printed
    assert str(tmp_path / "out") in printed.replace("\n", "")
    assert "making table1" in said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("erasurehead", "--figure", "7"), "figure must be one of table1, 2a"),
        (("tandon",), "PAPER must be one of erasurehead"),
        (("erasurehead", "--engine", "cloud"), "engine must be one of virtual, processes"),
        (("erasurehead", "--synthetic", "sometimes"), "synthetic must be one of never"),
        (("erasurehead", "--steps", "0"), "steps must be at least 1"),
        (("erasurehead", "--figure", "2a", "--rows", "600"), "--rows is for synthetic data only"),
    ],
)
def test_bad_input_is_a_sentence_and_exit_code_2(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, printed, said = call(*arguments)
    assert (code, printed) == (2, "")
    assert sentence in said
    assert "Traceback" not in said

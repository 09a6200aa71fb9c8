"""Lines of JSON: what is written is read again, and what was cut off does no harm."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from erasurehead.errors import DataError
from erasurehead.runs._jsonl import read_lines, to_line, to_text

plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
rows = st.dictionaries(st.text(max_size=5), plain | st.lists(plain, max_size=3), max_size=4)


def without_nonfinite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nonfinite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_nonfinite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@given(row=rows)
def test_a_line_is_strict_json_and_nothing_is_lost(row: dict[str, Any]) -> None:
    line = to_line(row)
    assert line.count("\n") == 1
    for text in (line, to_text(row)):
        assert json.loads(text, parse_constant=pytest.fail) == without_nonfinite(row)


def test_however_a_file_is_cut_off_whole_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    written = [{"number": number, "text": "é€"} for number in range(3)]
    whole = "".join(map(to_line, written)).encode()
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        assert read_lines(path) == written[: whole[:length].count(b"\n")]


def test_a_file_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert read_lines(tmp_path / "rows.jsonl") == []


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("{}\n[1]\n", "line 2: must be an object"),
        ("{}\nx\n", "line 2: not JSON"),
        ("[" * 100_000 + "\n", "line 1: not JSON"),
        ("1" * 5_000 + "\n", "line 1: not JSON"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, lines: str, said: str) -> None:
    (tmp_path / "rows.jsonl").write_text(lines)
    with pytest.raises(DataError, match=said):
        read_lines(tmp_path / "rows.jsonl")

"""Run files are read as they were written, and what is no run file is refused with a sentence."""

from __future__ import annotations

import os
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from erasurehead._internal import user_files
from erasurehead.errors import InvalidArgument
from erasurehead.runs import Experiment
from erasurehead.runs._config import read_tables, to_toml

keys = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=8)
texts = st.text(st.characters(codec="utf-8"), max_size=20)
plain = st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | texts
values = plain | st.lists(texts, max_size=3) | st.lists(st.lists(texts, max_size=2), max_size=2)


@given(st.dictionaries(keys, values | st.dictionaries(keys, values, max_size=4), max_size=5))
def test_what_is_written_is_read_again(tables: dict[str, object]) -> None:
    assert tomllib.loads(to_toml(tables)) == tables


def test_what_is_none_is_left_out() -> None:
    assert tomllib.loads(to_toml({"a": None, "b": {"c": None, "d": 1}})) == {"b": {"d": 1}}


def test_a_value_that_toml_does_not_know_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="must be a text, a number, true, false or a list"):
        to_toml({"a": object()})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[run\nsteps = 3\n", "not TOML: .*line 1"),
        (b"[run]\nsteps = 3\nsteps = 4\n", "not TOML: .*line 3"),
        (b"scheme = '\xff'\n", "not UTF-8 text"),
    ],
)
def test_a_file_that_is_no_toml_is_named_with_the_place(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    with pytest.raises(InvalidArgument, match=said) as caught:
        read_tables(path)
    assert str(path) in str(caught.value)


def test_a_pipe_as_a_run_file_is_waited_for_and_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ERASUREHEAD_PIPE_SECONDS", "0.05")
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    before = len(user_files._kept)
    with pytest.raises(InvalidArgument, match=r"Nobody writes to the pipe '.*': it was waited for 0.05 seconds"):
        Experiment.from_file(pipe)
    assert len(user_files._kept) == before + 1
    with ThreadPoolExecutor(1) as pool:
        pool.submit(pipe.write_text, "[run]\nsteps = 0\n")
        with pytest.raises(InvalidArgument, match=r"run\.steps must be at least 1"):
            Experiment.from_file(pipe)
    assert len(user_files._kept) == before + 2


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"nowhere.toml' cannot be read: No such file"):
        read_tables(tmp_path / "nowhere.toml")

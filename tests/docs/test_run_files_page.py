"""The page on run files: its table is what the command prints, and its schema takes what the program takes."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasurehead.cli.options import KEYS, RunOptions
from erasurehead.errors import InvalidArgument
from erasurehead.faults.policy import FaultPolicy
from erasurehead.runs.config import Config, build_config, json_schema, keys, to_toml
from erasurehead.runs.config.keys import markdown_table

from .pages import DOCS, ROOT, blocks, name, pages

PAGE = DOCS / "run_files.md"
RUN_FILES = [(name(page), block.text) for page in pages() for block in blocks(page, "toml")]
RUN_FILES += [(str(path), path.read_text(encoding="utf-8")) for path in sorted((ROOT / "benchmarks").rglob("*.toml"))]


def faults_of(tables: Any) -> list[str]:
    """Return what the schema finds wrong in a run file."""
    jsonschema = pytest.importorskip("jsonschema")
    return [error.message for error in jsonschema.Draft202012Validator(json_schema()).iter_errors(tables)]


def test_the_table_on_the_page_is_what_the_command_prints() -> None:
    text = PAGE.read_text(encoding="utf-8")
    table = text.partition("<!-- keys: begin -->\n")[2].partition("\n<!-- keys: end -->")[0]
    assert table == markdown_table(keys()), "write it anew with: erasurehead config keys --markdown"


def test_the_schema_is_one() -> None:
    pytest.importorskip("jsonschema").Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize(("page", "text"), RUN_FILES)
def test_the_schema_takes_every_run_file_of_the_documentation(page: str, text: str) -> None:
    assert faults_of(tomllib.loads(text)) == []


def test_the_schema_takes_what_a_run_writes_down() -> None:
    whole = Config().model_dump()
    assert faults_of(tomllib.loads(to_toml(whole))) == []


WRONG = [
    {"run": {"step": 3}}, {"schemes": "exact"}, {"run": 3}, {"run": {"steps": "ten"}}, {"run": {"steps": 0}},
    {"run": {"engine": "spark"}}, {"delays": {"late": "wait"}}, {"optimizer": {"rate": [1]}},
    {"optimizer": {"momentum": 1.0}}, {"data": {"one_hot": 3}}, {"faults": {"death": "mourn"}},
    {"faults": {"suspect_after": 0}}, {"faults": {"replacements": -1}}, {"checkpoints": {"keep": 0}},
]  # fmt: skip


@pytest.mark.parametrize("tables", WRONG)
def test_the_schema_refuses_what_the_program_refuses(tables: dict[str, Any]) -> None:
    assert faults_of(tables)
    with pytest.raises(InvalidArgument):
        build_config(tables)


NUMBERS = [key for key in keys() if key.limits]


@pytest.mark.slow
@given(st.sampled_from(NUMBERS), st.one_of(st.integers(-5, 5), st.floats(-5, 5)))
def test_the_schema_and_the_program_draw_the_same_bounds(key: Any, value: float) -> None:
    tables = {key.section: {key.name: value}}
    try:
        build_config(tables)
        taken = True
    except InvalidArgument:
        taken = False
    if isinstance(value, float) and value.is_integer() and key.type is int:
        return  # JSON knows no difference between 2 and 2.0; TOML does
    assert (faults_of(tables) == []) == taken


def test_every_key_is_described_and_every_choice_explained() -> None:
    for key in keys():
        assert key.text.endswith("."), key.path
        assert (key.metavar != "") == (key.options != () and key.type is not bool), key.path
        for choice in key.values:
            assert choice in key.text, f"{key.path}: what is {choice!r}?"


def test_every_option_sets_its_key() -> None:
    examples: dict[Any, Any] = {bool: True, int: 7, float: 0.5, str: "geometric(0.1, 0.99)"}
    for field, path in KEYS.items():
        key = next(key for key in keys() if key.path == path)
        value = key.values[-1] if key.values else examples[key.type]
        config = RunOptions(**{field: value}).config(None)
        found = getattr(getattr(config, key.section), key.name)
        assert found in (value, (value,), ("geometric(0.1", "0.99)")), path


def test_the_policy_of_a_run_file_is_that_of_python() -> None:
    assert build_config({}).faults.policy() == FaultPolicy()
    other = {"death": "spread", "replacements": 1, "lost": "go_on", "grow": True, "suspected": "ignore",
             "suspect_after": 2.5, "verify": True}  # fmt: skip
    assert build_config({"faults": other}).faults.policy() == FaultPolicy(**other)  # type: ignore[arg-type]


def test_an_editor_finds_an_explanation_of_every_key() -> None:
    schema = json.loads(json.dumps(json_schema()))
    for section in schema["$defs"].values():
        assert section["description"]
        assert all(entry["description"] for entry in section["properties"].values())

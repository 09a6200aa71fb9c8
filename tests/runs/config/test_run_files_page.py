"""The page on run files: its table is what the command prints, and its schema takes what the program takes."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from functools import cache
from typing import Any

import pytest
from hypothesis import given, strategies as st

from erasurehead.cli._options import KEYS, RunOptions
from erasurehead.consensus._config import ConsensusConfig
from erasurehead.errors import InvalidArgument
from erasurehead.faults import FaultPolicy
from erasurehead.runs._config import Config, build, json_schema, keys, to_toml
from erasurehead.runs._config.checking import build_config
from erasurehead.runs._config.keys import markdown_table

from ...docs.pages import DOCS, ROOT, blocks, name, pages
from ...typed import typed

PAGE = DOCS / "run_files.md"
RUN_FILES = [
    *((name(page), block.text) for page in pages() for block in blocks(page, "toml")),
    *((str(path), path.read_text(encoding="utf-8")) for path in sorted((ROOT / "benchmarks").rglob("*.toml"))),
]


@cache
def in_tests() -> list[tuple[str, str]]:
    """Return the texts in the tests that are run files, good and bad ones, with their places.

    They are looked for by the tests that need them: as parameters, they would be by each process that collects them.
    """
    found: list[tuple[str, str]] = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        program = path.read_text(encoding="utf-8")
        if not LIKE_A_RUN_FILE.search(program):
            continue
        for node in ast.walk(ast.parse(program)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and sections_of(node.value) & SECTIONS:
                found.append((f"{name(path)}:{node.lineno}", node.value))
    return found


def sections_of(text: str) -> set[str]:
    """Return the sections, and the keys above them, of what may be a run file; none if it is not TOML."""
    try:
        return set(tomllib.loads(text))
    except tomllib.TOMLDecodeError:
        return set()


SECTIONS = {*Config.model_fields, *ConsensusConfig.model_fields}
_NAMED = f"(?:{'|'.join(sorted(SECTIONS))})"
LIKE_A_RUN_FILE = re.compile(
    rf"""\[\[?{_NAMED}[.\]]|(?:^[ \t]*|["']){_NAMED}(?:\.\w+)* ?= ?(?:["'\[{{\d]|true|false)""", re.MULTILINE
)
"""What a program has that holds a run file: a header of a section, or a value that is given to one or to its keys."""
KINDS = [(Config, "keys"), (ConsensusConfig, "keys of peers")]


@cache
def validator() -> Any:
    """Return what checks run files of both kinds by their schema."""
    jsonschema = pytest.importorskip("jsonschema")
    return jsonschema.Draft202012Validator(json_schema({"consensus": ConsensusConfig}))


def faults_of(tables: Any) -> list[str]:
    """Return what the schema finds wrong in a run file."""
    return [error.message for error in validator().iter_errors(tables)]


def is_taken(tables: dict[str, Any]) -> bool:
    """Return whether the program takes a run file, as one of the kind that its sections tell."""
    try:
        build(ConsensusConfig if "consensus" in tables else Config, tables)
    except InvalidArgument:
        return False
    return True


@pytest.mark.parametrize(("kind", "mark"), KINDS)
def test_the_tables_on_the_page_are_what_the_command_prints(kind: Any, mark: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    table = text.partition(f"<!-- {mark}: begin -->\n")[2].partition(f"\n<!-- {mark}: end -->")[0]
    again = (
        "write it anew with: erasurehead config keys --markdown, and with --peers; what both have stands in the first"
    )
    told = markdown_table(keys(kind)).splitlines()
    known = [] if kind is Config else markdown_table(keys(Config)).splitlines()[2:]
    assert table.splitlines() == [line for line in told if line not in known], again


def test_the_command_prints_the_schema_of_both_kinds() -> None:
    printed = typed("config", "schema")
    assert printed.code == 0
    assert printed.json == json.loads(json.dumps(json_schema({"consensus": ConsensusConfig})))


@pytest.mark.parametrize("kinds", [{}, {"consensus": ConsensusConfig}])
def test_the_schema_is_one(kinds: Any) -> None:
    pytest.importorskip("jsonschema").Draft202012Validator.check_schema(json_schema(kinds))


@pytest.mark.parametrize(("page", "text"), RUN_FILES)
def test_the_schema_takes_every_run_file_of_the_documentation(page: str, text: str) -> None:
    assert faults_of(tomllib.loads(text)) == []


@pytest.mark.xdist_group("run files of the tests")  # looked for once
def test_the_schema_and_the_program_take_the_same_run_files_of_the_tests() -> None:
    read = ((place, tomllib.loads(text)) for place, text in in_tests())
    assert [place for place, tables in read if (faults_of(tables) == []) != is_taken(tables)] == []


@pytest.mark.xdist_group("run files of the tests")
def test_there_are_run_files_of_both_kinds_good_and_bad() -> None:
    read = [tomllib.loads(text) for _, text in [*RUN_FILES, *in_tests()]]
    assert {("consensus" in tables, is_taken(tables)) for tables in read} >= {
        (True, True),
        (False, True),
        (False, False),
    }


@pytest.mark.parametrize("kind", [Config, ConsensusConfig])
def test_the_schema_takes_what_a_run_writes_down(kind: type[Config | ConsensusConfig]) -> None:
    whole = kind().model_dump()
    assert faults_of(tomllib.loads(to_toml(whole))) == []


@pytest.mark.parametrize("kind", [Config, ConsensusConfig])
def test_a_key_that_there_is_not_is_refused_in_every_section(kind: type[Config | ConsensusConfig]) -> None:
    told: dict[str, Any] = {"consensus": {}} if kind is ConsensusConfig else {}
    for section in ["", *dict.fromkeys(key.section for key in keys(kind) if key.section)]:
        tables = told | ({section: {"no_such": 3}} if section else {"no_such": 3})
        assert faults_of(tables), section
        with pytest.raises(InvalidArgument, match="no_such"):
            build(kind, tables)


WRONG_OF_PEERS: list[dict[str, Any]] = [
    {"consensus": {"peers": 1}},
    {"consensus": {"graph": 3}},
    {"consensus": {"orphans": "lost"}},
    {"consensus": {"notice": -1.0}},
    {"consensus": {}, "scheme": "uncoded"},
    {"consensus": {}, "faults": {}},
    {"consensus": {}, "optimizer": {}},
    {"consensus": {}, "run": {"engine": "ray"}},
    {"consensus": {}, "run": {"workers": 3}},
    {"consensus": {}, "delays": {"late": "drop(3)"}},
    {"run": {"model_of": 1}},
    {"delays": {"latency": 0.1}},
]


@pytest.mark.parametrize("tables", WRONG_OF_PEERS)
def test_what_is_for_the_other_kind_or_out_of_range_is_refused(tables: dict[str, Any]) -> None:
    assert faults_of(tables)
    assert not is_taken(tables)


def test_editors_complete_the_keys_of_both_kinds() -> None:
    schema = json_schema({"consensus": ConsensusConfig})  # they look into anyOf, and not into if, then and else
    offered = [schema["$defs"][part["$ref"].rpartition("/")[2]] for part in schema["anyOf"] if part]
    assert {key for part in offered for key in part["properties"]} == SECTIONS


WRONG = [
    {"run": {"step": 3}},
    {"schemes": "exact"},
    {"run": 3},
    {"run": {"steps": "ten"}},
    {"run": {"steps": 0}},
    {"run": {"engine": "spark"}},
    {"delays": {"late": "wait"}},
    {"optimizer": {"rate": [1]}},
    {"optimizer": {"momentum": 1.0}},
    {"data": {"one_hot": 3}},
    {"faults": {"on_death": "mourn"}},
    {"faults": {"suspect_after": 0}},
    {"faults": {"replacements": -1}},
    {"checkpoints": {"keep": 0}},
]


@pytest.mark.parametrize("tables", WRONG)
def test_the_schema_refuses_what_the_program_refuses(tables: dict[str, Any]) -> None:
    assert faults_of(tables)
    with pytest.raises(InvalidArgument):
        build_config(tables)


NUMBERS = [(kind, key) for kind, _ in KINDS for key in keys(kind) if key.limits]


@pytest.mark.slow
@given(st.sampled_from(NUMBERS), st.one_of(st.integers(-5, 5), st.floats(-5, 5)))
def test_the_schema_and_the_program_draw_the_same_bounds(numbered: tuple[Any, Any], value: float) -> None:
    kind, key = numbered
    tables: dict[str, Any] = {"consensus": {}} if kind is ConsensusConfig else {}
    tables[key.section] = {key.name: value}
    if isinstance(value, float) and value.is_integer() and key.type is int:
        return  # JSON knows no difference between 2 and 2.0; TOML does
    assert (faults_of(tables) == []) == is_taken(tables)


@pytest.mark.parametrize("kind", [Config, ConsensusConfig])
def test_every_key_is_described_and_every_choice_explained(kind: Any) -> None:
    for key in keys(kind):
        assert key.text.endswith("."), key.path
        assert (key.metavar != "") == (key.options != () and key.type is not bool), key.path
        for choice in key.values:
            assert choice in key.text, f"{key.path}: what is {choice!r}?"


def test_every_loss_is_named_in_the_help() -> None:
    text = next(key.text for key in keys() if key.path == "problem.loss")
    with pytest.raises(InvalidArgument) as refused:
        build_config({"problem": {"loss": "hinge"}})
    known = str(refused.value).partition("must be one of ")[2].partition(", but it is")[0].split(", ")
    assert len(known) >= 8
    assert all(name in text for name in known)


def test_every_option_sets_its_key() -> None:
    examples: dict[Any, Any] = {bool: True, int: 7, float: 0.5, str: "geometric(0.1, 0.99)"}
    own: dict[str, Any] = {"problem.loss": "poisson", "run.track": "wandb=houses"}
    for field, path in KEYS.items():
        key = next(key for key in keys() if key.path == path)
        value = key.values[-1] if key.values else own.get(path, examples[key.type])
        config = RunOptions(**{field: [value] if key.kind == "texts" else value}).config(None)
        found = getattr(getattr(config, key.section), key.name)
        parts = ("geometric(0.1", "0.99)")
        assert found in (value, (value,), parts, (parts,)), path


def test_the_policy_of_a_run_file_is_that_of_python() -> None:
    assert build_config({}).faults.policy() == FaultPolicy()
    other = {
        "on_death": "spread",
        "replacements": 1,
        "on_loss": "go_on",
        "grow": True,
        "on_suspicion": "ignore",
        "suspect_after": 2.5,
        "verify": True,
    }
    assert build_config({"faults": other}).faults.policy() == FaultPolicy(**other)  # type: ignore[arg-type]


def test_an_editor_finds_an_explanation_of_every_key() -> None:
    schema = json.loads(json.dumps(json_schema({"consensus": ConsensusConfig})))
    for title, section in schema["$defs"].items():
        assert section["description"]
        whole = title in ("Config", "ConsensusConfig")  # whose sections are described where they are defined
        assert all(entry.get("description") or (whole and "$ref" in entry) for entry in section["properties"].values())

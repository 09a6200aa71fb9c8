"""The page about the decompiler: its sources and its table are what the commands make, and every row is tested."""

# ruff: noqa: E402

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

jax = pytest.importorskip("jax", reason="the decompiler needs JAX: pip install 'erasurehead[jax]'")

from erasurehead.decompile._primitives import primitives_of
from erasurehead.decompile._refusals import known_reason

from .programs import CASES

of_this_jax = pytest.mark.skipif(
    not jax.__version__.startswith("0.10."), reason="the page is of JAX 0.10, whose names and primitives others lack"
)

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE, TABLE = ((DOCS / name).read_text(encoding="utf-8") for name in ("decompile.md", "decompile-primitives.md"))


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DOCS / "extensions"))
    return importlib.import_module("decompiled")


@of_this_jax
def test_the_sources_are_those_that_the_commands_print(extension: ModuleType) -> None:
    assert len(re.findall(r"^erasurehead decompile my\.py", PAGE, re.MULTILINE)) == 3
    assert extension.with_sources(PAGE) == PAGE


@of_this_jax
def test_the_table_is_that_of_the_installed_jax(extension: ModuleType) -> None:
    rows = extension.rows(TABLE)
    assert set(extension.primitive_table.listed()) <= set(rows), "run: python docs/extensions/decompiled.py"
    assert extension.with_table(TABLE, rows) == TABLE
    assert "gap" not in TABLE.split("<!-- coverage -->")[1]


@pytest.mark.slow
def test_what_public_functions_yield_is_in_the_table(extension: ModuleType) -> None:
    modules = ("jax.lax", "jax.lax.linalg", "jax.nn", "jax.numpy.linalg")  # the script explores all of them
    assert set(extension.primitive_table.explore(modules)) <= set(extension.rows(TABLE)), (
        "run: python docs/extensions/decompiled.py"
    )


@cache
def met() -> set[str]:
    """The primitives in the programs that the tests decompile."""
    found: set[str] = set()
    for case in CASES.values():
        found |= set(primitives_of(jax.make_jaxpr(case.function)(*case.arguments).jaxpr))
    return found


ELSEWHERE = {
    "psum",
    "pmax",
    "all_gather",
    "all_to_all",
    "ppermute",
    "axis_index",
    "reduce_scatter",
    "shard_map",  # test_kinds
    "custom_vjp_call",
    "remat2",
    "custom_jvp_call",
    "jit",  # test_source, with their calls kept
}
UNREACHED = {"call", "closed_call", "core_call", "pmin", "pvary"}
"""Primitives of one rule with others that are met, or that no public function yields."""


@pytest.mark.slow
@pytest.mark.xdist_group("page")  # what is met is found once
@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_every_row_is_tested(backend: str, extension: ModuleType) -> None:
    seen = met() | ELSEWHERE | UNREACHED
    untested = [
        op
        for op in extension.rows(TABLE)
        if not extension.primitive_table.status(op, backend).startswith("no") and op not in seen
    ]
    assert not untested
    for op in extension.rows(TABLE):
        if extension.primitive_table.status(op, backend).startswith("no"):
            assert known_reason(op, backend)

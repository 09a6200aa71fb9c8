"""The glossary against the code: what it names is there, and the names that it replaced are gone."""

from __future__ import annotations

import ast
import importlib
import re

import pytest

from .pages import DOCS, ROOT

SOURCE = ROOT / "src" / "erasurehead"
PAGE = (DOCS / "words.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(erasurehead(?:\.\w+)+)`", PAGE)))

MODULES = {
    "aggregation", "arrays", "comparison", "config", "counting", "crew", "evaluation", "experiment", "files",
    "foreign", "formation", "gathering", "instruments", "interruption", "later", "layout", "oversight", "placement",
    "programs", "progress", "records", "resources", "rounds", "run", "specs", "splitting", "storage", "streams",
    "survival", "suspicion", "trained", "verification", "waiting",
}  # fmt: skip
"""What stood at the top of the package, and moved into a room."""

NAMES = {
    "Board", "Calls", "Chronicle", "Crew", "Formation", "Gates", "Gathered", "Gathering", "Instrument", "Ledger",
    "Lent", "Letter", "Loan", "NeverMet", "Oversight", "Parcel", "Part", "Pool", "Posting", "Rooms", "Slots",
    "Station", "Storm", "StormyEngine", "Survival", "Suspicion", "Thinned", "for_code", "later", "muster", "read_storm",
    "borne", "reformed", "reseated", "station_of", "twin", "write_storm", "Happening", "befallen", "take_happenings",
}  # fmt: skip
"""Classes and functions that were renamed."""

ATTRIBUTES = {
    "befallen",
    "crew",
    "epoch",
    "formation",
    "happened",
    "inbox",
    "instruments",
    "outbox",
    "oversight",
    "seats",
    "thinned",
}
"""Attributes and methods that were renamed."""


@pytest.mark.parametrize("name", NAMED)
def test_what_the_glossary_names_is_there(name: str) -> None:
    home, _, last = name.rpartition(".")
    assert getattr(importlib.import_module(home), last) is not None


def test_the_glossary_names_something() -> None:
    assert len(NAMED) >= 10


def test_retired_modules_are_gone() -> None:
    assert not {path.stem for path in SOURCE.iterdir()} & MODULES


@pytest.mark.slow
def test_retired_names_are_gone() -> None:
    found: list[str] = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name in NAMES:
                found.append(f"{path.name}: {node.name}")
            elif isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
                found.append(f"{path.name}: .{node.attr}")
    assert not found

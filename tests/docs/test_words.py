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
    "aggregation",
    "arrays",
    "comparison",
    "config",
    "counting",
    "crew",
    "evaluation",
    "experiment",
    "files",
    "foreign",
    "formation",
    "gathering",
    "instruments",
    "interruption",
    "later",
    "layout",
    "oversight",
    "placement",
    "programs",
    "progress",
    "records",
    "resources",
    "rounds",
    "run",
    "specs",
    "splitting",
    "storage",
    "streams",
    "survival",
    "suspicion",
    "trained",
    "verification",
    "waiting",
}
"""What stood at the top of the package, and moved into a room."""

NAMES = {
    "Board",
    "Calls",
    "Chronicle",
    "Crew",
    "Formation",
    "Gates",
    "Gathered",
    "Gathering",
    "Instrument",
    "Ledger",
    "Lent",
    "Letter",
    "Loan",
    "NeverMet",
    "Oversight",
    "Parcel",
    "Part",
    "Pool",
    "Posting",
    "Rooms",
    "Slots",
    "Station",
    "Storm",
    "StormyEngine",
    "Survival",
    "Suspicion",
    "Thinned",
    "for_code",
    "later",
    "muster",
    "read_storm",
    "borne",
    "reformed",
    "reseated",
    "station_of",
    "twin",
    "write_storm",
    "Happening",
    "befallen",
    "take_happenings",
    "Befallen",
    "Inbox",
    "OnSuspicion",
    "RowFile",
    "Storms",
    "doubt",
    "doubts",
    "gathered_on_one",
    "most_liars",
    "restricted",
    "Correspondence",
    "Mail",
    "Post",
    "Received",
    "SharedMail",
    "RankMail",
    "correspondence",
    "letters",
    "open_letters",
    "Conduct",
    "Holdings",
    "LivePort",
    "LiveRun",
    "Trouble",
    "TroubleRow",
    "carry_out",
    "knitted",
    "on_trouble",
    "parted",
    "Nursery",
    "made_folder",
    "scheme_look",
    "told_apart",
    "unspread",
}
"""Classes and functions that were renamed."""

ATTRIBUTES = {
    "befallen",
    "crew",
    "doubtful",
    "doubts",
    "formation",
    "happened",
    "inbox",
    "instruments",
    "knitted",
    "letters",
    "liars",
    "mail",
    "outbox",
    "oversight",
    "seats",
    "suspicion",
    "thinned",
    "troubles",
}
"""Attributes and methods that were renamed."""

PARAMETERS = {"crew", "doubtful", "inbox", "instruments", "liars", "outbox", "storm", "suspicion", "twin"}
"""Parameters, keywords and local names that were renamed."""

KEYS = {"doubted", "doubts", "liars", "oversight", "storm", "survive", "suspicion", "twin"}
"""Keys of files, kinds of notices, and sections of run files that were renamed."""


@pytest.mark.parametrize("name", NAMED)
def test_what_the_glossary_names_is_there(name: str) -> None:
    home, _, last = name.rpartition(".")
    assert getattr(importlib.import_module(home), last) is not None


def test_the_glossary_names_nothing_private() -> None:
    assert not [name for name in NAMED if "._" in name]


def test_the_glossary_names_something() -> None:
    assert len(NAMED) >= 10


def test_retired_modules_are_gone() -> None:
    assert not {path.stem for path in SOURCE.iterdir()} & MODULES


@pytest.mark.slow
@pytest.mark.parametrize("room", ["src", "tests", "benchmarks"])
def test_retired_names_are_gone(room: str) -> None:
    found: list[str] = []
    written = re.compile(rf"\b_*({'|'.join(NAMES | ATTRIBUTES | PARAMETERS | KEYS)})_*\b")
    for path in sorted((ROOT / room).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if path.name == "test_words.py" or not written.search(text):  # to parse all files takes seconds
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name in NAMES:
                found.append(f"{path.name}: {node.name}")
            elif isinstance(node, ast.Attribute) and node.attr.strip("_") in ATTRIBUTES:
                found.append(f"{path.name}: .{node.attr}")
            elif isinstance(node, ast.arg | ast.keyword) and node.arg in PARAMETERS:
                found.append(f"{path.name}: {node.arg}=")
            elif isinstance(node, ast.Name) and node.id.strip("_") in PARAMETERS:
                found.append(f"{path.name}: {node.id}")
            elif isinstance(node, ast.Dict):
                keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
                found += [f"{path.name}: {key!r}" for key in keys if key in KEYS]
            elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value in KEYS:
                found.append(f"{path.name}: [{node.slice.value!r}]")
    assert not found


def test_the_check_for_retired_names_would_find_one() -> None:
    tree = ast.parse("played.suspicion.check(liars=2)")
    assert {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} & ATTRIBUTES
    assert {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)} & PARAMETERS

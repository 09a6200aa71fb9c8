"""The pages on codes: the catalogue is complete, and what they print and claim is what the commands print."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import shlex
from types import ModuleType

import pytest

from erasurehead import codes, decoding

from ..typed import typed
from .pages import DOCS, blocks

CATALOGUE, CHOOSING = DOCS / "codes.md", DOCS / "choosing_a_code.md"
FAMILIES = {family.name: family for family in codes.catalogue()}
SESSIONS = [block.text for block in blocks(CHOOSING, "console")]

SYSTEMS = {  # what the literature calls them, and where they are here
    "repetition": "fractional_repetition",
    "cyclic repetition": "cyclic_repetition",
    "partial stragglers": "partial_stragglers",
    "divisibility-free repetition": "binary_repetition",
    "real cyclic MDS": "cyclic_mds",
    "complex cyclic MDS": "complex_cyclic_mds",
    "expanders": "expander",
    "random regular graphs": "regular",
    "arbitrary placement": "placed",
    "Reed-Solomon": "reed_solomon",
    "BGC": "bernoulli",
    "rBGC": "regularised_bernoulli",
    "SBC": "stochastic_block",
    "projective planes": "projective_plane",
    "affine planes": "affine_plane",
    "Paley": "paley",
    "twin primes": "twin_primes",
    "nearest design": "design_for",
    "soft BIBD": "soft_design",
    "products": "kronecker",
    "nested": "nested",
    "multi-message": "multi_message",
    "heterogeneous, theirs": "heterogeneous_exclusive",
    "heterogeneous, staircase": "heterogeneous_staircase",
    "heterogeneous, own holders": "heterogeneous_held",
    "heterogeneous, load cap": "heterogeneous_balanced",
    "communication-efficient, cyclic": "communication_efficient_cyclic",
    "communication-efficient, groups": "communication_efficient_groups",
    "coupons": "batched_coupons",
    "SGC": "stochastic_gradient",
    "graph codes": "graph_code",
    "DRACO, repetition": "draco_repetition",
    "DRACO, cyclic": "draco_cyclic",
}


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(DOCS / "extensions"))
    return importlib.import_module("code_catalogue")


def listed() -> list[str]:
    """The families in the tables of the catalogue page."""
    tables = [block.text for block in blocks(CATALOGUE, "{eval-rst}")]
    return [name for text in tables if "code-catalogue::" in text for name in text.split("::")[1].split()]


def test_every_family_has_its_row_once() -> None:
    assert sorted(listed()) == sorted(family.name for family in codes.catalogue())


def test_every_published_system_has_its_row() -> None:
    assert set(SYSTEMS.values()) <= set(listed())


def test_a_row_says_what_it_is_guarantee_choice_and_source(extension: ModuleType) -> None:
    (row,) = extension.code_rows(["regular"])
    family = FAMILIES["regular"]
    assert row[0].startswith(":py:func:`~erasurehead.codes.regular` (approximate). Every worker holds")
    assert [cell.replace("\\*", "*").lower() for cell in row[1:]] == [
        family.guarantee.lower(),
        family.choose.lower(),
        family.source.lower(),
    ]


def heirs(kind: type) -> set[type]:
    """The concrete classes below one that the library has."""
    below = {value for heir in kind.__subclasses__() for value in {heir, *heirs(heir)}}
    return {value for value in below if not inspect.isabstract(value) and value.__module__.startswith("erasurehead.")}


def test_every_decoder_has_its_row_with_the_codes_that_it_is_chosen_for(extension: ModuleType) -> None:
    rows = {row[0].strip("`"): row for row in extension.decoder_rows()}
    chosen = {type(decoding.make_decoder(family.example_code)).__name__ for family in codes.catalogue()}
    assert set(rows) >= chosen
    assert set(rows) == {value.__name__ for value in heirs(decoding.Decoder) if not value.__name__.startswith("_")}
    assert "`fractional_repetition`" in rows["FirstPerGroup"][2]
    assert sum(row[2].count("`") // 2 for row in rows.values()) == len(codes.catalogue())


@pytest.mark.slow
@pytest.mark.parametrize("session", SESSIONS)
def test_commands_print_what_the_page_shows(session: str) -> None:
    command, _, shown = session.replace("\\\n", "").partition("\n")
    done = typed(*shlex.split(command.removeprefix("$ "))[1:])
    assert done.code == 0, done.err
    assert [line.rstrip() for line in done.out.strip("\n").splitlines()] == shown.rstrip("\n").splitlines()


def test_the_numbers_of_the_page_are_printed_by_its_command() -> None:
    assert SESSIONS
    prose = CHOOSING.read_text().rsplit("```console", 1)[1].split("```", 1)[1].split("## Check")[0]
    numbers = re.findall(r"\d+\.\d+|\d,\d{3}", prose)
    assert len(numbers) >= 6
    for number in numbers:
        assert number in SESSIONS[-1], number


def test_codes_of_the_decision_table_can_be_written_so() -> None:
    table = [line for line in CHOOSING.read_text().splitlines() if line.startswith("|")][2:]
    calls = [call for line in table for call in re.findall(r"`(\w+\(.*?\))`", line.split("|")[2])]
    assert len(calls) >= 12
    for call in calls:
        tree = ast.parse(call, mode="eval").body
        assert isinstance(tree, ast.Call)
        assert isinstance(tree.func, ast.Name)
        taken = list(inspect.signature(FAMILIES[tree.func.id].constructor).parameters)
        named = {keyword.arg for keyword in tree.keywords}
        assert named <= set(taken)
        words = [argument.id for argument in tree.args if isinstance(argument, ast.Name) and argument.id != "n"]
        assert set(words) <= set(taken)

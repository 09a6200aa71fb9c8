"""The theory page: every number is made anew, and every formula agrees with what is simulated beside it."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

from .pages import DOCS

PAGE = DOCS / "theory.md"


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS / "extensions"))
        return importlib.import_module("theory_tables")


def shown(name: str) -> list[str]:
    found = re.search(rf"<!-- table: {name} -->\n(.*?)\n<!-- end -->", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1].splitlines()


NAMES = re.findall(r"<!-- table: (\w+) -->", PAGE.read_text(encoding="utf-8"))


def numbers(line: str) -> list[float]:
    return [float(text) for text in re.findall(r"\d+\.\d+", line)]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_number_of_the_page_is_made_anew(tables: ModuleType, name: str) -> None:
    for line, again in zip(shown(name), tables.TABLES[name](), strict=True):
        # The last digit may differ where another machine adds in another order.
        assert re.sub(r"\d+\.\d+", "#", line) == re.sub(r"\d+\.\d+", "#", again)
        for value, other in zip(numbers(line), numbers(again), strict=True):
            assert value == pytest.approx(other, rel=2e-3, abs=2e-5)


def test_every_table_is_on_the_page(tables: ModuleType) -> None:
    assert list(tables.TABLES) == NAMES


@pytest.mark.parametrize("name", ["erasures", "moments", "statistics", "steps", "additive"])
def test_formulas_agree_with_simulation_to_within_their_standard_error(name: str) -> None:
    compared = 0
    for line in shown(name)[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        place = next(index for index, cell in enumerate(cells) if "±" in cell)
        formula, (value, error) = float(cells[place - 1]), numbers(cells[place])
        if "as printed" in line:
            assert abs(formula - value) > 50 * error
        elif "bound" in line:
            assert value <= formula
        else:
            assert abs(formula - value) <= 4 * error + 1e-5, line
            compared += 1
    assert compared >= 2


def test_bounds_are_not_below_what_is_simulated() -> None:
    for line in shown("convergence")[2:]:
        simulated, *bounds = [numbers(cell)[0] for cell in line.strip("|").split("|")[2:] if numbers(cell)]
        assert all(bound >= simulated for bound in bounds), line
    for line in shown("times")[2:]:
        bound, *between, simulated = numbers(line)
        if "as printed" not in line:
            assert bound >= between[0] * 0.9 >= simulated * 0.9, line  # bounds do not round steps up


def test_the_slips_of_the_paper_are_listed_with_functions_that_are_there(tables: ModuleType) -> None:
    import erasurehead.planning as planning

    files = [path.stem for path in Path(planning.__path__[0]).glob("*.py") if path.stem != "__init__"]
    modules = [importlib.import_module(f"{planning.__name__}.{stem}") for stem in files] + [tables]
    section = PAGE.read_text(encoding="utf-8").split("## Errors in the paper")[1].split("\n## ")[0]
    named = set(re.findall(r"`(\w+)", section)) - {"exact_as_printed"}
    assert named >= {"lemma8", "theorem3", "scaled", "lemma4"}
    for name in named:
        assert any(hasattr(module, name) for module in modules), name

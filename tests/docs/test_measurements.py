"""Figures of README and docs are those that were measured last, and say when and how; others are refused."""

from __future__ import annotations

import importlib
import json
import re
from types import ModuleType
from typing import Any

import pytest

from .pages import ROOT, name, pages

MEASURED = sorted((ROOT / "benchmarks" / "measured").glob("*.json"))


@pytest.fixture(scope="module")
def figures() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        return importlib.import_module("figures")


@pytest.fixture(scope="module")
def runs(figures: ModuleType) -> Any:
    return figures.read()


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_figure_of_a_page_is_the_one_that_was_measured_last(figures: ModuleType, runs: Any, page: Any) -> None:
    text = page.read_text(encoding="utf-8")
    again, wrong = figures.drawn(text, runs, name(page))
    assert not wrong, "\n".join(wrong)
    for line, other in zip(text.splitlines(), again.splitlines(), strict=True):
        assert line == other, "run `python benchmarks/figures.py`"


def test_the_table_of_everything_is_what_was_measured_last(figures: ModuleType, runs: Any) -> None:
    assert figures.RESULTS.read_text(encoding="utf-8") == figures.results(runs)


@pytest.mark.parametrize("path", MEASURED, ids=lambda path: path.stem)
def test_what_was_measured_says_when_and_how(figures: ModuleType, runs: Any, path: Any) -> None:
    keys = [key for run in runs[path.stem] for key in run.rows]
    assert len(keys) == len(set(keys)) > 0
    for run in runs[path.stem]:
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", run.date)
        assert run.commit is None or re.fullmatch(r"[0-9a-f]{7,10}( with uncommitted changes)?", run.commit)
        assert run.machine
        assert run.command
        assert not set(run.targets) - set(run.rows)
    assert path.read_text(encoding="utf-8") == figures._written(runs[path.stem])


def test_the_pages_that_people_read_first_have_figures() -> None:
    marked = {name(page) for page in pages() if "<!-- measured: " in page.read_text(encoding="utf-8")}
    assert marked >= {"README.md", "docs/measurements.md", "docs/results-schemes.md", "docs/networks.md"}
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(r"all, missed; \.0f -->\d+ of <!-- measured: all, targets; \.0f -->\d+\s+targets", text)


# What would be refused

HEAD = "| | slow | nobody |\n|---|--:|--:|\n"
RUN = {"command": "python benchmarks/some.py", "commit": "0123456789", "date": "2026-01-31", "machine": "a machine"}
ROWS: dict[str, Any] = {"slow: ours": 1.234, "nobody: ours": None, "slow: theirs": [2.0, 3.5], "far, at least": 20.0}


@pytest.fixture
def some(figures: ModuleType) -> Any:
    return {"some": [figures.Run("some", **RUN, rows=ROWS, targets={"slow: ours": "<= 1"})]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{HEAD}| ours | 1.23 | never |", "page.md:1: this table has figures, and nothing says where they were meas"),
        ("a | b\n--|--\nours | 1.23", "page.md:1: this table has figures"),
        (f"> {HEAD}| ours | 1.23 | never |".replace("\n", "\n> "), "page.md:1: this table has figures"),
        ("```{list-table}\n* - 1\n```", "page.md: `{list-table}` (1) is a table whose figures nobody can find"),
        ("<table><tr><td>1</td></tr></table>", "page.md: `<td>` (1) is a table whose figures nobody can find"),
        (
            f"<!-- measured: some, {{column}}: {{row}} -->\n{HEAD}| others | 1 | 2 |",
            "page.md:4: there is no row `some, s",
        ),
        (
            f"<!-- measured: none, {{column}}: {{row}} -->\n{HEAD}| ours | 1 | 2 |",
            "page.md:4: there is no row `none, s",
        ),
        (f"<!-- measured: some, {{column}}: {{row}} -->\n{HEAD}| ours | 1.23 of 5 | |", "page.md:4: `1.23 of 5` has 2"),
        (f"<!-- measured: some, {{row}} -->\n{HEAD}| far | 20 | 20 |", "page.md:4: `20`: `at least` has to be said"),
        ("<!-- measured: some, slow: ours -->\n\nNo table.", "page.md:1: no table is below this comment"),
        ("It takes <!-- measured: some, fast: ours -->1.2 s.", "page.md:1: there is no figure `some, fast: ours`"),
        ("It takes <!-- measured: some, slow: ours -->a while.", "page.md:1: no number follows this comment"),
        (
            "It takes\n<!-- measured: some, slow: ours; .1f -->1.2 s.",
            "page.md:2: a comment that begins a line ends its",
        ),
    ],
)
def test_a_page_whose_figures_nobody_has_measured_is_refused(
    figures: ModuleType, some: Any, text: str, said: str
) -> None:
    _, wrong = figures.drawn(text, some, "page.md")
    assert len(wrong) >= 1
    assert wrong[0].startswith(said), wrong


@pytest.mark.parametrize(
    "text",
    [
        f"```text\n{HEAD}| ours | 1.23 | 5 |\n```",
        f"<!-- not measured: settings -->\n{HEAD}| ours | 1.23 | 5 |",
        f"{HEAD}| ours | `load=3` | [a paper](https://arxiv.org/abs/1901.09671) |",
    ],
)
def test_what_is_no_figure_is_let_be(figures: ModuleType, some: Any, text: str) -> None:
    assert figures.drawn(text, some, "page.md") == (text, [])


def test_old_figures_are_drawn_anew_and_say_when_they_were_measured(figures: ModuleType, some: Any) -> None:
    before = (
        "It takes <!-- measured: some, slow: ours; .2f -->9.99 s.\n\n"
        "<!-- measured: some, {column}: {row}; .2g -->\n"
        "| | slow | lazy <!-- nobody --> |\n|---|--:|--:|\n"
        "| **ours** | **9.9 s** | 4 |\n"
        "| others <!-- theirs --> | 9 (8) | |\n\nThe end."
    )
    after, wrong = figures.drawn(before, some, "page.md")
    assert not wrong
    assert after == (
        "It takes <!-- measured: some, slow: ours; .2f -->1.23 s.\n\n"
        "<!-- measured: some, {column}: {row}; .2g -->\n"
        "| | slow | lazy <!-- nobody --> |\n|---|--:|--:|\n"
        "| **ours** | **1.2 s** | never |\n"
        "| others <!-- theirs --> | 2 (3.5) | |\n\n"
        "<sub>Measured 2026-01-31 at 0123456789 by `python benchmarks/some.py`.</sub>\n\nThe end."
    )
    assert figures.drawn(after, some, "page.md") == (after, [])


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("some, slow: ours@target", ["<= 1"]),
        ("some, slow: ours@verdict", ["missed"]),
        ("least of some, slow: our*", [1.234]),
        ("count of some, *", [4]),
        ("some, slow: ours & some, slow: theirs", [1.234, 2.0, 3.5]),
        ("all, missed", [1.0]),
        ("all, targets", [1.0]),
        ("some, missed", None),
    ],
)
def test_where_a_figure_is_found(figures: ModuleType, some: Any, address: str, found: list[Any] | None) -> None:
    assert figures.Book(some).find(address) == found


@pytest.mark.parametrize(
    ("value", "form", "before", "said"),
    [
        (1.25, ".1f", "", "1.2"),
        (1234.5, ".2g", "", "1200"),
        (20.84, ".3g.2f", "", "20.8"),
        (0.4, "#.3g.2f", "", "0.40"),
        (233.0, "#.3g.2f", "", "233"),
        (0.0384, ".3g.2f", "", "0.04"),
        (0.829, ".0%", "80%", "83%"),
        (83.4, ".2g", "80%", "83%"),
        (1.0, "", "2.00", "1.00"),
        (None, ".2f", "–", "–"),
        (None, ".2f", "2.0", "never"),
    ],
)
def test_how_a_figure_is_written(figures: ModuleType, value: Any, form: str, before: str, said: str) -> None:
    assert figures.written(value, form, before) == said


def test_what_is_measured_anew_takes_the_place_of_what_was_known(
    figures: ModuleType, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "MEASURED", tmp_path)
    figures.enter(figures.Run("some", **RUN, rows={"a": 1.0, "b": 2.0}, targets={"b": "<= 1"}))
    other = RUN | {"command": "python benchmarks/some.py --only b", "commit": "9876543210"}
    figures.enter(figures.Run("some", **other, rows={"b": 0.5}, targets={"b": "<= 1"}))
    first, second = figures.read()["some"]
    assert (first.rows, dict(first.targets), second.rows) == ({"a": 1.0}, {}, {"b": 0.5})
    figures.enter(figures.Run("some", **RUN, rows={"b": 3.0}))
    assert [run.rows for run in figures.read()["some"]] == [{"b": 3.0}]
    assert [run["commit"] for run in json.loads((tmp_path / "some.json").read_text())] == ["0123456789"]

"""What pages say of measurements is what was measured last, the missed targets included."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from .pages import ROOT


class Row(NamedTuple):
    value: str
    target: str
    verdict: str


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


LINES = [cells(line) for line in (ROOT / "benchmarks" / "RESULTS.md").read_text().splitlines() if line.startswith("| ")]
MEASURED = {f"{name}: {ratio}": Row(*rest[:3]) for name, ratio, *rest in LINES}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
QUOTED = [
    (page.name, cells(line))
    for page in PAGES
    for line in page.read_text().splitlines()
    if line.startswith("| ") and (key := re.search(r"`([^`]+)` \|$", line)) and key[1] in MEASURED
]


@pytest.mark.parametrize(("page", "quoted"), QUOTED, ids=[f"{page} {row[-1]}" for page, row in QUOTED])
def test_a_quoted_row_is_the_one_that_was_measured_last(page: str, quoted: list[str]) -> None:
    assert Row(*quoted[1:4]) == MEASURED[quoted[-1].strip("`")]


def test_every_row_of_the_page_on_measurements_names_a_row_of_the_results() -> None:
    page = (ROOT / "docs" / "measurements.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ") and "row of RESULTS.md" not in line]
    assert len(rows) == sum(name == "measurements.md" for name, _ in QUOTED) > 20


def test_missed_targets_are_counted_right_wherever_they_are_counted() -> None:
    verdicts = [row.verdict for row in MEASURED.values() if row.verdict]
    said = [
        (page.name, found)
        for page in PAGES
        for found in re.findall(r"(\d+) of (\d+)\s+targets\s+are\s+missed", page.read_text())
    ]
    assert {name for name, _ in said} == {"README.md", "measurements.md"}
    assert {found for _, found in said} == {(str(verdicts.count("missed")), str(len(verdicts)))}


def test_every_missed_target_of_the_page_is_marked_as_missed_in_the_results() -> None:
    for row in MEASURED.values():
        bound = re.match(r"(<=|>=) ([\d.]+)$", row.target)
        if bound and row.value != "-":
            value, limit = float(row.value), float(bound[2])
            met = value <= limit if bound[1] == "<=" else value >= limit
            assert row.verdict == ("met" if met else "missed") or abs(value - limit) < 0.01 * limit, row

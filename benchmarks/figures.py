"""Draw the figures of README and docs from what was measured, which stands in `benchmarks/measured/`.

    python benchmarks/figures.py            write all figures, and RESULTS.md, anew; exit code 1 if a table has none
    python benchmarks/figures.py --check    only say what differs, and which tables have none

On the line before a table of figures, a comment says where these are to be found. In it, `{row}` and `{column}` stand
for the labels of the table, or for what a comment in a label says instead:

    <!-- measured: orders, {column}: {row}; .2f -->
    | | for about 100 steps <!-- persistent --> | nobody slow <!-- nobody --> |
    |---|--:|--:|
    | waiting for all <!-- uncoded --> | 4.47 | 1.30 |

Before the first comma stands the file, then the row in it, and then how numbers are written: `.2f` with two decimals,
`.3g` with three digits (`#.3g`: zeros at the end, too), `.3g.2f` with three and no more than two decimals, `.0%` as a
percentage; or else with as many decimals as there are. Of a cell, numbers and "never" are replaced, and nothing else.
If it has several, ` & ` stands between the rows that they come from. Settings are not measured: `<!-- given -->` in
the label of their column says so. When and how the figures of a table were measured is written below it.

In a sentence, the comment stands before the number: `<!-- measured: orders, nobody: uncoded; .2f -->1.30`. With `least
of`, `most of`, `median of` or `count of` before the file, `*` in the row fits any text. `@target` and `@verdict` after
a row are what it is to reach and whether it does; `all, targets` and `all, missed` count those of all files. Where a
row is a bound, its name ends in ", at least", and the page has to say so.

A table whose numbers nobody has measured has `<!-- not measured: REASON -->` on the line before it.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from common import verdict

HERE = Path(__file__).resolve().parent
ROOT, MEASURED, RESULTS = HERE.parent, HERE / "measured", HERE / "RESULTS.md"
Value: TypeAlias = "float | str | None"
"""None is what was never reached."""
NEVER = "never"

_TOKEN = re.compile(r"never|–|(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?%?")
_FENCE = re.compile(r"^ *(`{3,}|~{3,})")
_RULE = re.compile(r"^[ >]*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")
_CODE, _COMMENT = re.compile(r"(`+).*?\1"), re.compile(r"<!--(.*?)-->")
_TABLE_MARK = re.compile(r"^<!-- (measured|not measured|table|keys[ \w]*): (.+) -->$")
"""The last two are drawn by others: formulas beside simulation, and the keys of run files."""
_INLINE_MARK = re.compile(r"<!-- measured: ((?:(?!-->).)+?) -->(\s*\**)(\S?)", re.DOTALL)
_OTHER_TABLES = re.compile(r"\{(?:list-table|csv-table)\}|<t[dh][ >]", re.IGNORECASE)
_SAID = "<sub>Measured "
_FOLDS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "least": min,
    "most": max,
    "median": statistics.median,
    "count": len,
}
_BOUND = ", at least"


class Unmeasured(Exception):
    """A page says what no measurement does."""


@dataclass(frozen=True)
class Run:
    """What one command came to.

    Arguments:
        benchmark: the name of the file.
        command: as one types it.
        commit: the last one that had changed the library; None where nobody has written it down.
        date: of the measurement, or of the commit where only that is known.
        machine: on which it ran.
        rows: numbers, or lists of numbers and texts, by name.
        targets: of some of these, such as `"<= 1.1"`.
    """

    benchmark: str
    command: str
    commit: str | None
    date: str
    machine: str
    rows: Mapping[str, Any]
    targets: Mapping[str, str] = field(default_factory=dict[str, str])


def read() -> dict[str, list[Run]]:
    """Return all that was measured, by benchmark."""
    found: dict[str, list[Run]] = {}
    for path in sorted(MEASURED.glob("*.json")):
        made = json.loads(path.read_text(encoding="utf-8"))
        found[path.stem] = [Run(path.stem, **run) for run in made]
    return found


def enter(new: Run) -> None:
    """Put what was measured in place of what is known of the same rows, and of what the same command came to before."""
    path = MEASURED / f"{new.benchmark}.json"
    known = read().get(new.benchmark, [])
    runs = [
        Run(old.benchmark, old.command, old.commit, old.date, old.machine, rows, targets)
        for old in known
        if old.command != new.command
        and (rows := {key: value for key, value in old.rows.items() if key not in new.rows})
        for targets in [{key: target for key, target in old.targets.items() if key in rows}]
    ]
    MEASURED.mkdir(exist_ok=True)
    path.write_text(_written([*runs, new]), encoding="utf-8")


def _written(runs: Sequence[Run]) -> str:
    """Return runs as JSON, a line a row, so that what has changed can be seen."""

    def lines(rows: Mapping[str, Any]) -> str:
        return "{\n" + ",\n".join(f"   {json.dumps(key)}: {json.dumps(rows[key])}" for key in rows) + "\n  }"

    return (
        "[\n"
        + ",\n".join(
            " {\n"
            + "".join(
                f"  {json.dumps(name)}: {json.dumps(getattr(run, name))},\n"
                for name in ("command", "commit", "date", "machine")
            )
            + f'  "rows": {lines(run.rows)}'
            + (f',\n  "targets": {lines(run.targets)}' if run.targets else "")
            + "\n }"
            for run in runs
        )
        + "\n]\n"
    )


def results(book: Mapping[str, Sequence[Run]]) -> str:
    """Return the table of all that was measured."""

    def said(value: Any) -> str:
        each = value if isinstance(value, list) else [value]
        return ", ".join(written(one, ".3g") for one in each)

    machines = sorted({run.machine for runs in book.values() for run in runs})
    return (
        "# Benchmarks\n\n"
        "Mostly ratios of two sides measured in one run, in turn; medians. Drawn from `benchmarks/measured/`, which "
        "`make bench` fills, or `python benchmarks/run_all.py NAME ...` for some of them.\n\n"
        f"Measured on: {'; '.join(machines)}.\n\n"
        "| benchmark | ratio | value | target | | date | commit |\n|---|---|---|---|---|---|---|\n"
        + "\n".join(
            f"| {name} | {key} | {said(value)} | {target} | {verdict(value, target) if target else ''} | {run.date} | "
            f"{run.commit or ''} |"
            for name, runs in book.items()
            for run in runs
            for key, value in run.rows.items()
            for target in [run.targets.get(key, "")]
        )
        + "\n"
    )


def written(value: Value, form: str = "", before: str = "") -> str:
    """Return a value as a page has it.

    Arguments:
        value: to be written.
        form: such as `.2f`, `.3g`, or `.3g.2f`; without it, as many decimals as there were before.
        before: what stands on the page now.
    """
    if value is None:
        return before if before in (NEVER, "–") else NEVER
    if isinstance(value, str):
        return value
    if before.endswith("%") and not form.endswith("%"):
        return written(value, form, before[:-1]) + "%"
    digits, decimals = re.search(r"#?\.(\d)g", form), re.search(r"\.(\d)f", form)
    if not form:
        return f"{value:.{len(before.partition('.')[2])}f}"
    if digits is None:
        return f"{value:{form}}"
    said = f"{value:{digits[0]}}".removesuffix(".")
    if "e" in said and abs(value) >= 1:
        said = f"{float(said):.0f}"
    return f"{value:{decimals[0]}}" if decimals and len(said.partition(".")[2]) > int(decimals[1]) else said


@dataclass
class Book:
    """Where pages look figures up."""

    runs: Mapping[str, Sequence[Run]]
    used: list[Run] = field(default_factory=list[Run])
    bound: bool = False
    """Whether what was found last is a bound."""

    def find(self, address: str) -> list[Value] | None:
        """Return what stands at an address such as `orders, nobody: uncoded`; None if nothing does."""
        found: list[Value] = []
        self.bound = False
        for one in address.split(" & "):
            values = self._one(one.strip())
            if values is None:
                return None
            found += values
        return found

    def _one(self, address: str) -> list[Value] | None:
        fold, _, rest = address.partition(" of ")
        name, _, key = (rest if fold in _FOLDS else address).partition(", ")
        key, _, what = key.partition("@")
        runs = self.runs.get(name, ())
        if name == "all":
            every = [run for some in self.runs.values() for run in some]
            verdicts = [verdict(run.rows[row], target) for run in every for row, target in run.targets.items()]
            return {"targets": [float(len(verdicts))], "missed": [float(verdicts.count("missed"))]}.get(key)
        if fold in _FOLDS:
            fits = re.compile(re.escape(key).replace(r"\*", ".*"))
            rows = [(run, row) for run in runs for row in run.rows if fits.fullmatch(row)]
            self.used += [run for run, _ in rows]
            values = [math.inf if run.rows[row] is None else run.rows[row] for run, row in rows]
            folded = _FOLDS[fold](values) if values else math.nan
            return [folded if math.isfinite(folded) else None] if values else None
        for row, run in [(row, run) for row in (key, key + _BOUND) for run in runs]:
            if row in run.rows:
                self.bound = row.endswith(_BOUND)
                self.used.append(run)
                value, target = run.rows[row], run.targets.get(row, "")
                if what in ("target", "verdict"):
                    return [{"target": target, "verdict": verdict(value, target) if target else ""}[what]]
                return value if isinstance(value, list) else [value]
        return None


def _figures(cell: str) -> bool:
    """Return whether a cell has figures: digits beside code, formulas, addresses of links, comments and names."""
    text = _COMMENT.sub("", _CODE.sub("", cell))
    text = re.sub(r"\$[^$]*\$", "", re.sub(r"\]\([^)]*\)", "]", text))
    return bool(re.search(r"\d", re.sub(r"\b[A-Za-z]+[-_]?\d[\w.]*", "", text)))


def label(cell: str) -> str:
    """Return what a label stands for: its comment, or else its words."""
    comment = _COMMENT.search(cell)
    return comment[1].strip() if comment else re.sub(r"\]\([^)]*\)|[*`\[]", "", cell).strip()


def cells(line: str) -> list[str]:
    """Return the cells of a line of a table."""
    line = line.strip().removeprefix("|")
    return re.split(r"(?<!\\)\|", line[:-1] if line.endswith("|") else line)


def tables(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield where each table of a page begins and ends; of two lines at least, the second of which is a rule."""
    at, fence = 0, ""
    while at < len(lines):
        found = _FENCE.match(lines[at])
        if found and (not fence or found[1].startswith(fence)):
            fence = "" if fence else found[1]
        if not fence and "|" in lines[at] and at + 1 < len(lines) and _RULE.match(lines[at + 1]):
            end = at + 2
            while end < len(lines) and lines[end].strip() and "|" in lines[end]:
                end += 1
            yield at, end
            at = end
        else:
            at += 1


def _cell(cell: str, address: str, form: str = "", *, book: Book) -> str:
    """Return a cell with its figures drawn anew."""
    if _INLINE_MARK.search(cell):
        if re.search(r"\d", _INLINE_MARK.sub("", re.sub(rf"(-->\s*\**){_TOKEN.pattern}", r"\1", cell))):
            raise Unmeasured(f"`{cell.strip()}` has a figure without a comment before it")
        return cell
    hidden = _CODE.sub(lambda code: "\0" * len(code[0]), _COMMENT.sub(lambda note: "\0" * len(note[0]), cell))
    tokens, values = list(_TOKEN.finditer(hidden)), book.find(address)
    if values is None:
        if _figures(cell):
            raise Unmeasured(f"there is no row `{address}` in benchmarks/measured/; measure it, or name another")
        return cell
    if len(values) == 1 and isinstance(values[0], str):
        code = "`" if "`" in cell else ""
        return cell.replace(cell.strip(" *"), f"{code}{values[0]}{code}") if cell.strip() else f" {values[0]} "
    if book.bound != ("at least" in cell):
        raise Unmeasured(f"`{cell.strip()}`: `at least` has to be said where `{address}` is a bound, and nowhere else")
    if len(tokens) != len(values):
        raise Unmeasured(f"`{cell.strip()}` has {len(tokens)} figures, and `{address}` {len(values)}: write as many")
    for token, value in zip(reversed(tokens), reversed(values), strict=True):
        cell = cell[: token.start()] + written(value, form, token[0]) + cell[token.end() :]
    return cell


def _table(lines: Sequence[str], mark: str, book: Book) -> Iterator[str | Unmeasured]:
    """Yield the lines of a table with their figures drawn anew, or what is wrong with them."""
    heads = [label(cell) for cell in cells(lines[0])]
    yield from lines[:2]
    for line in lines[2:]:
        first, *rest = cells(line)
        try:
            drawn = [
                cell
                if head == "given"
                else _cell(
                    cell, *mark.replace("{column}", head).replace("{row}", label(first)).split("; ")[:2], book=book
                )
                for head, cell in zip(heads[1:], rest, strict=True)
            ]
        except (Unmeasured, ValueError) as error:
            yield Unmeasured(str(error))
            continue
        yield f"|{'|'.join([first, *drawn])}|"


def _provenance(runs: Sequence[Run]) -> str:
    """Return when and how the figures of a table were measured, as the line below it."""
    commands: dict[str, list[str]] = {}
    for run in runs:
        found = commands.setdefault(f"{run.date} at {run.commit or 'a commit that is not known'} by ", [])
        if f"`{run.command}`" not in found:
            found.append(f"`{run.command}`")
    return f"{_SAID}{'; '.join(when + ', '.join(how) for when, how in sorted(commands.items()))}.</sub>"


def drawn(text: str, runs: Mapping[str, Sequence[Run]], page: str) -> tuple[str, list[str]]:
    """Return a page with its figures drawn anew, and what is wrong with it, a sentence each."""
    lines, wrong, out, done = text.split("\n"), list[str](), list[str](), 0
    for begin, end in tables(lines):
        out += lines[done:begin]
        before = next((line.strip() for line in reversed(lines[:begin]) if line.strip()), "")
        mark, book = _TABLE_MARK.match(before), Book(runs)
        done = end
        if mark is None or mark[1] != "measured":
            out += lines[begin:end]
            if mark is None and any(_figures(cell) for line in lines[begin + 2 : end] for cell in cells(line)[1:]):
                wrong.append(
                    f"{page}:{begin + 1}: this table has figures, and nothing says where they were measured: write "
                    "`<!-- measured: FILE, ROW -->` on the line before it (benchmarks/figures.py says how), or "
                    "`<!-- not measured: REASON -->` if nobody has measured them"
                )
            continue
        for number, line in enumerate(_table(lines[begin:end], mark[2], book)):
            if isinstance(line, Unmeasured):
                wrong.append(f"{page}:{begin + 1 + number}: {line}")
                line = lines[begin + number]
            out.append(line)
        if done + 1 < len(lines) and lines[done + 1].startswith(_SAID):
            done += 2
        out += ["", _provenance(book.used)] if book.used else []
    text = "\n".join([*out, *lines[done:]])
    for place, found in enumerate(_OTHER_TABLES.finditer(text)):
        wrong.append(f"{page}: `{found[0]}` ({place + 1}) is a table whose figures nobody can find: write it with bars")
    return _in_sentences(text, Book(runs), page, wrong), wrong


def _in_sentences(text: str, book: Book, page: str, wrong: list[str]) -> str:
    """Return a page with the figures of its sentences drawn anew."""
    out, done, lines = "", 0, text.split("\n")
    for mark in _INLINE_MARK.finditer(text):
        line = text.count("\n", 0, mark.start())
        if _TABLE_MARK.match(lines[line]):
            if "|" not in lines[line + 1]:
                wrong.append(f"{page}:{line + 1}: no table is below this comment: write it on the line before one")
            continue
        where, _, form = mark[1].partition("; ")
        if re.fullmatch(
            r"[ >]*(?:[-*+]|\d+\.)? *", lines[line][: mark.start() - text.rfind("\n", 0, mark.start()) - 1]
        ):
            wrong.append(f"{page}:{line + 1}: a comment that begins a line ends its paragraph: write it behind a word")
        values, token = book.find(where), _TOKEN.match(text, mark.start(3))
        if values is None or len(values) != 1:
            wrong.append(
                f"{page}:{line + 1}: there is no figure `{where}` in benchmarks/measured/: measure it, or name another"
            )
        elif token is None:
            wrong.append(f"{page}:{line + 1}: no number follows this comment: write it before one")
        else:
            out += text[done : token.start()] + written(values[0], form, token[0])
            done = token.end()
    return out + text[done:]


def pages() -> list[Path]:
    """Return all pages that have figures."""
    return [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)]


def draw(check: bool = False) -> list[str]:
    """Draw all pages and RESULTS.md anew, and return what is wrong with them, a sentence each.

    Arguments:
        check: write nothing, and say which differ.
    """
    book, said = read(), list[str]()
    new = {RESULTS: results(book)}
    for path in pages():
        new[path], wrong = drawn(path.read_text(encoding="utf-8"), book, path.relative_to(ROOT).as_posix())
        said += wrong
    for path, text in new.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            if check:
                said.append(f"{path.relative_to(ROOT).as_posix()}: figures differ: run `python benchmarks/figures.py`")
            else:
                path.write_text(text, encoding="utf-8")
    return said


def main() -> None:
    """Draw all pages anew, or say what is wrong with them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    sys.exit("\n".join(draw(parser.parse_args().check)) or None)


if __name__ == "__main__":
    main()

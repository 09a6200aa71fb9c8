"""Pages of `erasurehead codes`: the catalogue of all families, and the facts about one code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from erasurehead.codes import _registry
from erasurehead.errors import counted

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table
    from rich.text import Text

    from erasurehead.codes import GradientCode
    from erasurehead.codes._families import Family
    from erasurehead.decoding._analysis import Analysis

_WIDE = 120  # least width of a terminal at which four columns of text are readable
_LINE = 100  # most characters of a line of text


@dataclass(frozen=True)
class CatalogueTable:
    """The catalogue as a table with a row for each family; in a narrow terminal the last two columns are merged.

    Arguments:
        families: the families, in the order of the rows.
    """

    families: Sequence[Family]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= _WIDE
        table = _plain("Code", "Kind", *(("Guarantees", "Choose it") if wide else ("Guarantees / choose it",)))
        for family in self.families:
            words, choose = (text.replace("`", "") for text in (family.promise, family.choose))
            cells = (words, choose) if wide else (f"{words}\n→ {choose}",)
            table.add_row(*map(plain_text, (family.name, family.status, *cells)))
        yield table


@dataclass(frozen=True)
class FamilyPage:
    """The page of one family, in lines that fit the terminal, and the code that the figures below it are of.

    Arguments:
        name: name of the family.
        code: the code.
    """

    name: str
    code: GradientCode

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:

        yield plain_text(f"{_registry.describe(self.name, min(options.max_width, _LINE))}\n{self.code!r}:")


def facts(analysis: Analysis) -> dict[str, object]:
    """Return the facts about a code as plain data.

    Arguments:
        analysis: analysis of the code, for any numbers of stragglers.
    """
    code, cost, rounding = analysis.code, analysis.cost, analysis.conditioning
    data: dict[str, object] = {
        "call": repr(code),
        "n_workers": code.n_workers,
        "n_tasks": code.n_tasks,
        "load": cost.load,
        "mean_load": cost.mean_load,
        "replication": list(cost.replication),
        "storage": cost.storage,
        "messages_per_worker": [int(code.messages_per_worker.min()), cost.messages],
        "bytes_per_message": 1 / code.n_pieces,
        "upload": cost.upload,
        "tolerance": code.tolerance,
        "decoder": cost.decoder,
        "decoding_products": cost.decoding_products,
        "largest_coefficient": rounding.largest_coefficient,
        "largest_weight": rounding.largest_weight,
        "amplification": rounding.amplification,
        "amplification_bound": rounding.bound,
        "float32_error": rounding.error("float32"),
        "source": code.source,
    }
    if (analysis.curves.bound == analysis.curves.bound).any():
        data |= {"spectral_gap": code.spectrum.gap, "spectral_ratio": code.spectrum.ratio}
    shown = ("rounded", "expected_residual", "aligned_residual", "corrupted", "second_eigenvalue")
    return data | {name: value for name, value in code.structure.known().items() if name in shown}


def facts_table(analysis: Analysis) -> Table:
    """Return the facts about a code as a table of two columns.

    Arguments:
        analysis: analysis of the code.
    """
    from erasurehead.reports._code_tables import times

    values, code, rounding = facts(analysis), analysis.code, analysis.conditioning
    fewest, most = int(code.messages_per_worker.min()), analysis.cost.messages
    one = analysis.cost.replication[-1] == 1
    holders = f"{_span(*analysis.cost.replication)} worker{'' if one else 's'}"
    missing = counted("straggler", rounding.stragglers)
    worst = "in the worst of all sets" if rounding.proven else "the largest found for any set"
    limit = "" if rounding.proven or rounding.bound is None else f" (at most {times(rounding.bound)})"
    rows: list[tuple[str, str]] = [
        ("workers", f"{code.n_workers}"),
        ("tasks", f"{code.n_tasks}"),
        (
            "load",
            f"{counted('task', analysis.cost.load)} on the busiest worker, {analysis.cost.mean_load:.3g} on average",
        ),
        ("replication", f"{holders} per task; all data {analysis.cost.storage:.3g} times"),
        ("messages", f"{_span(fewest, most)} per worker and step, each {_size(code.n_pieces)}"),
        ("tolerates", _tolerance(code.tolerance)),
        (
            "rounding",
            f"errors of messages times {times(rounding.amplification)}, {worst} of {missing}{limit}; "
            f"relative error of float32: {rounding.error('float32'):.1e}",
        ),
        ("coefficients", f"up to {rounding.largest_coefficient:.3g}; weights up to {rounding.largest_weight:.3g}"),
        ("decoder", f"{analysis.cost.decoder}"),
    ]
    if "spectral_gap" in values:
        spectrum = code.spectrum
        rows.append(
            (
                "spectral gap",
                f"{spectrum.gap:.4g} ({spectrum.largest:.4g} - {spectrum.second:.4g}), "
                f"x = (s2 / s1)^2 = {spectrum.ratio:.4g}",
            )
        )
    names = {"rounded": "rounded", "expected_residual": "fixed weights", "corrupted": "corrupted"}
    units = {
        "rounded": "{}",
        "expected_residual": "mean residual {:.4g} tasks",
        "corrupted": "tolerates {} lying workers",
    }
    rows += [(names[key], units[key].format(values[key])) for key in names if key in values]
    table = _plain()
    for name, value in rows:
        table.add_row(plain_text(f"  {name}"), plain_text(value))
    return table


def _span(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low} to {high}"


def _size(n_pieces: int) -> str:
    return "as long as the gradient" if n_pieces == 1 else f"1/{n_pieces} as long as the gradient"


def _tolerance(tolerance: int | None) -> str:
    if tolerance is None:
        return "no exact gradient is guaranteed, not even with all workers"
    if not tolerance:
        return "no stragglers; exact only when all workers answer"
    return f"any {tolerance} straggler{'s' if tolerance > 1 else ''}, exactly"


def _plain(*headers: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_header=bool(headers))
    for header in headers or ("", ""):
        table.add_column(header, overflow="fold")
    return table


def plain_text(value: str) -> Text:
    """Return a text to print verbatim, in which brackets are not markup."""
    from rich.text import Text

    return Text(value)

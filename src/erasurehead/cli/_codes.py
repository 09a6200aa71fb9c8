"""`erasurehead codes`: list the catalogue of gradient codes, show one code, compare several."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from erasurehead.cli._options import OutputOptions, argument, folder, option
from erasurehead.cli._output import Screen
from erasurehead.errors import InvalidArgument, invalid
from erasurehead.runs._names import check_writable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from erasurehead._internal.arrays import IntArray
    from erasurehead.codes import GradientCode
    from erasurehead.decoding._analysis import Analysis

HELP = """
Look up gradient codes: list all, show one, compare several.

[bold]erasurehead codes list[/bold]
  Every code: what it guarantees, and when to choose it.

[bold]erasurehead codes show 'cyclic_mds(30, stragglers=5)'[/bold]
  One code: parameters, guarantee, source and cost.

[bold]erasurehead codes compare 'fractional_repetition(30, load=5)' \\
    'regular(30, load=5)' 'projective_plane(5)' --out runs/codes[/bold]
  Tables of costs and of what stragglers take away, and the papers' curves.

All three take --json.
"""

_LIST = """
List all codes.

[bold]erasurehead codes list[/bold]

[bold]erasurehead codes list --json[/bold]
"""

_SHOW = """
Show one code: what it is, its parameters, guarantee and source.

[bold]erasurehead codes show fractional_repetition[/bold]
  The family, with figures for a small example.

[bold]erasurehead codes show 'fractional_repetition(30, load=3)'[/bold]
  The code of these parameters.

[bold]erasurehead codes show 'refine(cyclic_mds(30, stragglers=5), n_tasks=90)'[/bold]
  A code made of another one.
"""

_COMPARE = """
Compare codes: what they cost, and what stragglers take away.

[bold]erasurehead codes compare 'fractional_repetition(30, load=5)' \\
    'regular(30, load=5)'[/bold]

[bold]erasurehead codes compare 'projective_plane(3)' \\
    'fractional_repetition(12, load=4)' --stragglers 1-6 --out runs/codes[/bold]
  For 1 to 6 stragglers; with pictures (PNG, SVG) in the folder.

Random straggler sets and the searching adversary are drawn from --seed.
"""

_ANALYSIS = "Stragglers"
_POINTS = 26  # points of a curve, enough to look smooth


def list_codes(*, output: OutputOptions) -> None:
    """List all codes."""
    from erasurehead import codes
    from erasurehead.cli._code_pages import CatalogueTable

    families = codes.catalogue()
    Screen(output).result({"codes": [family.row() for family in families]}, CatalogueTable(families))


def show(
    *,
    code: str = argument("CODE", "A name or a call, such as 'cyclic_mds(30, stragglers=5)'."),
    output: OutputOptions,
) -> None:
    """Show one code."""
    from erasurehead import decoding
    from erasurehead.cli._code_pages import FamilyPage, facts, facts_table
    from erasurehead.codes._registry import family
    from erasurehead.codes._text import parse_code
    from erasurehead.reports._code_tables import SHARES, residual_table

    screen = Screen(output)
    screen.say(f"analysing {code} ...")
    built = parse_code(code) if "(" in code else family(code).example_code
    analysis = decoding.analyse(built, _numbers(None, built.n_workers, curves=False))
    name = code.partition("(")[0].strip()  # `design_for` builds codes of other names
    data = {**family(name).row(), "built": {**facts(analysis), "analysis": analysis.as_dict()}}
    screen.result(data, FamilyPage(name, built), facts_table(analysis), "", residual_table({name: analysis}, SHARES))


def compare(
    *,
    codes: list[str] = argument("CODE...", "Codes, each written as a call."),
    stragglers: str | None = option(
        "--stragglers",
        "Numbers of stragglers: 3,6 or 1-10 or 10%,25% of the workers; by default 10, 20, 30 and 50%.",
        panel=_ANALYSIS,
        metavar="NUMBERS",
    ),
    samples: int | None = option(
        "--samples", "Random orders for each mean without a closed form.", panel=_ANALYSIS, metavar="N"
    ),
    effort: int | None = option(
        "--effort", "Straggler sets that the adversary may try for each number.", panel=_ANALYSIS, metavar="N"
    ),
    seed: int | None = option("--seed", "Seed of the random sets (0).", panel=_ANALYSIS, metavar="N"),
    out: str | None = folder("Folder for pictures; by default none are drawn."),
    output: OutputOptions,
) -> None:
    """Compare codes."""
    from erasurehead import decoding
    from erasurehead.reports import _canvas as canvas
    from erasurehead.reports._code_curves import draw_codes
    from erasurehead.reports._code_tables import SHARES, cost_table, residual_table

    screen = Screen(output)
    built = {text.strip(): _built(text) for text in codes}
    numbers = {name: _numbers(stragglers, code.n_workers, curves=out is not None) for name, code in built.items()}
    if out is not None:  # checked before anything takes time
        with canvas.drawing():
            check_writable(Path(out).expanduser(), "The folder")
    given = {"samples": samples, "effort": effort, "seed": seed}
    analyses: dict[str, Analysis] = {}
    for name, code in built.items():
        screen.say(f"analysing {name} ...")
        chosen = {key: value for key, value in given.items() if value is not None}
        analyses[name] = decoding.analyse(code, numbers[name], **chosen)
    files = [] if out is None else draw_codes(analyses, out)
    data = {
        "codes": [{"text": name, **analysis.as_dict()} for name, analysis in analyses.items()],
        "files": [str(path) for path in files],
    }
    residuals = residual_table(analyses, SHARES if stragglers is None else None)
    pictures = [f"\npictures: {', '.join(path.name for path in files)} in {out}"] if files else []
    screen.result(data, cost_table(analyses), "", residuals, *pictures)


def _built(text: str) -> GradientCode:
    """Return the code of a call; raise an error with an example of the family if only its name was given."""
    from erasurehead.codes._registry import family
    from erasurehead.codes._text import parse_code

    if re.fullmatch(r"\s*\w+\s*", text):
        chosen = family(text.strip())
        example = f"{chosen.example_code!r}"
        raise invalid(
            "code", f"must be given with its parameters, as in '{example}'", text, f"they are {chosen.signature}"
        )
    try:
        return parse_code(text)
    except InvalidArgument as error:  # about a parameter of the text, even if there is an option of that name
        raise error.inside("code", text) from None


def _numbers(text: str | None, n_workers: int, curves: bool) -> IntArray:
    """Return the numbers of stragglers to analyse: the requested ones, or those of the table and of smooth curves."""
    import numpy as np

    from erasurehead.reports._code_tables import SHARES

    if text is not None:
        return np.array([number for item in text.split(",") for number in _item(item, text, n_workers)])
    half = n_workers // 2
    smooth = np.linspace(0, half, min(half + 1, _POINTS)) if curves else np.zeros(1)
    return np.unique(np.concatenate([smooth, np.round(np.array(SHARES) * n_workers)]).astype(np.int64))


def _item(item: str, text: str, n_workers: int) -> Sequence[int]:
    """Return the numbers of stragglers in one item of `--stragglers`, such as `3`, `1-10` or `25%`."""

    if match := re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", item):
        first, last = int(match[1]), int(match[2] or match[1])
        if first <= last <= n_workers:
            return range(first, last + 1)
        if first <= last:
            raise invalid("--stragglers", f"must be at most the {n_workers} workers of each code", text)
    elif (match := re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*%\s*", item)) and float(match[1]) <= 100:
        return [round(float(match[1]) / 100 * n_workers)]
    raise invalid("--stragglers", "must be numbers, ranges or parts of the workers", text, "such as 3,6 or 1-10 or 25%")


COMMANDS = {"list": (list_codes, _LIST), "show": (show, _SHOW), "compare": (compare, _COMPARE)}
"""Its subcommands, each with its help."""

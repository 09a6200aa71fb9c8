"""What every benchmark shares: both sides measured in one run, in turn, and one line of JSON at the end."""

from __future__ import annotations

import json
import math
import operator
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

Figure: TypeAlias = "float | str"

_COMPARE = {"<=": operator.le, ">=": operator.ge}


def interleave(
    sides: Mapping[str, Callable[[], object]], repetitions: int = 5, warmup: int = 1
) -> dict[str, list[float]]:
    """Time each side once a repetition, one after the other, so that drifts of the machine meet all of them.

    Returns:
        Seconds of every counted repetition, by side.
    """
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for repetition in range(warmup + repetitions):
        for name, work in sides.items():
            begin = time.perf_counter()
            work()
            spent = time.perf_counter() - begin
            if repetition >= warmup:
                seconds[name].append(spent)
    return seconds


def ratio(seconds: Mapping[str, list[float]], above: str, below: str) -> float:
    """Return the median over the repetitions of one side's time over the other's, pair by pair."""
    return statistics.median(a / b for a, b in zip(seconds[above], seconds[below], strict=True))


def verdict(value: float | None, target: str) -> str:
    """Return `"met"` or `"missed"` for a target such as `"<= 1.10"`, which None, what never came, misses."""
    sign, bound = target.split()
    if value is None:
        return "missed"
    return "met" if _COMPARE[sign](value, float(bound)) else "missed"


def _git(*words: str) -> str:
    here = Path(__file__).resolve().parent
    return subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=False).stdout.strip()


def commit() -> str:
    """Return the last commit that changed the library, marked if there are changes since: what is measured."""
    changed = ("status", "--porcelain", "--untracked-files=no", "--", "../src", "*.py", ":!figures.py")
    last = _git("log", "-1", "--format=%h", "--abbrev=10", "--", "../src")
    return last + (" with uncommitted changes" if _git(*changed) else "")


def kept_since(path: Path) -> tuple[str, str]:
    """Return commit and date at which what a file keeps was measured: the last one that changed it."""
    found, _, date = _git("log", "-1", "--format=%h %as", "--abbrev=10", "--", str(path)).partition(" ")
    return found, date


def report(
    benchmark: str,
    ratios: Mapping[str, Figure | Sequence[Figure]],
    targets: Mapping[str, str],
    since: tuple[str, str] | None = None,
) -> None:
    """Print one row a ratio, then the line of JSON that `make bench` collects.

    Arguments:
        benchmark: its name.
        ratios: by name; what never came is infinite. Several figures that belong together, and names of what was best,
            are no ratios, and may be there for the pages that say them.
        targets: of some of them.
        since: commit and date of what was measured before, and kept; None is now.
    """
    rounded = {key: _rounded(value) for key, value in ratios.items()}
    for key, value in rounded.items():
        target = targets.get(key)
        said = f"   target {target}: {verdict(_number(ratios[key]), target)}" if target else ""
        shown = [f"{one:.4g}" if isinstance(one, float) else str(one or "never") for one in _each(value)]
        print(f"{key:<44} {', '.join(shown):>10}{said}")
    line = {"benchmark": benchmark, "ratios": rounded, "targets": dict(targets)}
    print(json.dumps(line | ({"since": since} if since else {})), flush=True)


def skip(benchmark: str, lacks: str) -> None:
    """Print that a benchmark cannot be run here, so that what was measured elsewhere stays."""
    print(json.dumps({"benchmark": benchmark, "skipped": lacks}), flush=True)


def _each(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]


def _number(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _rounded(value: Any) -> Any:
    """Return what JSON holds of a figure: six digits, and null for what never came."""
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        return [_rounded(one) for one in value]
    return float(f"{value:.6g}") if math.isfinite(value) else None

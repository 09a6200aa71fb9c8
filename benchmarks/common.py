"""What every benchmark shares: both sides measured in one run, in turn, and one line of JSON at the end."""

from __future__ import annotations

import json
import operator
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

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


def verdict(value: float, target: str) -> str:
    """Return `"met"` or `"missed"` for a target such as `"<= 1.10"`."""
    sign, bound = target.split()
    return "met" if _COMPARE[sign](value, float(bound)) else "missed"


def commit() -> str:
    """Return the commit that is measured, marked if the tree has changes."""

    def git(*words: str) -> str:
        here = Path(__file__).resolve().parent
        return subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=False).stdout.strip()

    return git("rev-parse", "--short=10", "HEAD") + (
        " with uncommitted changes" if git("status", "--porcelain", "--untracked-files=no") else ""
    )


def report(benchmark: str, ratios: Mapping[str, float], targets: Mapping[str, str]) -> None:
    """Print one row a ratio, then the line of JSON that `make bench` collects."""
    for key, value in ratios.items():
        target = targets.get(key)
        said = f"   target {target}: {verdict(value, target)}" if target else ""
        print(f"{key:<44} {value:10.4g}{said}")
    rounded = {key: float(f"{value:.6g}") for key, value in ratios.items()}
    print(json.dumps({"benchmark": benchmark, "ratios": rounded, "targets": dict(targets)}), flush=True)

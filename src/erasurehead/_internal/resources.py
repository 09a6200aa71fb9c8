"""Limits of memory and time, checked before either is used; and how many cores this process may use."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from erasurehead.errors import DataError, InvalidArgument

MEMORY = "ERASUREHEAD_MEMORY"
"""The environment variable that limits the memory to use: bytes (8e9), or a share of the free memory (90%)."""

SECONDS = "ERASUREHEAD_SECONDS"
"""The environment variable that limits the estimated time spent on examining one code or model, in seconds (300)."""

_SHARE = 0.9
_SECONDS = 300.0
_CGROUP = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")
_CPU = ("cpu", "cpu,cpuacct", "cpuacct,cpu")  # where version 1 has the controller of processors


class TooLarge(DataError, MemoryError):
    """More memory or time is needed than allowed: the message states both amounts."""


def check_memory(what: str, n_bytes: float, hint: str = "") -> None:
    """Raise if something needs more memory than allowed.

    Arguments:
        what: what needs it, as the subject of a sentence.
        n_bytes: a lower estimate of the memory needed, in bytes.
        hint: what would need less, as a sentence without a full stop.

    Raises:
        TooLarge: naming both amounts.
    """
    allowed = allowed_memory()
    if n_bytes > allowed:
        raise TooLarge(
            f"{what} needs about {_gigabytes(n_bytes)} of memory, and {_gigabytes(allowed)} may be taken "
            f"({MEMORY}){f'; {hint}' if hint else ''}."
        )


def check_seconds(what: str, seconds: float, hint: str = "") -> None:
    """Raise if something would take longer, by estimate, than allowed.

    Arguments:
        what: what takes it, as the subject of a sentence.
        seconds: the estimated time, in seconds.
        hint: what would take less, as a sentence without a full stop.

    Raises:
        TooLarge: naming both times.
    """
    allowed = _number(SECONDS, os.environ.get(SECONDS, str(_SECONDS)))
    if seconds > allowed:
        raise TooLarge(
            f"{what} would take about {seconds:,.0f} seconds, and {allowed:,.0f} are allowed "
            f"({SECONDS}){f'; {hint}' if hint else ''}."
        )


def allowed_memory() -> float:
    """Return how many bytes may be used: by the setting, or nine tenths of the free memory by default."""
    text = os.environ.get(MEMORY, f"{_SHARE:.0%}").strip()
    if text.endswith("%"):
        return _number(MEMORY, text[:-1], text) / 100 * free_memory()
    return _number(MEMORY, text)


def free_memory() -> float:
    """Return how many bytes this process can still get, by the limits of the system, its control group and its own."""
    return min(_of_system(), _of_group(), _of_process())


def _of_system() -> float:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (OSError, ValueError):
        return float("inf")


def _of_group() -> float:
    try:
        most = (_CGROUP / "memory.max").read_text(encoding="ascii").strip()
        used = int((_CGROUP / "memory.current").read_text(encoding="ascii"))
        cached = dict(line.split() for line in (_CGROUP / "memory.stat").read_text(encoding="ascii").splitlines())
        return float("inf") if most == "max" else float(int(most) - used + int(cached.get("inactive_file", 0)))
    except (OSError, ValueError):
        return float("inf")


def _of_process() -> float:
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    return float("inf") if most == resource.RLIM_INFINITY else float(most)


def usable_cores() -> int:
    """Return how many cores this process may keep busy: those it may run on, as far as its control groups pay for them.

    A quota of two and a half cores counts as two, and less than one as one.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(min([float(allowed), *_quotas()])))


def control_groups(*controllers: str) -> Iterator[Path]:
    """Yield the folder of each control group of this process, from its own to the root, of either version.

    Arguments:
        controllers: what the controller that is looked for may be called in version 1.
    """
    with contextlib.suppress(OSError, ValueError):
        for line in _OWN_GROUPS.read_text(encoding="utf-8").splitlines():
            _, named, path = line.split(":", 2)
            if named and named not in controllers:
                continue
            own = PurePosixPath(path.lstrip("/"))
            for root in map(_CGROUP.__truediv__, controllers if named else ("", "unified")):
                yield from (root / above for above in (own, *own.parents))


def _quotas() -> Iterator[float]:
    """Yield the cores that each control group above this process pays for, in versions 1 and 2 of control groups.

    In a container the root is often its own group, whatever `_OWN_GROUPS` calls it: that is read, too.
    """
    for place in {_CGROUP, *(_CGROUP / name for name in _CPU), *control_groups(*_CPU)}:
        with contextlib.suppress(OSError, ValueError):
            quota, period = (place / "cpu.max").read_text(encoding="ascii").split()
            yield int(quota) / int(period)  # "max" is no number, and no limit
        with contextlib.suppress(OSError, ValueError):
            limit = int((place / "cpu.cfs_quota_us").read_text(encoding="ascii"))
            if limit > 0:  # -1 stands for no limit
                yield limit / int((place / "cpu.cfs_period_us").read_text(encoding="ascii"))


def _number(setting: str, text: str, typed: str = "") -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not number > 0.0:
        raise InvalidArgument(setting, "must be a number above 0", typed or text)
    return number


def _gigabytes(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:,.1f} MB"

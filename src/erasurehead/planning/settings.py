"""Which settings a plan tries: schemes as they are written in run files."""

from __future__ import annotations

from collections.abc import Iterable

from erasurehead.errors import check_count
from erasurehead.schemes.named import adaptive

_LOADS = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20)
_SHARES = (0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
_CYCLIC_WORKERS = 100  # up to so many workers cyclic codes are decoded quickly enough to be tried


def default_settings(n_workers: int, max_load: int = 10) -> tuple[str, ...]:
    """Return the schemes worth trying for so many workers, uncoded first; about 150 for 30 workers and load 10.

    Uncoded, with and without ignoring stragglers; exact repetition codes, and cyclic ones up to 100 workers; and
    ErasureHead, rescaled by coverage, with every load and share of workers of a grid.

    Arguments:
        n_workers: how many, at least 1.
        max_load: most tasks a worker may hold, at least 1: memory and data transfer grow with it.
    """
    check_count("n_workers", n_workers)
    check_count("max_load", max_load)
    waits = sorted({round(share * n_workers) for share in _SHARES} & set(range(1, n_workers)))
    loads = [load for load in _LOADS if load <= min(max_load, n_workers)]
    texts = ["uncoded()", *(f"ignore_stragglers(wait_for={wait})" for wait in waits)]
    for load in loads:
        texts.append(f"exact(load={load})")
        if n_workers <= _CYCLIC_WORKERS and load <= 5:
            texts.append(f"exact(load={load}, code='cyclic')")
        texts.extend(f"erasurehead(load={load}, wait_for={wait})" for wait in _useful(waits, n_workers, load))
    return tuple(texts)


def adaptive_settings(n_workers: int, max_load: int = 10) -> tuple[str, ...]:
    """Return `adaptive`, what `erasurehead train` does where nothing is said, with every load worth trying.

    Loads that come to the same groups of workers, as 6 and 8 of 12 workers do, are one setting. They bring an optimizer
    of their own, whose steps only data can tell: `race` takes them with it.

    Arguments:
        n_workers, max_load: as of `default_settings`.
    """
    check_count("n_workers", n_workers)
    check_count("max_load", max_load)
    by_load: dict[int, str] = {}
    for load in (1, *_LOADS):
        if load <= min(max_load, n_workers):
            by_load.setdefault(adaptive(n_workers, load).code.load, _adaptive(load))
    return tuple(by_load.values())


def usual_setting(n_workers: int) -> str:
    """Return what `erasurehead train` does where nothing is said, written as `adaptive_settings` writes it.

    Arguments:
        n_workers: how many, at least 1.
    """
    return _adaptive(adaptive(n_workers).code.load)


def _adaptive(load: int) -> str:
    return f"adaptive(load={load})"


def _useful(waits: Iterable[int], n_workers: int, load: int) -> list[int]:
    # Whoever waits for all but load - 1 workers has the full gradient: the exact code does the same.
    return [wait for wait in waits if wait <= n_workers - load]

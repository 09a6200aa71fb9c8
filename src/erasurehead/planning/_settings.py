"""The settings that a plan tries: schemes, written as in run files."""

from __future__ import annotations

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.delays import Bootstrap, Delays
from erasurehead.errors import check_count, check_size
from erasurehead.schemes import adaptive

_LOADS = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20)
_SHARES = (0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
_SEVERAL_MESSAGES = 5  # largest load for which a message per task is tried: there are as many times more messages
_CYCLIC_WORKERS = 100  # largest number of workers for which decoding cyclic codes is fast enough to try them


_LOOKED_AT = 256  # steps from which speeds are read
_PAYS = 0.95  # of a step with equal shares, up to which shares by speed must shorten it


def default_settings(n_workers: int, max_load: int = 10, delays: Delays | None = None) -> tuple[str, ...]:
    """Return the schemes worth trying for a number of workers, uncoded first; about 150 for 30 workers and load 10.

    They are uncoded training, with and without ignoring stragglers; exact repetition codes, and cyclic ones for up to
    100 workers; and ErasureHead, rescaled by coverage, over a grid of loads and shares of workers to wait for.

    Arguments:
        n_workers: number of workers, at least 1.
        max_load: most tasks that a worker may hold, at least 1; memory and data transfer grow with it.
        delays: if they grow with the work of a message, tasks that are computed once are tried as well, and shares by
            speed where workers differ; if some workers do not answer in some steps, nested codes.
    """
    check_size("n_workers", n_workers)
    check_count("max_load", max_load)
    waits = sorted({round(share * n_workers) for share in _SHARES} & set(range(1, n_workers)))
    loads = [load for load in _LOADS if load <= min(max_load, n_workers)]
    texts = ["uncoded()", *(f"ignore_stragglers(wait_for={wait})" for wait in waits)]
    for load in loads:
        texts.append(f"exact(load={load})")
        if n_workers <= _CYCLIC_WORKERS and load <= 5:
            texts.append(f"exact(load={load}, code='cyclic')")
        # Waiting for all but load - 1 workers gives the full gradient, which is what the exact code does.
        texts.extend(f"erasurehead(load={load}, wait_for={wait})" for wait in waits if wait <= n_workers - load)
    if delays is not None and _grow_with_load(delays, n_workers):
        few = [load for load in loads if load <= _SEVERAL_MESSAGES]
        texts += [f"compute_once(load={load})" for load in few]
        if speeds := _speeds(delays, n_workers):
            texts += [f"uncoded({speeds})", *(f"exact(load={load}, {speeds})" for load in few)]
    if delays is not None and n_workers <= _CYCLIC_WORKERS and not np.isfinite(_looked_at(delays, n_workers)).all():
        texts += [f"nested(load={load})" for load in loads if load > 1]
    return tuple(texts)


def _looked_at(delays: Delays, n_workers: int) -> Array:
    """Return the first rounds; those of a trace in their own order, each once."""
    if isinstance(delays, Bootstrap) and delays.keep != "pooled":
        return delays.table[:_LOOKED_AT, :n_workers]
    return delays.rows(0, _LOOKED_AT, n_workers)


def _speeds(delays: Delays, n_workers: int) -> str:
    """Return the argument that tells a scheme how fast workers are; empty if shares by speed would not last.

    Machines that are slow for a while differ in any trace: the speeds that they had in either half of the rounds must
    shorten the steps of the other.
    """
    times = _looked_at(delays, n_workers)
    if len(times) < 2 or not (np.isfinite(times).all() and times.max(axis=0).min() > 0.0):
        return ""
    halves = np.array_split(times, 2)
    for seen, other in (halves, halves[::-1]):
        shares = 1.0 / np.maximum(seen.mean(axis=0), 1e-300)
        if (other * (shares / shares.mean())).max(axis=1).mean() > _PAYS * other.max(axis=1).mean():
            return ""
    means = times.mean(axis=0)
    return f"speeds=[{', '.join(f'{speed:.2g}' for speed in means.max() / means)}]"


def adaptive_settings(n_workers: int, max_load: int = 10, delays: Delays | None = None) -> tuple[str, ...]:
    """Return `adaptive`, the default of `erasurehead train`, with every load worth trying.

    Loads that give the same groups of workers, such as 6 and 8 with 12 workers, are listed once. These settings use
    their own optimizer, and how many steps it needs can only be measured on data: `race` does so.

    Arguments:
        n_workers, max_load: as in `default_settings`.
        delays: if they grow with the work of a message, a message per task is tried as well.
    """
    check_size("n_workers", n_workers)
    check_count("max_load", max_load)
    by_load: dict[int, str] = {}
    for load in (1, *_LOADS):
        if load <= min(max_load, n_workers):
            by_load.setdefault(adaptive(n_workers, load).code.load, _adaptive(load))
    if delays is None or not _grow_with_load(delays, n_workers):
        return tuple(by_load.values())
    loads = [load for load in _LOADS if load <= min(max_load, n_workers, _SEVERAL_MESSAGES)]
    return *by_load.values(), *(f"adaptive(load={load}, multi_message=True)" for load in loads)


def _grow_with_load(delays: Delays, n_workers: int) -> bool:
    """Return whether a message that combines more tasks is later, by the first steps."""
    one, two = (delays.rows(0, 32, n_workers, work=work) for work in (1.0, 2.0))
    return bool(np.any(two > one))


def usual_setting(n_workers: int) -> str:
    """Return the default setting of `erasurehead train`, written as `adaptive_settings` writes it.

    Arguments:
        n_workers: number of workers, at least 1.
    """
    return _adaptive(adaptive(n_workers).code.load)


def _adaptive(load: int) -> str:
    return f"adaptive(load={load})"

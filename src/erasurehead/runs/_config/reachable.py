"""Whether a wait rule can be met, according to the delays, before a run begins."""

from __future__ import annotations

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray
from erasurehead._internal.late_work import rounds_kept
from erasurehead.delays import Delays
from erasurehead.delays._base import check_rows
from erasurehead.delays._fixed import Recorded
from erasurehead.errors import InvalidArgument, invalid
from erasurehead.runs._config.sections import DelaysSection
from erasurehead.schemes import Scheme

_BLOCK = 4096  # number of steps whose delays are examined at once, fewer if there are many workers
_HELD = 1 << 22  # number of delays examined at once, unless a single step has more
_AHEAD = 100_000  # most steps whose delays are examined before a run begins; later ones are seen when they come
_DRAWN = 1 << 24  # most delays that are drawn for that, unless a single step has more


def check_reachable(scheme: Scheme, model: Delays, section: DelaysSection, steps: int) -> None:
    """Raise if, according to the delay model, too few workers ever answer in some step to meet the wait rule.

    Of a long run the first steps are examined: a wait rule that cannot be met later ends the run when it comes to that.

    Raises:
        InvalidArgument: if so; the error names the first such step and its workers.
    """
    code = scheme.code
    if isinstance(model, Recorded) and model.script is not None:  # a replay, whose code was resized where need was
        return
    try:
        model.check_workers(code.n_workers)
    except InvalidArgument as error:
        raise error.inside("delays.model", str(model)) from None
    free = np.zeros(code.n_workers)
    block = min(_BLOCK, max(1, _HELD // code.n_workers))
    ahead = min(steps, _AHEAD, max(1, _DRAWN // code.n_workers))
    for first in range(0, ahead, block):
        count = min(block, ahead - first)
        silent = np.isinf(check_rows(model, model.rows(first, count, code.n_workers), first, count, code.n_workers))
        silent, free = who_is_silent(silent, first, free, rounds_kept(section.late))
        _, place = np.unique(np.packbits(silent, axis=1), axis=0, return_index=True)
        times = np.where(silent[place][:, code.owner], np.inf, 0.0)
        never = place[np.isinf(scheme.rule.stop_times(times, scheme.decoder))]
        if len(never):
            step = int(never.min())
            workers = np.flatnonzero(silent[step]).tolist()
            raise invalid(
                "delays.model",
                f"must let {scheme.name} meet its wait rule {scheme.rule}, which it does not when workers {workers} "
                f"never answer (step {first + step})",
                str(model),
                "a larger load tolerates more stragglers, and a rule such as first(r) or deadline(s) does not "
                "wait for them",
            )


def who_is_silent(never: BoolArray, first: int, free: Array, kept: float) -> tuple[BoolArray, Array]:
    """Return which workers are silent in each of some steps, given which would never finish them.

    Arguments:
        never: whether a worker that begins on a step never finishes it, shape (steps, workers).
        first: the first of these steps.
        free: for each worker, the first step at which it is done with earlier ones.
        kept: age in rounds at which a worker drops old work.

    Returns:
        Which workers are silent, shaped as `never`; and `free` after these steps.
    """
    if not kept or not (never.any() or (free > first).any()):
        return never, free
    silent = never.copy()
    for row, stuck in enumerate(never):
        step = first + row
        free = np.where(stuck & (free <= step), step + kept + 1.0, free)
        silent[row] = free > step
    return silent, free

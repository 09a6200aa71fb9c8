"""Steps along gradients that are not exact, so that no objective can tell how long they may be."""

from __future__ import annotations

import math
from typing import final

from erasurehead._internal.arrays import Array, product
from erasurehead._internal.resumable import Resumable


@final
class InexactSteps(Resumable):
    """Steps of the length that a bound on the curvature allows, and shorter where gradients are noise.

    The bound holds for samples with similar numbers of entries, and there may be none: therefore these steps get
    shorter whenever the gradient, measured in the scaling, gets longer than at the step before. With q its squared
    length in that scaling, the step length is 1 / sqrt(1 + (the sum of all increases of q) / (the first q)), after
    AdaGrad (Duchi, Hazan and Singer, 2011): 1 where q only falls, like 1 / sqrt(step) where it is noise, and never
    longer than the first step, in the scaling, so that no model runs away.
    """

    checkpointed = ("_lengths",)

    def __init__(self) -> None:
        self._lengths: tuple[float, float, float] | None = None  # of gradients: first, last, and sum of rises

    def move(self, x: Array, uphill: Array, diagonal: Array | None, share: float) -> Array:
        """Return where a step leads.

        Arguments:
            x: the model, shape (n_parameters,).
            uphill: the gradient there, or the steepest subgradient, shape (n_parameters,).
            diagonal: a bound on the curvature along each parameter, shape (n_parameters,); None if there is none.
            share: the fraction of a step that this gradient is worth, in (0, 1].
        """
        move = uphill if diagonal is None else uphill / diagonal
        length = product(uphill, move)
        first, last, rises = self._lengths or (length, length, 0.0)
        first = first or length  # 0 while there was nothing to gain
        rises += max(0.0, length - last)
        self._lengths = first, length, rises
        step = share / math.sqrt(1.0 + rises / first) if first else 0.0
        if diagonal is None and first:
            step /= math.sqrt(first)  # the first one is of length 1
        return x - step * move

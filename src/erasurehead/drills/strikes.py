"""What happens to one life: who is killed, and at which moment. It is plain data, drawn from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self, TypeAlias, get_args

import numpy as np

Who: TypeAlias = Literal["workers", "coordinator", "both"]
Moment: TypeAlias = Literal["start", "middle", "writing"]

_MOST_WORKERS = 3  # that are killed at once, but for all of them at the start


@dataclass(frozen=True)
class Strike:
    """Kills of one life.

    Arguments:
        who: is killed.
        moment: at the start, in the middle of a step, or while files are written.
        workers: which of them; empty if it is only the coordinator.
        step: at which it happens, of those in the middle and while files are written.
        share: how far the start, or the writing of files, has come: 0 to 1.
    """

    who: Who
    moment: Moment
    workers: tuple[int, ...]
    step: int
    share: float

    @classmethod
    def drawn(cls, seed: int, life: int, workers: int, steps: int) -> Self:
        """Draw a strike; of nine lives that follow each other, each does another of the nine kinds.

        >>> [Strike.drawn(0, life, workers=6, steps=20).moment for life in range(3)]
        ['start', 'middle', 'writing']
        """
        rng = np.random.default_rng([seed, life, workers])
        moments, whom = get_args(Moment), get_args(Who)
        moment, who = moments[life % len(moments)], whom[life // len(moments) % len(whom)]
        most = workers if moment == "start" and rng.random() < 0.3 else min(_MOST_WORKERS, workers)
        least = most if most == workers else 1
        count = int(rng.integers(least, most + 1))
        struck: list[int] = [] if who == "coordinator" else rng.choice(workers, count, replace=False).tolist()
        return cls(who, moment, tuple(sorted(struck)), int(rng.integers(1, steps - 1)), float(rng.random()))

    def __str__(self) -> str:
        whom = f"worker{'s' * (len(self.workers) > 1)} {', '.join(map(str, self.workers))}"
        said = {"workers": whom, "coordinator": "the coordinator", "both": f"the coordinator and {whom}"}[self.who]
        at = "at the start" if self.moment == "start" else f"in step {self.step}"
        return f"{said} killed {at}{', while files were written' * (self.moment == 'writing')}"

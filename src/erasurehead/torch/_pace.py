"""Whether a rank's steps take as long as the others', so that it costs next to nothing to meet them at each."""

from __future__ import annotations

from collections import deque
from typing import final

_STEPS = 32  # that must have been alike, as far as there are so many
_LEAST = 8  # of which there must be to tell, the first one included, which takes as long as it likes
_APART = 0.5  # of a step: what lasts differ by more is not alike, and nobody waits for longer


@final
class Pace:
    """How long a rank's last steps took, and how many versions of the team's model came in them."""

    def __init__(self) -> None:
        self._steps: deque[tuple[float, int]] = deque(maxlen=_STEPS)
        self._made = 0

    def add(self, seconds: float, version: int) -> None:
        """Note how long a step took, and the newest version at its end."""
        if self._made == 1:
            self._steps.clear()
        self._made += 1
        self._steps.append((seconds, version))

    @property
    def patience(self) -> float:
        """How many seconds to wait for the others at most: twice as many as own steps differ by; 0 if not in step.

        As many versions come in its steps as it makes, unless others are faster or slower. First steps, in which
        moments are made of little, wait for half of one.
        """
        lasts = [seconds for seconds, _ in self._steps]
        most = _APART * sum(lasts) / len(lasts)
        if self._made <= _LEAST:
            return most
        apart, came = max(lasts) - min(lasts), self._steps[-1][1] - self._steps[0][1]
        return min(2.0 * apart, most) if apart <= most and abs(came - len(lasts) + 1) <= 1 else 0.0

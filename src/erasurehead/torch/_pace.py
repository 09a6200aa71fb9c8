"""Whether a rank's steps take as long as the others', so that it costs next to nothing to meet them at each."""

from __future__ import annotations

from collections import deque
from typing import final

_STEPS = 32  # that must have been alike, as far as there are so many
_LEAST = 4  # of which there must be, beside the first one, which takes as long as it likes
_APART = 0.5  # of a step: what lasts differ by more is not alike, and nobody waits for longer


@final
class Pace:
    """How long a rank's last steps took, and how many versions of the team's model came in them."""

    def __init__(self) -> None:
        self._steps: deque[tuple[float, int]] = deque(maxlen=_STEPS)
        self._begun = False

    def add(self, seconds: float, version: int) -> None:
        """Note how long a step took, and the newest version at its end."""
        if self._begun:
            self._steps.append((seconds, version))
        self._begun = True

    @property
    def patience(self) -> float:
        """How many seconds to wait for the others at most: twice as many as own steps differ by; 0 if not in step.

        As many versions come in its steps as it makes, unless others are faster or slower.
        """
        lasts = [seconds for seconds, _ in self._steps]
        if len(lasts) < _LEAST or abs(self._steps[-1][1] - self._steps[0][1] - len(lasts) + 1) > 1:
            return 0.0
        apart, most = max(lasts) - min(lasts), _APART * sum(lasts) / len(lasts)
        return min(2.0 * apart, most) if apart <= most else 0.0

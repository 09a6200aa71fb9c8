"""When a method that lowers the objective step by step has nothing to gain any more."""

from __future__ import annotations

import math
from typing import final

from erasurehead._internal.resumable import Resumable

_NOTHING = 1e-12  # of the objective: what a step may promise when there is nothing to gain any more
_ROUNDING = 1e-28  # of the objective: what steps promise whose gradient is nothing but rounding
_CALM = 5  # such steps that end a run
_STEADY = 3  # steps in a row that promised no more than the one before, after which a short gradient may be the end
_STEADY_AGAIN = 10  # likewise, once the memory has been dropped
_STEADY_FAR = 12  # likewise, where the first gradient was long only because the first model was far off
_FAR = 1e-6  # of the greatest objective so far: below it the first model was far off
_IDLE = 30  # steps in a row that have not lowered the objective, after which a short gradient is the end in any case
_SAME = 1e-6  # of the objective: by how much it may be lower once there is nothing to gain for the second time


@final
class NothingToGain(Resumable):
    """Decides by what steps promise whether there is anything left to gain.

    What a step promises (minus the slope along it) is as good as the curvatures that its direction was made with. Where
    columns are nearly collinear, as those far from 0 are beside a column of ones, a scaling of each column by itself
    takes every direction for a steep one: then short steps promise nothing, far above the minimum. Therefore there is
    nothing to gain after five steps that promised less than 1e-12 of the objective, if in all that time

    - the objective bent along each step: otherwise steps are too short, and have to be lengthened,
    - none promised more than that, and those that promised more than the step before are not counted: while promises
      rise, curvatures are still being found; unless they are so small that the gradient can only be rounding.

    Where some direction bends 1e8 times less than another, rounding may have spoilt what was learnt of it. Then the
    memory has to be dropped, and the same has to be found again.

    A gradient that is short beside the first one is no end by itself where the objective has fallen a million times:
    with targets far from 0 that one was as long as they are, and what is left may hide all that there is to gain.
    Rounding may then be more than 1e-12 of the objective: a short gradient is the end, too, after thirty steps in a row
    that have not lowered the objective by as much in all.
    """

    checkpointed = ("_promise", "_calm", "_steady", "_claimed", "_asked", "_greatest", "_value", "_lowest", "_idle")

    def __init__(self) -> None:
        self._promise = math.inf  # of the last step
        self._calm = 0  # steps that promised nothing, and no more than the one before
        self._steady = 0  # steps in a row that promised no more than the one before
        self._claimed = math.inf  # the objective when there was nothing to gain for the first time
        self._asked = False  # whether the gradient is so short that this has to be found again
        self._greatest = 0.0  # the greatest objective so far
        self._value = math.inf  # the newest one
        self._lowest = math.inf  # the objective when a step lowered it for the last time
        self._idle = 0  # steps since then

    def hear(self, promise: float, value: float, bent: bool) -> None:
        """Take note of a step that begins.

        Arguments:
            promise: minus the slope along the step.
            value: the objective where it begins.
            bent: whether the objective bent along the step before, or there was none.
        """
        nothing, steady = self.nothing(promise, value), bent and promise <= self._promise
        noise = promise <= _ROUNDING * abs(value)
        self._calm = 0 if not (nothing and bent) else self._calm + (steady or noise)
        self._steady = self._steady + 1 if steady else 0
        self._promise, self._value, self._greatest = promise, value, max(self._greatest, value)
        self._idle += 1
        if value < self._lowest - _NOTHING * abs(value):
            self._lowest, self._idle = value, 0

    @staticmethod
    def nothing(promise: float, value: float) -> bool:
        """Return whether a step promises nothing that could be seen in the objective."""
        return promise <= _NOTHING * abs(value)

    @property
    def calm(self) -> bool:
        """Whether the first of these steps has been seen."""
        return self._calm > 0

    @property
    def found(self) -> bool:
        """Whether there is nothing to gain."""
        return self._calm >= _CALM

    @property
    def again(self) -> bool:
        """Whether it is to be found again, with a new memory, that there is nothing to gain."""
        return self.found or self._asked

    def confirm(self, flat: bool) -> bool:
        """Return whether a gradient that is short beside the first one is the end; if in doubt, have it found again.

        It is, unless one of the last three steps speaks against it; of the last twelve, if the first model was far off.

        Arguments:
            flat: whether the objective hardly bends in some direction.
        """
        claimed = self._claimed < math.inf
        wanted = _STEADY_AGAIN if claimed else _STEADY
        far = self._value < _FAR * self._greatest
        if self._steady < (_STEADY_FAR if far else wanted) and self._idle < _IDLE:
            return False
        self._asked = flat and not claimed
        return not self._asked

    def look_again(self, value: float) -> bool:
        """Return whether it has to be found again, with a new memory, that there is nothing to gain; begin with that.

        Arguments:
            value: the objective.
        """
        self._asked = False
        if value > self._claimed - _SAME * abs(value):
            return False
        self.claim(value)
        return True

    def found_again(self, promise: float, value: float) -> bool:
        """Return whether a step that promised nothing has failed where the memory was dropped before.

        Arguments:
            promise: minus the slope along the step.
            value: the objective where it began.
        """
        return self.nothing(promise, value) and value >= self._claimed - _NOTHING * abs(value)

    def claim(self, value: float) -> None:
        """Begin to look again whether there is anything to gain, since the memory is dropped here.

        Arguments:
            value: the objective.
        """
        self.forget()
        self._claimed = value

    def forget(self) -> None:
        """Begin to count anew."""
        self._promise, self._calm, self._steady, self._asked = math.inf, 0, 0, False
        self._lowest, self._idle = math.inf, 0

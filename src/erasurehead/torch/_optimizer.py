"""The user's optimizer within a team: to loops and schedulers the same; a step meets the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, final

from torch.optim import Optimizer

Closure: TypeAlias = Callable[[], float]


@final
class TeamOptimizer(Optimizer):
    """An optimizer whose steps are a team's: all that is not said here is the wrapped optimizer's.

    Made by `Team.optimizer`.

    Attributes:
        inner: the wrapped optimizer, which only this rank's steps go to.
        steps: number of steps that this rank has made.
    """

    _step_supports_amp_scaling = False  # a scaler divides the gradients itself, before the step

    def __init__(self, inner: Optimizer, meet: Callable[[Closure | None], float | None]) -> None:
        self.inner, self.steps, self._meet = inner, 0, meet  # all else is the wrapped one's: the base makes nothing

    # What the wrapped optimizer has

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inner.param_groups

    @property
    def state(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inner.state

    @property
    def defaults(self) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inner.defaults

    def __getattribute__(self, name: str) -> Any:
        if name in _INNER:
            return getattr(object.__getattribute__(self, "inner"), name)
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        if name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __repr__(self) -> str:
        return f"team's {self.inner!r}"

    # The step

    def step(self, closure: Closure | None = None) -> float | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Make this rank's step, and go on from the team's newest model."""
        result = self._meet(closure)
        self.steps += 1
        return result


_INNER = frozenset(
    name
    for name in vars(Optimizer)
    if not name.startswith("__") and name not in ("step", "param_groups", "state", "defaults")
)
"""Methods of an optimizer that go to the wrapped one, hooks included."""

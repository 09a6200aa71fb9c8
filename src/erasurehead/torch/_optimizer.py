"""The user's optimizer within a team: to loops and schedulers the same; a step meets the others."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from typing import Any, TypeAlias, final

from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from erasurehead.errors import InvalidArgument, invalid
from erasurehead.torch._place import current_place

logger = logging.getLogger("erasurehead")

Closure: TypeAlias = Callable[[], float]


def later_group() -> InvalidArgument:
    """Return the error where an optimizer has more parameters than ranks send each other."""
    return invalid(
        "param_group",
        "must be given to the optimizer before Team.optimizer",
        "a group that came later",
        "what ranks send each other is agreed on there",
    )


@final
class TeamOptimizer(Optimizer):
    """An optimizer whose steps are a team's: all that is not said here is the wrapped optimizer's.

    Made by `Team.optimizer`.

    Attributes:
        inner: the wrapped optimizer, which only this rank's steps go to.
        steps: number of steps that this rank has made.
    """

    _step_supports_amp_scaling = False  # a scaler divides the gradients itself, before the step

    def __init__(self, inner: Optimizer, meet: Callable[[Closure | None], float | None], alone: bool) -> None:
        self.inner, self.steps = inner, 0  # all else is the wrapped one's: the base makes nothing
        self._meet, self._alone = meet, alone
        self._inside = False
        self._script = current_place()
        self._noticed: set[int] = set()
        if not alone:
            _watched.add(self)

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

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if self._alone:
            self.inner.add_param_group(param_group)
        else:
            raise later_group()

    def __repr__(self) -> str:
        return f"team's {self.inner!r}"

    def __reduce_ex__(self, _: object) -> tuple[Any, ...]:
        return _as_it_is, (self.inner,)  # a copy, or what is read from a file, is in no team

    # The step

    def own_step(self, closure: Closure | None = None) -> float | None:
        """Make a step of the wrapped optimizer; anybody else's would be this rank's alone, which nobody would see."""
        self._inside = True
        try:
            return self.inner.step() if closure is None else self.inner.step(closure)
        finally:
            self._inside = False

    def close(self) -> None:
        """Let the script make any steps from now on: the team has ended."""
        _watched.discard(self)

    def notice(self, other: Optimizer) -> None:
        """Refuse a step that changes the team's parameters in this rank alone; say once that one changes others."""
        if self._inside or current_place() is not self._script or id(other) in self._noticed:
            return
        theirs = [parameter for group in other.param_groups for parameter in group["params"]]
        if not {id(parameter) for group in self.param_groups for parameter in group["params"]}.isdisjoint(
            map(id, theirs)
        ):
            own = "the optimizer that Team.optimizer was given"
            raise invalid(
                "optimizer",
                "must make its steps within the team",
                f"a step of {own if other is self.inner else 'another one with parameters of the team'}",
                "call step() of the one that Team.optimizer returned",
            )
        self._noticed.add(id(other))
        logger.warning(
            "An optimizer that Team.optimizer was not given (%s) trains %s tensors of parameters in this rank alone, "
            "and the others hear nothing of it. Give Team.optimizer one optimizer with all parameters, in groups with "
            "settings of their own, and nn.ModuleList of all models.",
            type(other).__name__,
            len(theirs),
        )

    def step(self, closure: Closure | None = None) -> float | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Make this rank's step, and go on from the team's newest model."""
        result = self._meet(closure)
        self.steps += 1
        return result


def _as_it_is(optimizer: Optimizer) -> Optimizer:
    return optimizer


_INNER = frozenset(name for name in vars(Optimizer) if not name.startswith("__") and name not in vars(TeamOptimizer))
"""Methods of an optimizer that go to the wrapped one, hooks included."""

_watched: weakref.WeakSet[TeamOptimizer] = weakref.WeakSet()


def _watch(optimizer: Optimizer, *_: object) -> None:
    """Let teams of this process know that an optimizer is about to make a step."""
    for own in tuple(_watched):
        own.notice(optimizer)


register_optimizer_step_pre_hook(_watch)

"""What moves the model: an optimizer is asked for an order, and told the estimate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.engines.base import Order
from erasurehead.errors import InvalidArgument, check_count, invalid
from erasurehead.problems.base import Problem
from erasurehead.problems.penalties import Penalty


@dataclass(frozen=True, eq=False)
class PartialGradient:
    """What one message that answers an order of kind `"early"` says of its tasks, without the penalty.

    Attributes:
        tasks: the message's tasks, ascending. Two parts have the same tasks, or none in common.
        share: fraction of all samples that belong to these tasks, by weight, in (0, 1].
        gradient: these tasks' summand of the gradient of the mean loss, shape (n_parameters,).
        curvature: their summand of the bound on the curvature along each parameter, shape (n_parameters,).
        entries: their summand of the mean number of entries in a sample that are not zero.
    """

    tasks: tuple[int, ...]
    share: float
    gradient: Array
    curvature: Array
    entries: float


class Optimizer(ABC):
    """What moves the model. It asks for a gradient with an order, and is told the estimate.

    Asking and telling are separate so that methods that need two points an order, or no step at all, fit the same loop.
    A class of your own writes `tell`; where it asks for more than the gradient at `x`, `ask`; where it keeps more than
    the model, `state` and `restore`; and where it can take a step back, `reject`.

    Arguments:
        x: the first model, shape (n_parameters,). Its type stays that of all models: float32 remains float32; numbers
            that are no floats become float64.

    Attributes:
        max_points: the most points that an order asks for.
        kinds: of the orders that it asks for; a scheme without a wait rule for one of them is refused before the start.
        x: the current model, shape (n_parameters,). Replaced at each step, never changed in place: orders in flight
            still refer to earlier ones.
        step: number of steps taken or skipped so far; every `tell` adds one.
        proximal: whether the method ends its moves with `landed`, as penalties with a sharp part need it.
        penalty: whose sharp part `landed` deals with; set by the training loop.
        share: of the step size, that the estimate is worth which is told next: less than 1 for old gradients of
            asynchronous training. Set by the training loop; `tell` heeds it.
        value: what came with the estimate that is told next: of a gradient order the objective at its point, as far as
            it was decoded; None where it is not known; inf, with no estimate, where vectors were not finite at a point
            that was only tried. Set by the training loop.
        exact: whether that estimate is the full gradient, and the value the objective. Set by the training loop.
        curvature: what came with the estimate of an order of kind `"curvature"`: a bound on the curvature along each
            parameter, shape (n_parameters,), without the penalty, and the mean number of a sample's entries (see
            `Shard.curvature`); None of other orders. Set by the training loop.
        early: whether orders of kind `"early"` may be asked for: the scheme has a rule for them, and workers that are
            late drop their work when a newer order is out, so that few arrivals come soon. Set by the training loop
            before `begin`.
        parts: what single messages brought that answered such an order; none of others. Set by the training loop.
        rejected: whether the point of the last estimate was only tried, and the model stays what it was before.
        remedy: what may help a model that diverges, as the end of a sentence.
    """

    proximal: ClassVar[bool] = False
    remedy: ClassVar[str] = "; take a smaller step size (rate)"
    max_points: ClassVar[int] = 1
    kinds: ClassVar[tuple[str, ...]] = ("gradient",)

    def __init__(self, x: Array) -> None:
        self.x = as_model(x)
        self.step: int = 0
        self.penalty: Penalty | None = None
        self.share = 1.0
        self.value: float | None = None
        self.exact = False
        self.curvature: tuple[Array, float] | None = None
        self.early = False
        self.parts: Sequence[PartialGradient] = ()
        self.rejected = False

    def begin(self, problem: Problem) -> None:
        """Take note of what is minimised; called once a run, before its first order and before `restore`.

        Arguments:
            problem: to be read for its penalty and its kind; its data are the workers'.
        """
        self.penalty = problem.regularizer

    @property
    def best(self) -> Array:
        """The model that there is now, shape (n_parameters,): by default the current one."""
        return self.x

    @property
    def known(self) -> Array:
        """The model to end with where that one is no better: its objective is known. By default it is the same.

        The training loop compares both, exactly, when the run is over.
        """
        return self.best

    @property
    def trying(self) -> bool:
        """Whether the point of the next order is only tried: the objective need not be finite there."""
        return False

    @property
    def converged(self) -> bool:
        """Whether the optimizer finds nothing to gain any more; training ends then."""
        return False

    @property
    def decision(self) -> Mapping[str, Any]:
        """What was decided when the last estimate was told, for the step's record: plain data by name."""
        return {}

    def ask(self) -> Order:
        """Return the order for the next step: at which points gradients are wanted."""
        return Order(step=self.step, points=(self.x,))

    @abstractmethod
    def tell(self, estimate: Array | None) -> None:
        """Move the model, and add one to `step`.

        Arguments:
            estimate: what the last order asked for, with the penalty, shape (n_parameters,), in at least float32; None
                if nothing is known: no step is to be taken then.
        """

    def reject(self) -> None:
        """Take the last step back: the model, and all that moved with it, is what it was before the last `tell`.

        The number of steps stays: what was asked is asked anew, as another step. Only one step can be taken back.

        Raises:
            InvalidArgument: if there is none, or this optimizer keeps none.
        """
        said = f"{type(self).__name__} cannot take a step back."
        raise InvalidArgument("optimizer", "must be one that keeps the step before", sentence=said)

    def landed(self, x: Array, rate: float) -> Array:
        """Return where a step along the gradients ends: at the proximal point of the penalty's sharp part, if any."""
        return x if self.penalty is None or not self.penalty.sharp else self.penalty.prox(x, rate)

    def state(self) -> dict[str, Any]:
        """Return all that `restore` needs to continue to the bit."""
        return {"x": self.x, "step": self.step}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self.x = as_model(state["x"])
        self.step = check_count("step", state["step"], at_least=0)


def as_model(x: Array) -> Array:
    """Return a copy of a model, with the type of its numbers if they are floats, else in float64.

    Raises:
        InvalidArgument: if it is no vector of finite numbers.
    """
    try:
        found = np.array(x)
        model = found if _is_float(found.dtype) else found.astype(np.float64)
    except (TypeError, ValueError):
        raise invalid("x", "must be a model of numbers, shape (n_parameters,)", x) from None
    if model.ndim != 1:
        raise invalid("the shape of x", "must be (n_parameters,)", model.shape)
    if not np.isfinite(model).all():
        raise invalid("x", "must be finite", "a model with NaN or infinity")
    return model


def _is_float(dtype: np.dtype[Any]) -> bool:
    return bool(np.issubdtype(dtype, np.floating)) or dtype.name == "bfloat16"

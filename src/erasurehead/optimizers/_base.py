"""What moves the model: the interface of optimizers, which are asked for an order and told the estimate."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.resumable import Resumable
from erasurehead.engines import Order
from erasurehead.errors import check_count, invalid
from erasurehead.problems import Penalty, Problem
from erasurehead.problems._penalties import ElasticNet

Early: TypeAlias = Literal["", "preempt", "carry"]
"""Whether orders of kind `"early"` may be asked for, and what late workers do with old work then: see
`Optimizer.begin`."""


@dataclass(frozen=True, eq=False)
class PartialGradient:
    """What one message says of its tasks, without the penalty, that answers an order of kind `"early"` or `"newton"`.

    Attributes:
        step: the step of that order.
        tasks: the message's tasks, ascending. Two parts have the same tasks, or none in common.
        share: fraction of all samples that belong to these tasks, by weight, in (0, 1].
        gradient: these tasks' summand of the gradient of the mean loss, shape (n_parameters,). For an order of kind
            `"newton"`, their Newton step (see `Shard.newton_step`), 0 for parameters that they do not touch.
        loss: their summand of the mean loss.
        curvature: their summand of the bound on the curvature along each parameter, shape (n_parameters,); None if the
            order did not ask for it.
        entries: their summand of the mean number of entries in a sample that are not zero; 0 if it did not.
        block: their summand of second derivatives between columns, perhaps with zeros behind it; None if it did not.
        own: a model that is better for these tasks, 0 for parameters that they do not touch, with their summands of the
            gradient and of the loss there; None if the order did not ask for it.
    """

    step: int
    tasks: tuple[int, ...]
    share: float
    gradient: Array
    loss: float
    curvature: Array | None = None
    entries: float = 0.0
    block: Array | None = None
    own: tuple[Array, Array, float] | None = None


@dataclass(frozen=True, eq=False)
class Answer:
    """What came of an order: all that an optimizer is told.

    Attributes:
        estimate: what the order asked for, with the penalty, shape (n_parameters,), in at least float32; None if
            nothing is known: the model must then stay where it is, unless parts say more.
        value: the objective that comes with the estimate: for a gradient order the objective at its point, as far as it
            was decoded; None where it is not known; inf, with no estimate, where vectors were not finite at a point
            that was only tried.
        exact: whether the estimate is the full gradient, and the value the objective.
        curvature: what comes with the estimate of an order of kind `"curvature"`: a bound on the curvature along each
            parameter, shape (n_parameters,), without the penalty, and the mean number of entries in a sample that are
            not zero (see `Shard.curvature`); None for other orders.
        block: second derivatives between columns, if the order asked for them (see `Shard.block`), else None.
        share: the fraction of the step size, in (0, 1], that the estimate is worth; less than 1 for old gradients in
            asynchronous training.
        parts: what each message said that answers an order of kind `"early"` or `"newton"`; empty for other orders.
        late_parts: what each message said that answered, late, an earlier order of this kind whose note asks for such
            answers (`LATE_PARTS`), if nothing newer had come of its tasks.
        waited: for how many seconds the workers were waited for.
        work_odds: how much likelier it seems that messages take the longer the more work is in them than that they
            have a time of their own, as on a slow network: the log of the odds; inf while too little is known.
        pace: for how many seconds a worker computes a gradient, as the messages in time said, the slowest of them; inf
            where none said, as few orders ask.
        took: how long workers were at the messages that came, late ones included, in seconds.
    """

    estimate: Array | None
    value: float | None = None
    exact: bool = False
    curvature: tuple[Array, float] | None = None
    block: Array | None = None
    share: float = 1.0
    parts: Sequence[PartialGradient] = ()
    late_parts: Sequence[PartialGradient] = ()
    waited: float = 0.0
    work_odds: float = math.inf
    pace: float = math.inf
    took: Sequence[float] = ()


class Optimizer(Resumable, ABC):
    """Moves the model: it is asked which gradient it wants (an order), and is told what came of it (an answer).

    Asking and telling are separate so that methods that need two points per order, or that skip a step, fit the same
    loop. A subclass must implement `tell`. It overrides `ask` if it needs more than the gradient at `x`, `state` and
    `restore` if it keeps more than the model.

    Arguments:
        x: the first model, shape (n_parameters,). All later models have its dtype: float32 remains float32; numbers
            that are not floats become float64.

    Attributes:
        max_points: the largest number of points that one order asks for.
        kinds: the kinds of orders that it asks for. If the scheme has no wait rule for one of them, the run does not
            start.
        x: the current model, shape (n_parameters,). Replaced at each step, never changed in place: orders in flight
            still refer to earlier ones.
        step: number of steps taken or skipped so far; every `tell` adds one.
        proximal: whether each move ends with `landed`, as penalties with a sharp part (such as l1) require.
        penalty: the problem's penalty, whose sharp part `landed` applies; none before `begin`.
        rejected: whether the point of the last estimate was only tried, and the model stays what it was before.
        remedy: a hint for a model that diverges, as the end of a sentence.
    """

    proximal: ClassVar[bool] = False
    remedy: ClassVar[str] = "; take a smaller step size (rate)"
    max_points: ClassVar[int] = 1
    kinds: ClassVar[tuple[str, ...]] = ("gradient",)

    checkpointed = ("x", "step")

    def __init__(self, x: Array) -> None:
        self.x = as_model(x)
        self.step: int = 0
        self.penalty: Penalty = ElasticNet()
        self.rejected = False

    def begin(self, problem: Problem, early: Early = "", lossy: bool = False) -> None:
        """Prepare for a problem. Called once per run, before the first order and before `restore`.

        Arguments:
            problem: what is minimised. Read its penalty and its kind; its data belong to the workers.
            early: whether orders of kind `"early"` may be asked for: `""` if not, because the scheme has no rule for
                them; else what late workers do with their old work. With `"preempt"` they drop it, and few arrivals
                come soon; with `"carry"` they finish it, and late answers to an order can be had whose note asks for
                them (`LATE_PARTS`).
            lossy: whether messages lose digits on their way, unless the note of an order asks for all of them
                (a note `"precise"`).
        """
        self.penalty = problem.regularizer

    @property
    def best(self) -> Array:
        """The best model so far, shape (n_parameters,): by default the current one."""
        return self.x

    @property
    def known(self) -> Array:
        """The best model whose objective is known, shape (n_parameters,): by default the same as `best`.

        When the run is over, the training loop evaluates both and returns the better one.
        """
        return self.best

    @property
    def trying(self) -> bool:
        """Whether the point of the next order is only tried: the objective need not be finite there."""
        return False

    @property
    def converged(self) -> bool:
        """Whether the optimizer has converged, so that training can end."""
        return False

    @property
    def unseen(self) -> Array | None:
        """Directions along which it could not tell how the objective bends, shape (count, n_parameters); or None."""
        return None

    def confirm(self) -> bool:
        """Return whether a gradient that is short beside the first one is the end; by default it always is.

        An optimizer that returns False can look whether there is more to gain in the steps that follow.
        """
        return True

    @property
    def decision(self) -> Mapping[str, Any]:
        """What the optimizer decided at the last estimate, as plain data for the step's record."""
        return {}

    def ask(self) -> Order:
        """Return the order for the next step: the points at which gradients are wanted."""
        return Order(step=self.step, points=(self.x,))

    @abstractmethod
    def tell(self, answer: Answer) -> None:
        """Move the model, and add one to `step`.

        Arguments:
            answer: what came of the last order. The simplest optimizers read its `estimate` alone.
        """

    def landed(self, x: Array, rate: float) -> Array:
        """Return where a step to x at this rate ends: at the proximal point of the penalty's sharp part, if any."""
        return self.penalty.prox(x, rate) if self.penalty.sharp else x

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self.x = as_model(self.x)
        self.step = check_count("step", self.step, at_least=0)


def as_model(x: Array) -> Array:
    """Return a copy of a model, in its own dtype if that is a floating-point type, else in float64.

    Raises:
        InvalidArgument: if it is not a vector of finite numbers.
    """
    try:
        copy = np.array(x)
        floating = copy.dtype.name == "bfloat16" or np.issubdtype(copy.dtype, np.floating)
        model = copy if floating else copy.astype(np.float64)
    except (TypeError, ValueError):
        raise invalid("x", "must be a model of numbers, shape (n_parameters,)", x) from None
    if model.ndim != 1:
        raise invalid("the shape of x", "must be (n_parameters,)", model.shape)
    if not np.isfinite(model).all():
        raise invalid("x", "must be finite", "a model with NaN or infinity")
    return model

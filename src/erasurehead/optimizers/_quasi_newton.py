"""A quasi-Newton method on exact gradients that chooses its step and its scaling itself: limited-memory BFGS."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array, product
from erasurehead.engines import Order
from erasurehead.engines._base import PRECISE
from erasurehead.errors import invalid
from erasurehead.optimizers._base import Answer, Early, Optimizer
from erasurehead.optimizers._few_arrivals import FewArrivals
from erasurehead.optimizers._inexact_steps import InexactSteps
from erasurehead.optimizers._lbfgs_memory import LBFGSMemory
from erasurehead.optimizers._line_search import LineSearch
from erasurehead.optimizers._local_newton import LocalNewton
from erasurehead.optimizers._nothing_to_gain import NothingToGain
from erasurehead.optimizers._order_kinds import CURVATURE, EARLY, NEWTON
from erasurehead.optimizers._scaling import penalty_curvature
from erasurehead.optimizers._sharp_steps import one_thread, sharp_step, sides, within_orthant
from erasurehead.problems import Problem

_PROBES = 3  # orders in a row that may stop early, and do not, after which whole gradients are asked for
_MOST_POOR = 3  # such steps in a row, after which gradients that lost digits on their way are taken to mislead


@final
class QuasiNewton(Optimizer):
    """Limited-memory BFGS whose diagonal scaling and step size are chosen as it runs: there is nothing to set.

    Each order asks for one exact gradient (except at first, see below), and brings the exact objective with it, so that
    a step is judged by what the next order brings: a step that does not lower the objective enough is shortened
    (Armijo's rule, with quadratic interpolation), starting again from the model where it began. Directions are those of
    L-BFGS (Nocedal, "Updating quasi-Newton matrices with limited storage", 1980; Liu and Nocedal, 1989) with up to 100
    pairs, or as many as fit into 64 MiB.

    Where the problem has a bound on its curvature along each parameter (`Problem.curved`), the first order asks the
    workers for it beside the gradient: it is a sum over the samples, and is coded like the gradient. The initial matrix
    of L-BFGS is then a power of that diagonal, penalty included: the counts of one-hot columns differ by factors of
    thousands, and so do the units of unscaled columns. Which power is best differs between data sets, and during a run;
    after each step the power is chosen under which the step and the resulting change of the gradient point most nearly
    in the same direction. Without such a bound the method is plain L-BFGS, which begins with a step of length 1.

    Where workers sum second derivatives between columns (`Problem.outputs`), those between the columns that matter most
    take the diagonal's place (`CurvatureBlock`), once as many gradients have been spent as they cost, and as long as
    steps and changes of the gradient are more nearly parallel with them.

    Where few arrivals come sooner than all (`early` in `Optimizer.begin`), the first steps wait for only a few each:
    `FewArrivals` describes how they move and when they end: near the minimum, or when they no longer pay. The method
    above then continues from their model, with the curvatures and the pairs that they found. The first order finds out
    whether few arrivals pay. If it brings the whole gradient, the next two may still stop early, as the first one also
    takes what it takes the machines to get going: what its parts say is remembered, and curvatures are not asked for
    again. Where work takes little time, workers also answer with models of their own tasks, and the steps begin from
    these. Problems that have no bound on the curvature or a sharp penalty, are not convex, or are stochastic begin with
    whole gradients.

    Where these steps turn out to be slow, and work takes the workers no time to speak of, `LocalNewton` puts Newton
    steps of the first few workers' own data in the place of the diagonal: an order for them comes between two exact
    gradients.

    On a smooth strongly convex problem the objective falls at every accepted step, and the models converge
    linearly to the minimum (Liu and Nocedal, 1989, theorem 6.1, whose proof needs searches that end in Wolfe's
    conditions; here pairs that violate them are left out). On other smooth problems models tend to a point where the
    gradient vanishes, without a rate. The run ends when steps promise less than 1e-12 of the objective five times in
    a row, or no step lowers it any more: it has `converged`. `NothingToGain` says what else must hold, so that this is
    not said where columns are nearly collinear and promises are too small.

    Where the objective does not bend along a step, as that of logistic regression far away from its minimum, the next
    first step is ten times longer, and so on until it bends. Along a step that promises nothing it must bend by a
    hundredth of the slope: what little it bends otherwise is rounding.

    On convex problems a step at whose end the objective still falls has lowered it, whatever rounding makes of that.

    With l1, alone or in an elastic net, it is a proximal quasi-Newton method (Lee, Sun and Saunders, "Proximal
    Newton-type methods for minimising composite functions", 2014): each direction leads to where the model of the
    objective that L-BFGS makes, with the penalty as it is, is about least. `sharp_step` says how; that takes no
    gradients. Parameters become exactly 0. The penalty is taken to be linear wherever no parameter changes its sign.
    Products with the matrix itself, and not its inverse, cost more the more pairs there are: up to 100 are used, fewer
    for more than about 7,000 parameters.

    An estimate that is not exact (workers are missing for good, or the scheme does not wait for the whole gradient)
    cannot be used for a line search: the model then moves by the scaled gradient with the steps that the bound allows,
    and the memory of earlier steps is dropped (`InexactSteps`). Where the problem is stochastic, every estimate is of
    that kind.

    Where messages lose digits on their way (`lossy` in `Optimizer.begin`: wires), gradients are taken as they come for
    as long as steps bring what they promise. When three in a row have brought less than 0.7 of what they should, a
    search has failed, or nothing seems to be gained any more, all further gradients are asked for in all their digits
    (a note `"precise"`): a wire saves bytes as long as it does no harm, and no run ends by what it has rounded.

    Arguments:
        x: the first model, shape (n_parameters,).
    """

    kinds = ("gradient", CURVATURE)
    proximal = True
    max_points = 2  # a model and a vector, for Newton steps
    remedy = "; numbers in the data may be too large to compute with, or the objective has no minimum: l2 gives it one"

    checkpointed = (
        "rejected",
        "_asks_curvature",
        "_memory",
        "_few",
        "_newton",
        "_solved",
        "_search",
        "_left",
        "_poor",
        "_precise",
        "_stuck",
        "_inexact",
    )

    def __init__(self, x: Array) -> None:
        super().__init__(x)
        self._stochastic = self._convex = self._lossy = False
        self._early: Early = ""
        self._solves = False, False
        self._know_nothing()

    def _know_nothing(self) -> None:
        self._asks_curvature = False
        self._memory = LBFGSMemory()
        self._few: FewArrivals | None = None  # the steps before the first whole gradient, as long as they are taken
        self._newton: LocalNewton | None = None  # asks for workers' own Newton steps, where they have any
        self._solved = False  # whether the current direction came of them
        self._search = LineSearch()
        self._left = NothingToGain()
        self._poor = 0  # steps in a row that brought little of what they promised
        self._precise = False  # whether gradients are asked for in all their digits
        self._stuck = False  # whether the last search found no lower point, though it went down the gradient itself
        self._decision: dict[str, Any] = {}
        self._inexact = InexactSteps()
        self._work_odds = math.inf  # those of the last answer

    def begin(self, problem: Problem, early: Early = "", lossy: bool = False) -> None:
        super().begin(problem, early, lossy)
        self._early, self._lossy, self._solves = early, lossy, (problem.newton, problem.quadratic)
        if problem.regularizer.steepest(self.x, np.zeros(len(self.x))) is None:
            raise invalid(
                "penalty",
                "must say its steepest subgradient (`Penalty.steepest`) for QuasiNewton",
                problem.regularizer,
                "take optimizers.Nesterov, which asks for its proximal point",
            )
        self.x = self.known  # each run begins without what was learnt from another problem
        self._know_nothing()
        self._memory.block.begin(problem, lossy)
        self._asks_curvature, self._stochastic, self._convex = problem.curved, problem.stochastic, problem.convex
        if early and problem.curved and problem.convex and not (problem.stochastic or self.penalty.sharp):
            self._few = self._few_arrivals()
            self._newton = LocalNewton() if problem.newton else None

    def _few_arrivals(self) -> FewArrivals:
        carried, (newton, quadratic) = self._early == "carry", self._solves
        return FewArrivals(self.penalty, self._memory, len(self.x), carried, newton, quadratic)

    @property
    def best(self) -> Array:
        """The newest model, unless something speaks against it.

        That is the point of the next order, if the direction to it uses curvatures (those of the data or of earlier
        steps) and no nearer or farther point along it has been rejected; otherwise it is the last model at which a
        search began. Nearly all such points turn out to be lower, although the run has not yet been told so.
        """
        base, informed = self._search.base, self._memory.informed and self._search.length == 1.0 and not self._waits
        return self.x if base is None or (informed and not self.rejected) else base[0]

    @property
    def known(self) -> Array:
        """The last model at which a search began: its objective is known, and no earlier model had a lower one."""
        return self.x if self._search.base is None else self._search.base[0]

    @property
    def trying(self) -> bool:
        moving = self._few is not None and not self._few.why and self.step > 0
        # With curvatures it may overflow where the gradient alone does not.
        return self._search.base is not None or moving or self._asks_curvature

    @property
    def converged(self) -> bool:
        return self._stuck or self._left.found

    @property
    def unseen(self) -> Array | None:
        return self._memory.block.hidden()

    def confirm(self) -> bool:
        return self._left.confirm(self._memory.flat)

    @property
    def decision(self) -> Mapping[str, Any]:
        """What the last estimate led to, as `act`:

        `few`: it came from few arrivals; so many `parts` of the data are known, with `pairs` in memory and the power
        `scaling` of the curvatures. `whole`: likewise, but the next gradients are whole, because (`why`) the sum of the
        parts' newest losses no longer falls (`"level"`), hardly does (`"slow"`), or is above what it was at first
        (`"rise"`, also where a part's own loss has risen as no bound on its curvature lets it), some part has never
        been heard (`"missing"`), nobody is late any more (`"prompt"`), or there are too many numbers to keep
        (`"size"`).
        Where the parts that came no longer match the earlier ones, because the code was resized or tasks are lost,
        `why` is `"unknown"`, and there is nothing else. Where parts were asked for models of their own, `own` is how
        many have come, or -1 if they do not suit the others. `solve`: the model is the base of a new search, for which
        the next order asks for Newton steps of a few workers' own data; what comes of them is an `accept`, too, with
        the number of these `steps`.
        `accept`: the model is the base of a new search, whose first step promises to lower the objective by `promise`,
        with `pairs` in memory, the power `scaling` of the curvatures, and second derivatives between so many `columns`
        (`few` and `whole` say these, too). `shorten`: the objective had not fallen
        enough, and the model goes back to the fraction `length` of the direction. `restart`: no fraction of it was
        good, or there was nothing to gain though some direction hardly bends, and the memory is dropped. `precise`:
        likewise, or steps achieved much less than they promised, while gradients lost digits on their way: from now on
        they are asked for in full. `drift`: the estimate was not exact.
        `stop`: there is nothing left to gain.
        `wait`: nothing was known, and the same order is submitted again.
        """
        return self._decision

    def ask(self) -> Order:
        if self._few is not None and not self._few.why:
            self._few.ask(self.x, self.step)
            return Order(step=self.step, points=(self.x, *self._few.marks), kind=EARLY, note=self._few.note)
        if self._newton is not None and self._newton.waits:
            vector, note = self._newton.ask(float(self._penalty_curvature.mean()))
            return Order(step=self.step, points=(self.x, vector), kind=NEWTON, note=note)
        if self._asks_curvature:
            return Order(step=self.step, points=(self.x,), kind=CURVATURE)
        block = self._memory.block
        if block.asked:
            note = {CURVATURE: False, **block.note}
            return Order(step=self.step, points=(self.x, block.marks), kind=CURVATURE, note=note)
        return Order(step=self.step, points=(self.x,), note={PRECISE: self._precise} if self._lossy else {})

    def tell(self, answer: Answer) -> None:
        self.step += 1
        self._work_odds = answer.work_odds
        self._decision, self.rejected = {"act": "wait"}, False
        few = self._few
        if few is not None and not few.why and self._early_step(few, answer):
            return
        if self._newton is not None and self._newton.waits:
            self._set_out(self._newton, answer)
            return
        value = answer.value
        if answer.estimate is None or value == math.inf:  # where gradients are finite, their penalty need not be
            if value == math.inf and self._asks_curvature:
                self._asks_curvature, self.rejected = False, True  # squares of large numbers overflow: no bound, then
            elif value == math.inf and self._search.base is not None:
                self._memory.block.asked = False
                self._shorten(math.inf)
            return
        estimate = answer.estimate.astype(
            np.float64
        )  # it is float32 for such a model, but the state is kept in float64
        asked, self._asks_curvature = self._asks_curvature, False
        if asked and answer.curvature is not None:
            bound = answer.curvature[0].astype(np.float64), answer.curvature[1] or 1.0
            self._memory.scale(bound, self._penalty_curvature)
        block = self._memory.block
        block.spend()
        if block.asked:
            block.asked = False
            if answer.block is not None:
                block.take(answer.block.astype(np.float64), self._memory.curvature, self._penalty_curvature)
                self._memory.join()
        if few is not None and not self._probe_again(few, answer):
            self._few = None
            if few.why in ("", "prompt"):
                self._newton = None  # nobody is slow
            elif self._newton is not None:
                self._newton.begin(few.n_parts, slow=few.why == "slow")
            if not self._memory.diagonals or (few.why and not asked):
                if few.bound is None:
                    self._asks_curvature, self._decision = True, {"act": "whole", "why": "unknown"}
                    return
                self._memory.scale(few.bound, self._penalty_curvature)
            if answer.exact and few.why:
                few.end(self.x.astype(np.float64), estimate)
        if not answer.exact or self._stochastic or value is None:
            self._drift(estimate, answer)
        else:
            if self._newton is not None and not asked:
                self._newton.hear_whole(answer.waited)
            if self._search.base is None:
                self._accept(value, estimate)
            else:
                self._judge(self._search.base, value, estimate)

    # --- one step ---------------------------------------------------------------------------------------------------

    def _early_step(self, few: FewArrivals, answer: Answer) -> bool:
        """Take a step from few arrivals; return False if the estimate is one for the method itself."""
        if answer.exact and answer.estimate is not None:
            return False
        if self._search.base is not None:
            if answer.value == math.inf:  # the step was too long
                self._few = self._newton = None
                return False
            self._search.end()  # what the parts say there is known
            self._left.forget()
        if answer.value == math.inf:
            few.overflow()
        elif not (answer.parts or answer.late_parts) or not few.hear([*answer.late_parts, *answer.parts]):
            self._few, self._asks_curvature = None, True
            self._decision = {"act": "whole", "why": "unknown"}  # the whole gradient is asked for at the same point
            return True
        newton_follows = self._newton is not None and self._newton.pays(answer.work_odds)
        self.x = few.move(self.x, newton_follows, answer).astype(self.x.dtype, copy=False)
        self._decision = few.decision
        if few.why:
            self._asks_curvature = few.bound is None
            block = self._memory.block
            ended = few.block_is_cheap
            block.asked = not self._asks_curvature and block.worth_asking(self._work_odds, ended)
        return True

    def _probe_again(self, few: FewArrivals, answer: Answer) -> bool:
        """Return whether the next order may stop early, too, although the last one brought the whole gradient."""
        again = not few.why and self.step < _PROBES and few.hear([*answer.late_parts, *answer.parts])
        return again and few.bound is not None and bool(self._memory.diagonals)

    def _judge(self, base: tuple[Array, float, Array], value: float, gradient: Array) -> None:
        """Accept the current model as the next base, or go back part of the way."""
        x, before, gradient_before = base
        search = self._search
        convex = self._convex and not self._coarse
        if not (np.isfinite(gradient).all() and search.lower(value, self._slope_at(x, gradient), convex)):
            self._shorten(value)
            return
        fell = not search.poor(value)
        self._poor = 0 if fell else self._poor + 1
        change = gradient - gradient_before
        if self._solved and self._newton is not None and search.slope < 0.0:
            self._newton.learn(search.ideal(change))
        straight = search.straight(change)
        idle = not self.penalty.sharp and self._left.nothing(search.promise, before)
        bent = not (straight and idle) and self._memory.remember((self.x - x).astype(np.float64), change)
        # That it falls need not be seen where it has never bent yet: that of a huge first model is too large to tell.
        search.lengthen(straight and not bent, fell or idle or self.step == 2)
        self._accept(value, gradient)

    def _shorten(self, value: float) -> None:
        """Reject the current model, and try one that is nearer to the base.

        Arguments:
            value: the objective there.
        """
        self.rejected = True
        if not self._search.shorten(value) or not self._move():
            self._give_up()
            return
        self._decision = {"act": "shorten", "length": self._search.length}

    def _accept(self, value: float, gradient: Array) -> None:
        """Begin the next search at the current model."""
        self._search.rest(self.x, value, gradient)
        block = self._memory.block
        if self._memory.bound is not None and not (block.off or block.chosen):
            block.choose(*self._memory.bound)
        block.asked = block.worth_asking(self._work_odds, ratio=self._memory.bends)
        self._solved = False
        if self._asks_newton:
            assert self._newton is not None
            self._newton.want(*self._memory.inner(gradient))
            self._decision = {"act": "solve", "pairs": len(self._memory)}
            return
        self._aim(gradient)
        self._go(value, gradient)

    @property
    def _waits(self) -> bool:
        """Whether Newton steps have been asked for."""
        return self._newton is not None and self._newton.waits

    @property
    def _asks_newton(self) -> bool:
        """Whether to ask for Newton steps of the workers' own data before the next search."""
        if self._newton is None or not self._memory.diagonals or self._memory.has_all:
            return False
        return self._newton.worth_asking(self._work_odds)

    def _set_out(self, newton: LocalNewton, answer: Answer) -> None:
        """Begin the search whose direction the workers' Newton steps give, as far as some have come."""
        assert self._search.base is not None
        _, value, gradient = self._search.base
        step = newton.answer(answer.parts, answer.waited, self._memory.curvature, self._penalty_curvature)
        self._solved = step is not None
        if step is None:
            self._aim(gradient)
        else:
            direction = self._memory.outer(*step)
            self._search.aim(direction, product(gradient, direction))
        self._go(value, gradient)
        if self._solved and self._decision["act"] == "accept":
            self._decision["steps"] = len(answer.parts)
            newton.expect(-self._search.slope)

    def _go(self, value: float, gradient: Array) -> None:
        """Take the first step along a direction."""
        search = self._search
        if not search.slope < 0.0:  # rounding has spoilt the memory
            self._memory.forget()
            self._solved = False
            self._aim(gradient)
        self._left.hear(-search.slope, value, bent=search.stride == 1.0)
        if self._coarse and (self._left.calm or self._poor >= _MOST_POOR):
            self._ask_precisely()
            return
        if self._left.again and self._memory.flat and self._left.look_again(value):
            self._restart(value, gradient)
            return
        search.begin(1.0 if self._memory.informed else min(1.0, 1.0 / max(float(np.abs(gradient).sum()), 1e-300)))
        self._decision = {"act": "accept", "promise": -search.slope, "pairs": len(self._memory)}
        if self._memory.power is not None:
            self._decision |= {"scaling": self._memory.power, "columns": self._memory.n_columns}
        moved = self._move()
        while not moved and self.step == 1 and search.slope < 0.0 and search.lengthen_now():
            moved = self._move()
        if not moved:
            self._give_up()

    def _aim(self, gradient: Array) -> None:
        """Choose the direction of the next search, beginning at the current model."""
        if self.penalty.sharp:
            with one_thread():  # threads would wait for the cores of workers
                matrix = self._memory.matrix(len(gradient))
                self._search.aim(*sharp_step(self.penalty, matrix, self.x, gradient))
            return
        direction = self._memory.downhill(gradient)
        self._search.aim(direction, product(gradient, direction))

    def _uphill(self, x: Array, gradient: Array) -> Array:
        steepest = self.penalty.steepest(x, gradient)
        assert steepest is not None  # `begin` has checked
        return steepest

    @property
    def _penalty_curvature(self) -> Array:
        return penalty_curvature(self.penalty, len(self.x))

    def _slope_at(self, base: Array, gradient: Array) -> float:
        """Return the slope of the objective along the direction, at the end of the step from the base."""
        assert self._search.direction is not None
        side = np.where(self.x == 0.0, base, self.x)  # the one that the step comes from
        return product(self._uphill(side, gradient), self._search.direction)

    def _move(self) -> bool:
        """Move along the direction; return whether that changes the model, in its own dtype."""
        point = self._search.point(self.x.dtype)
        assert self._search.base is not None
        self.x = self._search.base[0] if point is None else point
        return point is not None

    def _give_up(self) -> None:
        """Search once more from the base, down the gradient; if that search failed, there is nothing to gain."""
        assert self._search.base is not None
        x, value, gradient = self._search.base
        self.x = x
        if self._coarse:
            self._ask_precisely()
            return
        if self._newton is not None and self._solved:
            self._newton.give_up()  # no fraction of what it led to is any good
        again = self._left.found_again(self._search.promise, value)  # rounding lowers it by turns, and raises it
        if again or not (len(self._memory) or self._solved):
            self._stuck, self._decision = True, {"act": "stop"}
            return
        self._left.claim(value)
        self._restart(value, gradient)

    def _restart(self, value: float, gradient: Array) -> None:
        """Begin a new search at the base, without what is remembered of earlier steps."""
        self._memory.forget()
        self._accept(value, gradient)
        if not self._stuck:
            self._decision["act"] = "restart"

    @property
    def _coarse(self) -> bool:
        """Whether gradients come with fewer digits than they were computed in."""
        return self._lossy and not self._precise

    def _ask_precisely(self) -> None:
        """Ask for the gradient at the base again, and for all further ones, in all their digits."""
        assert self._search.base is not None
        self.x = self._search.base[0]
        self._search.leave()
        self._precise, self._poor = True, 0
        self._left.forget()
        self._decision = {"act": "precise"}

    def _drift(self, gradient: Array, answer: Answer) -> None:
        """Take a step that needs no objective: along the scaled gradient, as far as the curvature bound allows."""
        base = self._search.base
        self._search.leave()
        if base is not None and not (answer.value is not None and answer.value <= base[1]):
            self.x, gradient, self.rejected = base[0], base[2], True
        self._memory.forget()
        self._left.forget()
        self._decision = {"act": "drift"}
        uphill, diagonals = self._uphill(self.x, gradient), self._memory.diagonals
        end = self._inexact.move(self.x, uphill, diagonals[0] if diagonals else None, answer.share)
        if self.penalty.sharp:
            below, above = sides(self.penalty, len(end))
            end = within_orthant(self.x, uphill, end, below == above)
        self.x = end.astype(self.x.dtype, copy=False)

    # --- its state --------------------------------------------------------------------------------------------------

    def restore(self, state: Mapping[str, Any]) -> None:
        if state["few"] is not None:
            self._few = self._few_arrivals()
        super().restore(state if self._newton is not None else {**state, "newton": None})
        self._memory.rebuild(self._penalty_curvature)

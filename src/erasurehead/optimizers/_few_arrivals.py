"""Steps from few arrivals each: a quasi-Newton method on the newest gradient of every part of the data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array, product, squared_norm
from erasurehead._internal.resumable import Resumable
from erasurehead.engines._base import WORKED
from erasurehead.optimizers._base import Answer, PartialGradient
from erasurehead.optimizers._curvature_block import SURE, spreads
from erasurehead.optimizers._lbfgs_memory import LBFGSMemory
from erasurehead.optimizers._order_kinds import CURVATURE, LATE_PARTS, OWN_MODEL
from erasurehead.optimizers._part_memory import TINY, KnownPart, PartMemory
from erasurehead.optimizers._scaling import penalty_curvature
from erasurehead.problems import Penalty

_MOST_NUMBERS = 2**24  # of all gradients that are kept, and of all models that may still be answered: 128 MiB each
_PATIENCE = 6  # times as many arrivals as there are parts, in which the level must fall
_LEAST_FALL = 1e-6  # of what it has fallen so far
_LITTLE_FALL, _LITTLE_CARRIED, _LITTLE_MANY = 1e-3, 1e-2, 3e-4  # likewise, where Newton steps can follow: see `_slow`
_MANY_PARTS = 12  # Newton systems of less of the data say less, and a whole gradient of more parts takes longer
_NEAR = 1e-2  # likewise: a level so little above its least tells of a model that is no worse than the one there
_FAST = 0.25  # of what the level fell in the time before: where it falls by less, it is nearly at its end
_MOST = 15  # times as many arrivals as there are parts, after which whole gradients are asked for if some are missing
_DROPPED, _CARRIED = 0.1, 1 / 3  # of the parts, that a step waits for, if late work is dropped or carried on
_BLOCK_GROWS = 1.5  # times the data that the block in use is of: one of more data is worth computing its inverse
_EARNED = 4.0  # times as many arrivals as a block is gradients' work, after which it is asked for whatever it costs
_BUSY = 4 / 3  # likewise, for each worker who is at it, if late work is carried on
_SHARED = 1.25  # times as many messages as news, of parts that have several workers
_PROMPT, _NEVER = 2.0, 8.0  # times as long as one in ten, that nine in ten take, and that none does, if nobody is late
_LITTLE = 0.5  # of the time in which the first answers came, that more work may take
_FIRST_WORK = 2.0  # times a gradient's, that a message for the first order is: it asks for curvatures, too
_OWN, _SHARE = 3, 0.3  # models of parts' own, and of all parts at most, after which no more are asked for
_ALIKE, _BELOW = 0.6, 1.5  # see `_own_of`
_GRADIENTS, _NEWTON_STEPS, _FEWEST = 60, 3, 3  # the work of such a model; its steps; products in a step, at least
_LOW = 10.0  # times the level at first, that a part's loss is never thought to be below 0
_BEHIND = 0.3  # of what the loss has fallen by in all: a model where it was more than that higher is left behind
_LONGER = 1.5  # times as long as the longest of the last steps, one for each part, that a step may be


_NOTHING = Answer(None)


@final
class FewArrivals(Resumable):
    """Quasi-Newton steps on the newest gradient of every part, each taken as soon as a few parts have answered.

    A part is the tasks of one group of workers. Its newest gradient is kept, with the model z_i that it is of. With g
    the sum of these gradients, z the mean of these models and B an approximation of the Hessian, the next model is
    z - B^-1 (g + the penalty's gradient at z): the minimum of the sum of the parts' quadratic models, if all share B.
    This is the incremental quasi-Newton method IQN (Mokhtari, Eisen and Ribeiro, "IQN: an incremental quasi-Newton
    method with local superlinear convergence rate", SIAM J. Optim. 2018), and where late work is carried on and old
    gradients come in its asynchronous form DAve-QN (Soori et al., AISTATS 2020). Unlike a step from the newest model,
    one from the mean of those that the gradients are of is not misled by their ages: on a quadratic it ends at the
    minimum, whatever they are. There, B is the sum of one BFGS matrix per part; here all share one, of limited memory,
    so that a step takes no more time than one of L-BFGS. What these papers prove, local superlinear convergence, is
    therefore not proved here; no more is guaranteed than that these steps end when they no longer pay (see below).

    The mean is weighted by the curvatures that the parts have along each parameter, so that a column that is in one
    part alone is where that part left it. While some parts have not been heard, it is the same with the known parts,
    scaled up; orders ask for curvatures until those of all parts are known, or (`carried`) in the first order alone,
    which all workers answer in the end. B is a diagonal then: a power of the curvatures, times a factor, both chosen
    from the pairs that each part's two newest gradients make. Once all parts are known, B is that of L-BFGS. Its pairs
    are how far z, and how far g with the penalty, have moved since half of the parts spoke: both are means over all
    data. A step is at most one and a half times as long as the longest of the last ones, one for each part. If a part's
    loss then rises by more than the level (see below) has fallen so far, all pairs are dropped, and so is its answer.

    The first steps gain the most, and the mean holds them back. So, until a part has been heard twice, gradients do not
    count any more that are of a model where the loss was higher than the newest one by more than 0.3 of what it has
    fallen by in all: what other parts' noise costs is less than that.

    The level is the sum of the parts' newest losses, with the penalty. It is over when the level has not fallen by a
    millionth of what it has fallen before for six times as many arrivals as there are parts, nor from the first half of
    them to the second (`"level"`; where tasks differ, a level may fall below the optimum for a while, as its losses are
    of different models, and what comes after is above that), or when it is above what it was at first (`"rise"`): the
    next order asks for a whole gradient at the newest mean model, or, if the level has risen much, at the one where it
    was least. The same is decided as soon as one part's loss has risen so steeply that the bound on its curvature is
    none, as that of an exponential: far off, few parts make all others' gradients nothing, and no step leads back. What
    was learnt is dropped, and the whole gradient is that of the first model if the level has never been known.
    Whole gradients also follow where some part has not been heard after fifteen times as many arrivals as
    there are parts (`"missing"`), or, where late work is dropped, after three times as many that took about as long as
    each other: then it is slow for good, and will not be heard from. So they do where the gradients of all parts are
    too many numbers to keep (`"size"`), and where the rule waits for one as it comes nearly as soon. They follow, too,
    if nobody is late any more (`"prompt"`): if the last messages, three of each part, have taken about as long as each
    other, nine in ten less than twice as long as one in ten, and none eight times. The first whole gradient and the sum
    of the newest ones make another pair. Where Newton steps of the workers' own data can follow (`LocalNewton`), whole
    gradients come sooner: when the level has fallen in the last six times as many arrivals as there are parts by less
    than a thousandth (if late work is carried on: a hundredth, or 3e-4 with more than twelve parts) of what it has
    fallen in all, and not much less in their second half, in which it was least, than in their first (`"slow"`): where
    it has nearly come to its end, these steps are the fastest.

    The messages of the first order say how long their workers computed. Where half of the time in which they came holds
    many gradients, the next orders also ask each worker for a model of its own tasks, which some Newton steps lead to
    (`OWN_MODEL`), and for the gradient there. Where tasks are alike, that is near the minimum of all: with the first
    one that suits other parts, too (`_own_of`), everything begins anew, and only what is said from these orders on
    counts: the mean of the points is one of such models then, and of newer ones. Three are enough. (One-shot averaging:
    Zhang, Duchi and Wainwright, JMLR 2013; here it is where the steps above begin.) The level says nothing as long as
    losses of parts' own models are in it.

    Orders also ask for each part's block of second derivatives (`CurvatureBlock`): the first one after curvatures are
    known, if that is little work in the same sense, to find out whether longer messages take longer, and further ones
    if they do not. Where they do, one order asks for it after four times as many arrivals as it is gradients' work, and
    further ones after as many again, as long as it gains: what a single part says is of use where parts are alike, and
    not asking cost up to three times the time where delays grow with the work. Where late work is carried on, a worker
    that sums a block says nothing else meanwhile: if nobody else has its tasks, all steps wait for what it said before.
    Then it is asked for after 4/3 times its work for each part, and elsewhere for each part that a step waits for; and
    with more than twelve parts only if four fifths of the curvature are along its columns. B begins with it before
    anything else is known, and then as long as it gains; while it does, `"slow"` is no reason.

    A step waits for a tenth of the parts. Under `carried`, workers are busy and an order is answered slowly, but some
    order is answered all the time: a step waits for a third of the parts, of whichever order it is.

    Arguments:
        penalty: the problem's penalty, without a sharp part.
        memory: pairs and diagonals, to which those of these steps are added.
        n_parameters: length of the model.
        carried: whether late workers finish their old work, and late answers to all orders are wanted.
        newton: whether workers can solve Newton systems of their own tasks.
        quadratic: whether one such system is enough.

    Attributes:
        why: why it is over: `"level"`, `"slow"`, `"rise"`, `"missing"`, `"prompt"` or `"size"`; empty while it is not.
    """

    checkpointed = (
        "why",
        "_cheap",
        "_own",
        "_own_since",
        "_n_own",
        "_messages",
        "_took",
        "_spoke",
        "_refused",
        "_in_block",
        "_probed",
        "_asked",
        "_known",
        "_start",
        "_points",
        "_heard",
        "_rounds",
        "_scaled",
        "_lengths",
        "_pairs",
        "_spread",
        "_last",
        "_first_level",
        "_level",
        "_least_level",
        "_levels",
        "_lows",
        "_least",
    )

    def __init__(
        self,
        penalty: Penalty,
        memory: LBFGSMemory,
        n_parameters: int,
        carried: bool = False,
        newton: bool = False,
        quadratic: bool = False,
    ) -> None:
        self.why: str = ""
        self._newton, self._quadratic = newton, quadratic
        self._cheap = 0.0  # gradients that a worker can compute without anybody noticing
        self._own: Mapping[str, float] = {}  # what the next order is to ask for of the parts' own models
        self._own_since = 0  # the first step that asks for them
        self._n_own = 0  # how many have come
        self._messages = 0  # that have come in all, news or not
        self._took: list[float] = []  # seconds of the last messages
        self._spoke: list[int] = []  # the parts that spoke last, by their first tasks
        self._refused = False  # whether they do not suit the other parts
        self._penalty, self._memory, self._carried = penalty, memory, carried
        self._penalty_curvature = penalty_curvature(penalty, n_parameters)
        self._known = PartMemory(n_parameters)
        self._start = np.zeros(0)  # the first model
        self._points: dict[int, Array] = {}  # the models that may still be answered, by step
        self._heard = 0  # parts that have spoken
        self._rounds = 0
        self._asked = 0  # `_heard` when the block was asked for last
        self._probed = False  # whether the block has been asked for once, which finds out what work takes
        self._in_block = 0.0  # the share of the data that the block in use is of
        self._scaled = 0  # how many parts were known when the diagonals were computed
        self._lengths: list[float] = []  # of the last steps, in the safest metric
        self._pairs: list[tuple[float, Array, Array]] = []  # of single parts
        self._spread: list[tuple[float, list[float], list[float]]] = []  # likewise, see `spreads`
        self._last: tuple[int, Array, Array] | None = None  # `_heard`, the mean and the gradient at the last pair
        self._first_level: float | None = None
        self._level = math.inf  # when the model was last moved
        self._least_level = math.inf
        self._levels: list[tuple[int, float]] = []  # `_heard` and the least level, once for as many arrivals as parts
        self._lows: list[float] = []  # the least level from each of these to the next
        self._least: tuple[int, Array] | None = None  # `_heard` when the level last fell, and the mean then

    @property
    def note(self) -> dict[str, Any]:
        """What the next order is to say beside its point: see `wait_rules.early`."""
        first = self._rounds == 0
        return {
            "arrivals": self._arrivals,
            "probing": first,
            "while_it_pays": not self._carried,
            CURVATURE: not self._known.bounded and (first or not self._carried),
            LATE_PARTS: self._carried,
            **({WORKED: True} if first else {}),
            **(self._memory.block.note if self._memory.block.asked else {}),
            **({OWN_MODEL: self._own, CURVATURE: True} if self._own else {}),
        }

    @property
    def _arrivals(self) -> int:
        return max(1, round((_CARRIED if self._carried else _DROPPED) * self.n_parts))

    @property
    def marks(self) -> tuple[Array, ...]:
        """The second point of the next order, if it asks for the block."""
        return (self._memory.block.marks,) if self._memory.block.asked else ()

    @property
    def n_parts(self) -> float:
        """How many parts there are, known ones or not, as far as one can tell."""
        return len(self._known.parts) / self._known.curved if self._known.parts else 1.0

    @property
    def decision(self) -> dict[str, Any]:
        """What was decided when the last parts came."""
        act = {"act": "few", "parts": len(self._known.parts)} if not self.why else {"act": "whole", "why": self.why}
        act |= {"own": -1 if self._refused else self._n_own} if self._own_since else {}
        return {**act, "scaling": self._memory.power, "pairs": len(self._memory), "columns": self._memory.n_columns}

    @property
    def block_is_cheap(self) -> bool:
        """Whether to sum the block is little work for a worker."""
        return self._memory.block.chosen and self._memory.block.work < self._cheap

    @property
    def bound(self) -> tuple[Array, float] | None:
        """The curvature along each parameter and a sample's entries, of all data; None while parts are missing."""
        return self._known.mean_bound if self._known.bounded else None

    def ask(self, x: Array, step: int) -> None:
        """Take note of the model of the next order, so that late answers to it are understood."""
        if not self._points:
            self._start = x
        self._points[step] = x
        most = max(3, _MOST_NUMBERS // max(1, len(x)))
        while len(self._points) > (most if self._carried else 1):
            del self._points[next(iter(self._points))]

    def hear(self, parts: Sequence[PartialGradient]) -> bool:
        """Take in what parts say, in time or late; return whether they fit those that were heard before."""
        for part in parts:
            if not self._known.fits(part):  # the code was resized, and cuts the data in other places
                return False
            if len(part.gradient) / part.share > _MOST_NUMBERS:
                self.why = "size"
                continue
            point = self._points.get(part.step)
            if point is None:
                continue
            before = self._known.parts.get(part.tasks)
            own = self._own_of(part)
            if own is not None:
                point, slope, loss = own
                part = replace(part, gradient=slope, loss=loss)
            elif before is not None and self._misled(part, before):
                self._forget_pairs()
                continue
            elif self._runs_away(part, before, point):
                self._forget_pairs()
                self._known.restart(max(self._points) + 1)
                self.why = "rise"
                continue
            if self._known.take(part, point, own is not None):
                self._heard += 1
                self._n_own += own is not None
                self._spoke.append(part.tasks[0])
                if before is not None and not len(self._memory):
                    self._learn(before, part, point)
        return True

    def _own_of(self, part: PartialGradient) -> tuple[Array, Array, float] | None:
        """Return a part's own model, with the gradient and the loss there, if it is to count in place of the order's.

        With the first one, all begins anew, if it suits the other parts, too: their gradients promise nearly as much
        along the way to it as its own part's did. They promise less the more it owes to the noise of few samples, and
        nothing where tasks differ. If its part was not heard before, they must promise as much as its loss is below
        theirs, 1.5 times: were all parts alike, and the loss quadratic, it would be twice as much.
        """
        if part.own is None or part.curvature is None or self._refused:
            return None
        point, slope, loss = part.own
        own = np.where(part.curvature > 0.0, point, self._points[part.step]), slope, loss
        if self._known.first >= self._own_since:
            return own
        before = self._known.parts.get(part.tasks)
        others = [one for tasks, one in self._known.parts.items() if one.step < self._own_since and tasks != part.tasks]
        promise = part.share * sum(product(one.gradient, one.point - own[0]) for one in others)
        share = sum(one.share for one in others)
        if before is None:
            least = _BELOW * (part.share * sum(one.loss for one in others) - share * loss)
        else:
            least = _ALIKE * share * product(before.gradient, before.point - own[0])
        if not promise > least:
            self._own, self._refused = {}, True
            return None
        self._known.restart(self._own_since)
        self._forget_pairs()
        return own

    def _misled(self, part: PartialGradient, before: KnownPart) -> bool:
        """Return whether L-BFGS has led to a model that, as this part tells it, is worse than the first one."""
        if not len(self._memory) or self._first_level is None or part.step <= before.step or before.own:
            return False
        return (part.loss - before.loss) / part.share > self._first_level - self._level

    def _runs_away(self, part: PartialGradient, before: KnownPart | None, point: Array) -> bool:
        """Return whether a part's loss has risen so steeply that the bound on its curvature is none there.

        By it, the loss falls on the way back to where the part last spoke by as much as the slope says, less half of
        what the bound allows it to bend; here less all of it, as samples differ in their entries. Of a part that speaks
        for the first time no more is known than that its loss was hardly far below 0 at the first model.
        """
        known = before or part
        if self._first_level is None or known.curvature is None:
            return False
        if before is None:
            step, loss = point - self._start, -_LOW * part.share * abs(self._first_level)
        else:
            step, loss = point - before.point, before.loss
            if not part.loss - loss > part.share * max(0.0, self._first_level - self._level):
                return False
        bends = max(1.0, known.entries / part.share) * product(step, known.curvature * step)
        return part.loss - product(part.gradient, step) + bends < loss

    def _forget_pairs(self) -> None:
        self._memory.forget()
        self._last = None
        self._lengths.clear()

    def end(self, x: Array, gradient: Array) -> None:
        """Remember the pair that the first whole gradient makes with the newest sum.

        Arguments:
            x: the model that it is of, shape (n_parameters,).
            gradient: with the penalty, shape (n_parameters,).
        """
        if self._known.whole:
            centre = self._known.centre(x)
            self._memory.remember(x - centre, gradient - self._gradient(centre))

    def _gradient(self, centre: Array) -> Array:
        """Return what the known parts say of all data, with the penalty's gradient at the mean model."""
        gradient = self._known.gradient / self._known.share
        if self._penalty.smooth:
            gradient += self._penalty.gradient(centre)
        return gradient

    def overflow(self) -> None:
        """Take note that the numbers at the newest model are not finite."""
        self.why = "rise"

    def move(self, x: Array, newton_follows: bool = False, answer: Answer = _NOTHING) -> Array:
        """Return the model that the known parts lead to.

        Arguments:
            x: the newest model, shape (n_parameters,).
            newton_follows: whether Newton steps of the workers' own data can follow.
            answer: what came of the last order, beside the parts.
        """
        self._rounds += 1
        latest, memory = self._known, self._memory
        if self.why or not latest.parts:
            return x if self.why != "rise" else self._start if self._least is None else self._least[1]
        self._leave_behind()
        centre = latest.centre(x)
        gradient = self._gradient(centre)
        if self._scaled < len(latest.parts):
            self._scaled = len(latest.parts)
            memory.scale(latest.mean_bound, self._penalty_curvature)
        self._decide(answer)
        if self._regular(answer.took):
            if len(set(self._spoke)) >= self.n_parts - 0.5:
                self.why = "prompt"
                return centre if latest.whole else x
            if not self._carried:
                self.why = "missing"
        level = latest.loss / latest.share + self._penalty.value(centre)
        if not latest.own:
            self._level = level
        if self._first_level is None:
            self._first_level = level
        if latest.whole:
            self._remember(centre, gradient)
        if latest.whole and not latest.own:
            least = self._watch(level, centre, newton_follows)
            if self.why:
                return least
        elif self._heard >= _MOST * self.n_parts:
            self.why = "missing"
        if not len(memory):
            self._choose()
        return centre + self._bounded(memory.downhill(gradient))

    def _leave_behind(self) -> None:
        """Let gradients not count any more that are of much worse models, as long as no part has been heard twice."""
        known, first = self._known, self._first_level
        counted = [part for part in known.parts.values() if part.counts]
        if first is None or self._pairs or known.own or not counted:
            return
        newest = max(counted, key=lambda part: part.step)
        now = newest.loss / newest.share
        most = now + _BEHIND * (first - now)
        behind = [part.step for part in counted if part.step < newest.step and part.loss > most * part.share]
        if behind and now < first:
            known.restart(max(behind) + 1)

    def _regular(self, took: Sequence[float]) -> bool:
        """Return whether messages have come as regularly as a machine's own noise allows, for three of each part."""
        self._took += took
        most = 3 * round(self.n_parts)
        del self._took[:-most], self._spoke[:-most]
        if len(self._took) < most:
            return False
        fast, slow = np.quantile(self._took, (0.1, 0.9))
        return bool(slow < _PROMPT * fast and max(self._took) < _NEVER * fast)

    def _decide(self, answer: Answer) -> None:
        """Take what is known of the block, and decide what else the next order asks for."""
        known, block = self._known, self._memory.block
        if not (block.off or block.chosen):
            block.choose(*known.mean_bound)
        grown = min(_BLOCK_GROWS * self._in_block, 1.0 - 1e-9)
        if known.block is not None and known.block_share >= grown and self._in_block < 1.0 - 1e-9:
            first = not self._in_block
            self._in_block = known.block_share
            block.take(known.block / known.block_share, known.mean_bound[0], self._penalty_curvature, known.block_share)
            self._memory.join(leads=first)
            self._spread = [(bent, *spreads(one, other, self._memory.metrics)) for bent, one, other in self._pairs]
        if self._rounds == 1:
            # Where the first messages are all work, they came first as theirs was quick: others' need not be.
            rest = 1.0 - min(1.0, _FIRST_WORK * answer.pace / max([TINY, *answer.took]))
            self._cheap = _LITTLE * rest * answer.waited / max(answer.pace, TINY)
            self._ask_own()
        if self._n_own >= min(_OWN, max(1, round(_SHARE * self.n_parts))):
            self._own = {}
        pays = answer.work_odds < SURE or not self._probed
        serves = known.block is None or self._memory.n_columns > 0
        least = _EARNED
        if self._carried:
            self._messages += len(answer.took)
            least = _BUSY * (self._arrivals if self._messages > _SHARED * self._heard else self.n_parts)
        pays_dear = block.holds_most or not self._carried or self.n_parts <= _MANY_PARTS
        earned = block.chosen and serves and pays_dear and self._heard - self._asked >= least * block.work
        block.asked = known.block_share < 1.0 - 1e-9 and (earned or (self.block_is_cheap and pays))
        if block.asked:
            self._asked = self._heard
        self._probed = self._probed or block.asked

    def _ask_own(self) -> None:
        """Ask for models of the parts' own, if that is little work beside the time that the first answers took."""
        steps = 1 if self._quadratic else _NEWTON_STEPS
        iterations = int(min(_GRADIENTS, self._cheap)) // steps - 3
        if self._newton and iterations >= _FEWEST:
            damping = float(self._penalty_curvature.mean())
            self._own = {"steps": steps, "iterations": iterations, "damping": damping, "share": 1.0 / self.n_parts}
            self._own_since = max(self._points) + 1

    def _bounded(self, step: Array) -> Array:
        """Shorten a step that is much longer than the last ones: pairs of old gradients may mislead for a while.

        So may a diagonal, where parts' own models were better than what it leads to.
        """
        length = math.sqrt(product(step, self._memory.diagonals[0] * step))
        uncertain = len(self._memory) or self._known.first
        longest = _LONGER * max(self._lengths, default=math.inf) if uncertain else math.inf
        if length > longest:
            step *= longest / length
            length = longest
        self._lengths.append(length)
        del self._lengths[: -len(self._known.parts)]
        return step

    def _learn(self, before: KnownPart, part: PartialGradient, point: Array) -> None:
        """Take the pair that a part makes with what it said before."""
        if not self._memory.diagonals:
            return
        step = point - before.point
        share = self._known.curved
        most = share / part.share
        curvature = before.curvature
        whole = self._known.curvature
        factor = whole / np.maximum(np.maximum(curvature, whole / most), TINY)  # at most `most`
        change = (part.gradient - before.gradient) * factor / share + self._penalty_curvature * step
        bent = product(step, change)
        if bent > 1e-12 * squared_norm(step) ** 0.5 * squared_norm(change) ** 0.5:
            self._pairs.append((bent, step, change))
            self._spread.append((bent, *spreads(step, change, self._memory.metrics)))
            del self._pairs[: -max(3, len(self._known.parts))], self._spread[: -max(3, len(self._known.parts))]

    def _choose(self) -> None:
        """Choose the power and the length that the pairs of single parts speak for."""
        if not self._spread:
            return
        powers, n_diagonals = range(len(self._memory.metrics)), len(self._memory.diagonals)
        apart = [
            sum(
                math.log(steps[power]) + math.log(changes[power]) - 2.0 * math.log(bent)
                for bent, steps, changes in self._spread
            )
            for power in powers
        ]
        first = n_diagonals if len(apart) > n_diagonals else 0  # a block leads on until it is known what it is worth
        chosen = first + int(np.argmin(apart[first:]))
        changes = sum(changes[chosen] for _, _, changes in self._spread)
        self._memory.choose(chosen, sum(bent for bent, _, _ in self._spread) / changes)

    def _remember(self, centre: Array, gradient: Array) -> None:
        """Keep a pair if half of the parts have spoken since the last one."""
        if self._last is not None:
            heard, *last = self._last
            if 2 * (self._heard - heard) < len(self._known.parts):
                return
            self._memory.remember(centre - last[0], gradient - last[1])
        self._last = self._heard, centre, gradient

    def _watch(self, level: float, centre: Array, newton_follows: bool) -> Array:
        """Decide whether it is over; return the mean model at which the level was least."""
        assert self._first_level is not None
        n_parts = len(self._known.parts)
        if self._least is None or level < self._least_level - _LEAST_FALL * (self._first_level - self._least_level):
            self._least_level, self._least = level, (self._heard, centre)
        if not self._levels or self._heard - self._levels[-1][0] >= n_parts:
            self._levels.append((self._heard, self._least_level))
            self._lows.append(level)
            del self._levels[: -_PATIENCE - 1], self._lows[: -_PATIENCE - 1]
        self._lows[-1] = min(self._lows[-1], level)
        if not level <= self._first_level:
            self.why = "rise"
        elif self._heard - self._least[0] >= _PATIENCE * n_parts and not self._falls():
            self.why = "level"
        elif newton_follows and not self._memory.n_columns and self._slow(self._least[0]):
            self.why = "slow"
        near = level - self._least_level <= _NEAR * (self._first_level - self._least_level)
        return centre if near else self._least[1]

    def _falls(self) -> bool:
        """Return whether the level falls, though it is above its least.

        While models move fast, the losses of parts at different ones of them may add up to less than the objective has
        anywhere: what the level must fall below can be out of reach.
        """
        assert self._first_level is not None
        half = _PATIENCE // 2  # of as many arrivals as there are parts; a single step may bring more
        before, now = min(self._lows[-_PATIENCE:-half], default=-math.inf), min(self._lows[-half:])
        return now < before - _LEAST_FALL * (self._first_level - self._least_level)

    def _slow(self, least: int) -> bool:
        """Return whether the level falls, but by so little that other steps would be faster.

        Arguments:
            least: `_heard` when it last fell: after a level that was out of reach (`_falls`) nothing can be said.
        """
        assert self._first_level is not None
        if len(self._levels) <= _PATIENCE or self._heard - least >= _PATIENCE // 2 * len(self._known.parts):
            return False
        before, between, now = (self._levels[place][1] for place in (0, _PATIENCE // 2, -1))
        carried = _LITTLE_CARRIED if len(self._known.parts) <= _MANY_PARTS else _LITTLE_MANY
        little = before - now < (carried if self._carried else _LITTLE_FALL) * (self._first_level - now)
        return little and between - now >= _FAST * (before - between)

    # --- its state --------------------------------------------------------------------------------------------------

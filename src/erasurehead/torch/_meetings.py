"""A script's side of each way to meet: what a step sends, and what the script goes on from."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeAlias, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.errors import ErasureHeadError
from erasurehead.torch import _state
from erasurehead.torch._agreed import Agreement
from erasurehead.torch._member import Member
from erasurehead.torch._pace import Pace
from erasurehead.torch._place import RankPlace
from erasurehead.torch._rank_model import RankModel
from erasurehead.torch._streams import prepare
from erasurehead.torch._versions import Version
from erasurehead.torch._ways._base import Way
from erasurehead.torch._ways._busy import Busy
from erasurehead.torch._ways._first_gradients import FirstGradients

logger = logging.getLogger("erasurehead")

_LEAST_BYTES = 1 << 16  # of the largest message: who belongs to a team may be longer than a model

Step: TypeAlias = Callable[[], float | None]
"""A step of the wrapped optimizer."""


class Meeting(ABC):
    """A script's side of a way to meet.

    Arguments:
        place: where the script runs.
        flat: the model and its optimizer.
        step: makes a step of that.
        record: called with each version that this rank closes.
        own: what this rank and all others must have in common.
        narrow: whether what a step sends goes out as bfloat16.
        leave_out: told of what is not finite after a step.

    Attributes:
        member: this rank's handlers.
        taken: the version from which the script went on last.
    """

    def __init__(
        self,
        place: RankPlace,
        flat: RankModel,
        step: Step,
        record: Callable[[Version], None],
        own: dict[str, Any],
        narrow: bool,
        leave_out: Callable[[str], None],
    ) -> None:
        self._leave_out = leave_out
        self.place, self._flat, self._step = place, flat, step
        way, told = self._prepared()
        self.taken = 0, -1
        agreement = Agreement(place.rank, own)
        place.expect(max(told.nbytes, _LEAST_BYTES))
        with place.held():
            ranks = frozenset(() if place.joins else range(place.size))
            self.member = Member(place.port(), way, told, ranks, record, agreement, narrow)
            place.begin(self.member)
        for begun, what in (
            (lambda: agreement.agreed is not None, "whether others have the same model and settings"),
            (lambda: self.member.newest[1] >= 0, "the first rank's model"),
        ):
            place.wait(lambda begun=begun: begun() or self.member.forgotten, what)
            agreement.check()
            self._check()
        if not self.member.membership.view.members - {place.rank} and not place.joins:
            if place.team_ended:
                raise ErasureHeadError(
                    f"Rank {place.rank} began when the others had come to their end, and the model is theirs: alone it "
                    "would train another one from its own first weights, and might save that in its place."
                )
            logger.warning(
                "All other ranks had ended when rank %s began: it trains alone, from its own first weights.", place.rank
            )
        self.take()
        self._began = place.now()

    @property
    def until(self) -> Callable[[], bool] | None:
        """Says whether the script leaves its step to the others; None if it always ends it."""
        return None

    @abstractmethod
    def _prepared(self) -> tuple[Way, Array]:
        """Return the way, and what this rank would tell others of its model if all were to begin with it."""

    @abstractmethod
    def take(self) -> None:
        """Go on from the team's newest model, if there is a newer one."""

    @abstractmethod
    def step(self, step: Step, samples: Callable[[], float]) -> float | None:
        """Make a step, and return what the optimizer does.

        Arguments:
            step: of the wrapped optimizer.
            samples: returns how many the step was computed from, after it.
        """

    @abstractmethod
    def forgo(self) -> None:
        """Take back what the forward pass of a step that is not made has left in the buffers."""

    @abstractmethod
    def restart(self, version: int, state: dict[str, Any]) -> None:
        """Go on from the model and the optimizer as they are here, and all ranks have just loaded them.

        Arguments:
            version: the number that this model has from now on.
            state: what was saved, with all that `kept` had returned.
        """

    def _restart(self, version: int, told: Callable[[], Array]) -> None:
        """Wait until a version is the newest, which who gathers tells the others."""
        member = self.member
        while member.newest[1] < version:
            self.place.wait(
                lambda: member.newest[1] >= version or member.membership.gathers or member.forgotten, "what was loaded"
            )
            self._check()
            with self.place.held():
                if member.newest[1] < version and member.membership.gathers:
                    member.restart(version, told())
        self.taken = 0, -1  # what was loaded here may be older than what the team has made of it since

    def kept(self) -> dict[str, Any]:
        """Return what is to be saved beside model and optimizer, to go on from there."""
        return {}

    def newest(self) -> Array:
        """Return the newest model that is here, with this rank's share of its steps since."""
        with self.place.held():
            return self.member.known.latest.vector

    def _check(self) -> None:
        if self.member.forgotten:
            raise self._outrun()

    def _outrun(self) -> ErasureHeadError:
        """Return the error of a rank without which the team came to the end."""
        return ErasureHeadError(
            f"Rank {self.member.rank} was not heard of for so long that the others went on without it, "
            "and they have ended: what they came to is in what they saved, and not in this rank's model."
        )

    def close(self) -> None:
        """Leave; who gathers stays until all have left."""
        member = self.member
        if member.left:
            return
        with self.place.held():
            member.rest()
        while not member.may_leave:
            self.place.wait(
                lambda: member.may_leave or bool(member.whole.asked) or self.behind,
                "its last change to be added, or the others' to come",
            )
            self.follow()
        with self.place.held():
            member.leave()

    @property
    def behind(self) -> bool:
        """Whether this script must follow a version although it makes no more steps."""
        return False

    def follow(self) -> None:  # noqa: B027
        """Do what is asked of a script that makes no more steps."""


@final
class BusyMeeting(Meeting):
    """The change of each step goes out, and the team's newest model comes in."""

    def _prepared(self) -> tuple[Way, Array]:
        flat = self._flat
        moments = self._moments = flat.moments()
        self._momentum = flat.momentum()
        told = self._before = self._told()
        self._buffers = told[flat.n_parameters : flat.length].copy()  # as the last step, or version, has left them
        self._change: Array | None = None  # of this rank's last step, if it is to be added to that
        self._ahead: Array | None = None  # room for the sum
        self._counts = flat.length + (0 if moments is None else moments.n_parameters)
        self._length = self._counts + len(flat.sizes)
        self._pace = Pace()
        decay, first = ((), False) if moments is None else (moments.decay, moments.first)
        prepare(flat.length, flat.dtype)
        self._decay, self._busy = decay, Busy(told, decay, first, flat.sizes)
        return self._busy, told

    def take(self) -> None:
        self._go_on(self._flat.write)

    def _go_on(self, write: Callable[[Array], None]) -> None:
        """Go on from the newest version, if there is a newer one, which is written into the model."""
        if self.member.newest > self.taken:
            with self.place.held():
                self.taken, _, newest = self.member.known.latest
            if self._moments is not None:
                self._moments.write(newest)
            if self._momentum is not None:
                self._momentum.write(newest)
            write(newest)
            self._flat.read_buffers(self._buffers)
            self._before, self._change = newest, None

    @property
    def _begins(self) -> Array:
        """Where this rank's next step begins, as the others know it; added up only if no version has come instead."""
        if self._change is not None:
            self._ahead = self._flat.room() if self._ahead is None else self._ahead
            self._before = np.add(self._before[: self._flat.length], self._change, out=self._ahead)
            self._change = None
        return self._before

    def step(self, step: Step, samples: Callable[[], float]) -> float | None:
        flat = self._flat
        flat.check()
        self._go_on(lambda newest: flat.write_under_way(newest, self._buffers))
        before = self._begins
        with self.place.held():
            sent = self.member.port.room(self._length, flat.dtype)

        def prepare() -> None:
            if self._moments is not None:
                self._moments.prepare(sent[flat.length : self._counts], max(len(self.member.steppers), 1))
            flat.counts(sent[self._counts :])

        sent[self._counts :] = 0.0
        with flat.hooked(prepare):
            loss = step()
        flat.check()
        flat.counts(sent[self._counts :])  # of a closure's gradients, too
        change = sent[: flat.length]
        if not flat.change(before, change):
            self._leave_out("weights")
            self.forgo()
            return loss
        now = self.place.now()
        with self.place.held():
            if self._moments is not None and self._decay != self._moments.decay:
                self._decay = self._moments.decay
                self._busy.average(self._decay)
            self.member.offer(sent, 1, samples(), now - self._began)
        self._check()
        self.place.settle()
        if self._moments is not None:
            self._pace.add(now - self._began, self.member.newest[1])
            self._await(now + self._pace.patience)
        self._began = self.place.now()
        self._change = change
        flat.read_buffers(self._buffers)
        self.take()
        return loss

    def _await(self, until: float) -> None:
        """Wait for the version that a step is in, until a time."""
        member, place = self.member, self.place
        if member.newest == self.taken and until > place.now():
            with place.held():
                member.alarm(until)
            place.wait(
                lambda: member.newest != self.taken or place.now() >= until or member.forgotten, "ranks in step with it"
            )
            self._check()

    def forgo(self) -> None:
        self._flat.write(self._begins.copy())  # weights that are no numbers would stay so, and no step would be made
        self._flat.read_buffers(self._buffers)
        self.take()

    def restart(self, version: int, state: dict[str, Any]) -> None:
        self._restart(version, self._told)
        if self._momentum is not None:
            self._momentum.forget()
        self.take()

    def _told(self) -> Array:
        flat, moments = self._flat, self._moments
        told = flat.room((0 if moments is None else moments.length) + 2 * len(flat.sizes) + 1)
        flat.read(told[: flat.length])
        if moments is not None:
            moments.read(told[flat.length :])
        return told

    def newest(self) -> Array:
        with self.place.held():
            name, _, newest = self.member.known.latest
            ranks = max(len(self.member.steppers), 1)
        length = self._flat.length
        if name != self.taken or self._begins is newest:
            return newest
        return newest[:length] + (self._begins[:length] - newest[:length]) * (1.0 / ranks)


class GradientMeeting(Meeting):
    """The gradient of each step goes out, and the mean of those that came in time is what all optimizers get.

    What goes out: gradients; changes of buffers; for each parameter whether it has a gradient; rates of groups.
    """

    more = 0
    """Elements that go out behind these."""

    most_late = 1
    """Versions by which a gradient may be late."""

    def _prepared(self) -> tuple[Way, Array]:
        flat, present = self._flat, self._flat.length + self._flat.n_tensors
        self._sent = flat.room(flat.n_tensors + len(flat.rates) + self.more)
        ends = 0, flat.n_parameters, flat.length, present, len(self._sent) - self.more
        self._gradient, self._buffers, self._present, self._rates = (slice(*pair) for pair in pairwise(ends))
        self._before = flat.read_buffers(self._sent[self._buffers].copy())
        told = self._sent.copy()
        flat.read(told[: flat.length])
        return self._way(told), told

    def _way(self, told: Array) -> Way:
        return FirstGradients(told)

    def _stuck(self) -> bool:
        """Whether there will be no version any more, as `_check` then says."""
        return False

    def _complete(self) -> None:
        """Make what goes out whole, which has the gradient already."""

    def take(self) -> None:
        member = self.member
        while member.newest > self.taken:
            with self.place.held():
                following = member.following(self.taken)
                if following is None and member.whole.state is None:
                    member.whole.want()
            if following is None:
                self.place.wait(
                    lambda: (
                        member.whole.state is not None
                        or member.following(self.taken) is not None
                        or member.forgotten
                        or member.whole.stranded
                    ),
                    "the model of another rank",
                )
                self._check()
                if member.whole.state is None:
                    if member.whole.stranded:
                        raise ErasureHeadError(
                            "All ranks that had the newest model have died at once, and those that are left were too "
                            "far behind to make it. Start again from what was saved."
                        )
                    continue
                with self.place.held():
                    self.taken, data = member.whole.take_state()
                self._unpack(data)
            for name, _, vector in following or ():
                self.taken = name
                if name[1]:
                    self._apply(vector)
                else:
                    self._flat.write(vector)
                self._flat.read_buffers(self._before)

    def step(self, step: Step, samples: Callable[[], float]) -> float | None:
        flat, member, place = self._flat, self.member, self.place
        flat.check()
        flat.gradients(self._sent[self._gradient], self._sent[self._present])
        self._sent[self._buffers] = flat.read_buffers(self._sent[self._buffers]) - self._before
        self._sent[self._rates] = flat.rates
        self._complete()
        self._step = step
        seconds = place.now() - self._began
        with place.held():
            since = member.newest
            late = since[1] > self.taken[1] + self.most_late
            if late:
                member.drop(seconds)
            else:
                member.offer(self._sent, 1, samples(), seconds, self.taken[1])
        while not late and member.newest == since:
            place.wait(
                lambda: (
                    member.newest != since
                    or bool(member.whole.asked)
                    or member.forgotten
                    or self._missed
                    or self._stuck()
                ),
                "others' gradients",
            )
            self._check()
            if self._missed:
                with place.held():
                    member.offer(self._sent, 1, samples(), seconds, self.taken[1])
            self._serve()
        self.take()
        self._began = place.now()
        return None

    @property
    def _missed(self) -> bool:
        """Whether a step was dropped as this rank had been silent, and the others, who let it in again, may need it."""
        return self.member.way.replaces and self.member.membership.belongs and not self.member.pending

    def _serve(self) -> None:
        if self.member.whole.asked:
            data = self._packed()
            with self.place.held():
                self.member.whole.serve(self.taken, data)

    def _packed(self) -> bytes:
        """Return the model with its optimizer's state, for a rank that is too far behind to follow step by step."""
        return _state.encoded({"model": self._model(), "optimizer": self._flat.packed(), "kept": self.kept()})

    def _model(self) -> Array:
        """Return the model as it was before the step under way, whose forward pass may have changed buffers."""
        whole = self._flat.read(self._flat.room())
        whole[self._buffers] = self._before
        return whole

    def _unpack(self, data: bytes) -> None:
        """Go on from what another rank has packed."""
        theirs = _state.decoded(data)
        self._flat.write(theirs["model"])
        self._adopt(theirs["kept"])
        self._flat.unpack(theirs["optimizer"])
        self._flat.read_buffers(self._before)

    def _adopt(self, kept: dict[str, Any]) -> None:
        """Go on from what another rank's `kept` had returned at the version that was taken."""

    @property
    def behind(self) -> bool:
        return self.member.newest > self.taken

    def follow(self) -> None:
        self.take()
        self._serve()

    def _apply(self, mean: Array) -> None:
        """Give the mean gradient to the optimizer."""
        flat = self._flat
        flat.set_gradients(mean[self._gradient], mean[self._present])
        with flat.at_rates(mean[self._rates].tolist()):
            flat.write_buffers(self._before + mean[self._buffers])
            self._step()

    def forgo(self) -> None:
        self._flat.write_buffers(self._before)

    def restart(self, version: int, state: dict[str, Any]) -> None:
        self._flat.read_buffers(self._before)  # all else is alike in all ranks, and nobody has to be told
        self.taken = 0, 0  # and the versions that others have made since are made here, too
        self.take()

    def newest(self) -> Array:
        self.take()
        return self._model()

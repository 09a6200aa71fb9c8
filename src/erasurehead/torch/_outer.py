"""A script's side of outer steps: some steps of its own, then the others; or what it has when they call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.errors import check_count, invalid, real
from erasurehead.torch._meetings import Meeting, Step
from erasurehead.torch._ways._base import Way
from erasurehead.torch._ways._outer import Outer

OUTER_RATE, OUTER_MOMENTUM = 0.7, 0.9


@final
class OuterSteps(NamedTuple):
    """How ranks meet every so many steps.

    Arguments:
        every: steps of a rank in a round.
        rate, momentum: of Nesterov's method, which the mean of what ranks changed is a gradient for.
    """

    every: int
    rate: float
    momentum: float

    @classmethod
    def checked(cls, every: object, rate: object, momentum: object) -> OuterSteps:
        """Return the settings, as `Team.optimizer` is given them.

        Raises:
            InvalidArgument: if one of them breaks a rule.
        """
        if not 0.0 < real(rate) < float("inf"):
            raise invalid("outer_rate", "must be a number above 0", rate, "0.7 is DiLoCo's, 1 the mean of all models")
        if not 0.0 <= real(momentum) < 1.0:
            raise invalid("outer_momentum", "must be at least 0 and below 1", momentum, "0 is for none")
        return cls(check_count("every", every, 1), real(rate), real(momentum))

    def __str__(self) -> str:
        return f"outer steps every {self.every} steps, of rate {self.rate:g} and momentum {self.momentum:g}"


@final
class OuterMeeting(Meeting):
    """What some steps have changed goes out, and the team's newest model comes in.

    A script goes on from where it is after it was called: what it changes until the newest model comes is carried over
    to that, and counts in the next round.

    Arguments:
        settings: how ranks meet; the others are those of `Meeting`.
    """

    def __init__(self, settings: OuterSteps, *arguments: Any) -> None:
        self._settings = settings
        self._steps, self._samples = 0, 0.0  # that nobody was sent
        self._offered: tuple[Array, int, float, float] | None = None
        self._number = 0  # of that
        self._answered = 0, -1  # the version at which something was offered last
        self._moves = self._called = False  # whether a step is being made, and whether the others wait for its end
        super().__init__(*arguments)
        self._until = self._began  # when the last step ended
        with self.place.held():
            self.member.on_call = self._on_call

    def _prepared(self) -> tuple[Way, Array]:
        flat = self._flat
        told = self._base = flat.read(flat.room())  # where this rank's steps begin, as the others know it
        self._buffers = told[flat.n_parameters :].copy()
        return Outer(told, flat.n_parameters, *self._settings), told

    def take(self) -> None:
        self._go_on(self._flat.write)

    def _go_on(self, write: Callable[[Array], None]) -> None:
        """Go on from the newest version, if there is a newer one, which is written into a model without own steps."""
        if self.member.newest <= self.taken:
            return
        flat = self._flat
        with self.place.held():
            self.taken, _, newest = self.member.known.latest
            if self._steps:
                carried = flat.room()
                flat.change(self._base, carried)
                carried += newest
                flat.write(carried)
            else:
                write(newest)
            self._base = newest
            flat.read_buffers(self._buffers)

    def step(self, step: Step, samples: Callable[[], float]) -> float | None:
        flat, place = self._flat, self.place
        flat.check()
        self._go_on(lambda newest: flat.write_under_way(newest, self._buffers))
        with place.held():
            self._moves = True
        try:
            loss = step()
        finally:
            self._moves = False
        flat.check()
        flat.read_buffers(self._buffers)
        flat.stepped()
        self._steps, self._samples, self._until = self._steps + 1, self._samples + samples(), place.now()
        full, offered = self._steps >= self._settings.every, False
        with place.held():
            answered = self._answered == self.taken and self.member.pending  # what comes now is of the next round
            if self._called or (full and not answered):
                offered = self._offer()
            self._called = False
        if full and not (offered or answered):
            self._leave_out("weights")
            self._begin_anew()
        elif full:
            self._meet(offered)
        self._check()
        self.take()
        return loss

    def _on_call(self) -> bool:
        """Offer what there is while the script computes; after the step that it is making, if it makes one."""
        self._called = self._moves
        return self._called or self._offer()

    def _offer(self) -> bool:
        """Offer what was changed since the last time, if anything was, and it is finite; within `held`."""
        if not self._steps:
            return False
        flat = self._flat
        flat.await_step()  # this may be another thread
        change = self.member.port.room(flat.length, flat.dtype)
        if not flat.change(self._base, change):
            return False
        self._offered = change, self._steps, self._samples, self._until - self._began
        self._base, self._began = self._base + change, self._until
        self._steps, self._samples = 0, 0.0
        self._answered = self.taken
        self._number += 1
        self.member.offer(*self._offered, self.taken[1], self._number)
        return True

    def _meet(self, offered: bool) -> None:
        """Wait for the others of this round; what was offered is offered again if they went on without this rank."""
        member = self.member

        def missed() -> bool:
            return member.membership.belongs and not member.pending

        while member.newest <= self.taken and not member.forgotten:
            if missed():
                if not offered or self._offered is None:
                    return
                with self.place.held():
                    member.offer(*self._offered, self.taken[1], self._number)
            self.place.wait(
                lambda: member.newest > self.taken or member.forgotten or missed(), "the other ranks of its round"
            )
        if offered:
            self._began = self._until = self.place.now()

    def newest(self) -> Array:
        with self.place.held():
            name, _, newest = self.member.known.latest
            if name != self.taken or not self._steps:
                return newest
            change = self._flat.room()
            self._flat.change(self._base, change)
            return newest + change / max(len(self.member.steppers), 1)

    def _begin_anew(self) -> None:
        """Drop what was changed since the last time that it was offered."""
        with self.place.held():
            self._flat.write(self._base)
            self._flat.read_buffers(self._buffers)
            self._steps, self._samples = 0, 0.0

    def forgo(self) -> None:
        self._flat.write_buffers(self._buffers)
        if not self._flat.finite():
            self._leave_out("weights")
            self._begin_anew()
        self.take()

    def close(self) -> None:
        if not self.member.left:
            with self.place.held():
                self._offer()
        super().close()

    def kept(self) -> dict[str, Any]:
        with self.place.held():
            return {"outer momentum": cast("Outer", self.member.way).momentum.copy()}

    def restart(self, version: int, state: dict[str, Any]) -> None:
        self._restart(version, lambda: self._flat.read(self._flat.room()))
        momentum = state.get("outer momentum")
        if momentum is not None:
            with self.place.held():
                np.copyto(cast("Outer", self.member.way).momentum, momentum)
        self.take()

"""A script's side of each way to meet: what a step sends, and what the script goes on from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, final

import torch
from torch.optim import Optimizer

from erasurehead.errors import ErasureHeadError
from erasurehead.torch._flat import Flat
from erasurehead.torch._member import Member, Version
from erasurehead.torch._place import Place
from erasurehead.torch._second_moments import SecondMoments, shares_moments
from erasurehead.torch._ways._busy import Busy


@final
class BusyMeeting:
    """A script's side of `Busy`: the change of each step goes out, and the team's newest model comes in."""

    def __init__(
        self,
        place: Place,
        flat: Flat,
        optimizer: Optimizer,
        record: Callable[[Version], None],
        weighted: Literal["steps", "ranks"],
    ) -> None:
        self.place, self._flat = place, flat
        self._moments = SecondMoments(optimizer, flat.parameters) if shares_moments(optimizer) else None
        n_moments = 0 if self._moments is None else self._moments.length
        told = flat.room(n_moments + bool(n_moments))
        flat.read(told[: flat.length])
        if self._moments is not None:
            self._moments.read(told[flat.length :])
        self._before = flat.read(flat.room())
        self._sent = flat.room(n_moments)
        self._taken = 0, -1
        self._began = place.now()
        place.expect(told.nbytes)
        with place.held():
            self.member = Member(
                place.port(),
                Busy(told, () if self._moments is None else self._moments.decay, weighted),
                told.copy(),
                frozenset(() if place.joins else range(place.size)),
                record,
            )
            place.begin(self.member)
        place.wait(lambda: self.member.newest[1] >= 0, "the first rank's model")
        self.take()

    def take(self) -> None:
        """Go on from the team's newest model, if there is a newer one."""
        if self.member.newest > self._taken:
            with self.place.held():
                self._taken, newest = self.member.heard(self._taken)[-1]
                self._flat.write(newest)
                self._before[:] = newest[: self._flat.length]
                if self._moments is not None:
                    self._moments.write(newest[self._flat.length :])

    def before(self) -> None:
        """Prepare a step."""
        self.take()
        if self._moments is not None:
            self._moments.add_gradients(self._sent[self._flat.length :])

    def meet(self, samples: float) -> None:
        """Send what the step has changed, and go on from the newest model."""
        self._flat.check()
        change = self._flat.change(self._before, self._sent[: self._flat.length])
        now = self.place.now()
        with self.place.held():
            self.member.offer(self._sent, 1, samples, now - self._began)
        if self.member.forgotten:
            raise ErasureHeadError(
                f"Rank {self.member.rank} was not heard of for so long that the others went on without it, "
                "and they have ended."
            )
        self.place.settle()
        self._began = now
        if self.member.newest > self._taken:
            self.take()
        else:
            self._before += change

    def show(self, optimizer: Optimizer, model: torch.nn.Module, copied: torch.nn.Module) -> None:
        """Write the newest model into a copy."""
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        own = dict(copied.named_parameters())
        parameters = {id(p): own[names[id(p)]] for group in optimizer.param_groups for p in group["params"]}
        flat = Flat([{"params": list(parameters.values())}], copied)
        with self.place.held():
            flat.write(self.member.heard((0, -1))[-1][1])

    def close(self) -> None:
        """Leave; who gathers stays until all have left."""
        if not self.member.left:
            with self.place.held():
                self.member.rest()
            self.place.wait(lambda: self.member.may_leave, "its last change to be added, or the others' to come")
            with self.place.held():
                self.member.leave()

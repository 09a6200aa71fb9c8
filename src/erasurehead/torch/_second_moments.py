"""What optimizers average over steps: read from their state, and replaced by the team's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from inspect import unwrap
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.optim import SGD, Adam, AdamW, NAdam, Optimizer, RAdam, RMSprop

from erasurehead._internal.arrays import Array
from erasurehead._internal.flat_tensors import cut
from erasurehead.torch._flat import incoming, outgoing, parts
from erasurehead.torch._rank_model import TeamMoments, TeamMomentum
from erasurehead.torch._ways._busy import totals

Cut: TypeAlias = Callable[[Array, Iterable[torch.Tensor]], Iterable[tuple[torch.Tensor, torch.Tensor]]]
"""Tensors, each with its part of a vector."""


class SharedMomentum(TeamMomentum):
    """The momentum of PyTorch's SGD.

    Arguments:
        optimizer: its rates and buffers.
        there: returns a version of the team's model, and perhaps more, as a tensor where the model is.
    """

    def __init__(self, optimizer: Optimizer, there: Callable[[Array], torch.Tensor]) -> None:
        super().__init__()
        self._optimizer, self._there = optimizer, there
        self._kept: dict[torch.Tensor, torch.Tensor] = {}  # the team's last ones, of Nesterov's

    def keep(self) -> None:
        self._kept = {}
        for group in self._optimizer.param_groups:
            for parameter in group["params"] if group["nesterov"] else ():
                buffer = self._optimizer.state.get(parameter, {}).get("momentum_buffer")
                self._kept[parameter] = torch.zeros_like(parameter) if buffer is None else buffer.to_dense().clone()

    def set(self, before: Array, newest: Array, steps: float) -> None:
        every = [parameter for group in self._optimizer.param_groups for parameter in group["params"]]
        rates = (totals(newest, len(every)) - totals(before, len(every))).tolist()
        olds, news = (cut(self._there(version), every) for version in (before, newest))
        both = zip(every, olds, news, rates, strict=True)
        for group in self._optimizer.param_groups:
            for parameter, old, new, rate in islice(both, len(group["params"])):
                state: dict[str, Any] = self._optimizer.state.get(parameter, {})
                if state.get("momentum_buffer") is not None and rate:
                    buffer = state["momentum_buffer"] = state["momentum_buffer"].to_dense()  # it begins as a gradient
                    alike = buffer.device == old.device
                    (torch.sub(old, new, out=buffer) if alike else buffer.copy_(old - new)).mul_(1.0 / rate)
                    if parameter in self._kept:
                        decay, kept = float(group["momentum"]), self._kept[parameter].to(buffer)
                        self._kept[parameter] = kept.copy_(buffer.add_(kept, alpha=decay).div_(1.0 + decay))


class SharedMoments(TeamMoments):
    """The moments in the state of an optimizer of PyTorch.

    Arguments:
        optimizer: one that `shares_moments` knows.
        parameters: all that it trains, each once, in the order of their groups.
    """

    def __init__(self, optimizer: Optimizer, parameters: list[torch.Tensor]) -> None:
        self._optimizer, self._parameters = optimizer, parameters
        self._keys = ("square_avg",) if isinstance(optimizer, RMSprop) else ("exp_avg", "exp_avg_sq")
        self.first = len(self._keys) > 1
        self._steps = [0.0] * len(parameters)  # those of the team
        self.n_parameters = sum(parameter.numel() for parameter in parameters)

    @property
    def decay(self) -> tuple[tuple[int, float, float], ...]:
        found: list[tuple[int, float, float]] = []
        end = 0
        for group in self._optimizer.param_groups:
            end += sum(parameter.numel() for parameter in group["params"])
            first, second = group["betas"] if self.first else (0.0, group["alpha"])
            found.append((end, float(first), float(second)))
        return tuple(found)

    def _parts(self, vector: Array, cut: Cut) -> Iterator[tuple[torch.Tensor, torch.Tensor, dict[str, Any]]]:
        """Yield each moment that there is, its part of a vector, and the state that it is of."""
        for number, key in enumerate(self._keys):
            for parameter, own in cut(vector[number * self.n_parameters :], self._parameters):
                state: dict[str, Any] = self._optimizer.state.get(parameter, {})
                if key in state:
                    yield state[key], own, state

    def read(self, out: Array) -> None:
        out[:] = 0.0
        for moment, own, _ in self._parts(out, parts):
            own.copy_(moment)
        for place, parameter in enumerate(self._parameters, self.length):
            out[place] = float(self._optimizer.state.get(parameter, {}).get("step", 0.0))

    def write(self, newest: Array) -> None:
        self._steps = totals(newest, len(self._parameters)).tolist()
        begin = len(newest) - 1 - 2 * len(self._parameters) - self.length
        for moment, own, state in self._parts(newest[begin:], incoming):
            moment.copy_(own)
            largest = state.get("max_exp_avg_sq")
            if largest is not None and moment is state[self._keys[-1]]:
                torch.maximum(largest, moment, out=largest)
        counted = zip(self._parameters, self._steps, strict=True)
        for group in self._optimizer.param_groups:
            for parameter, steps in islice(counted, len(group["params"])):
                state: dict[str, Any] = self._optimizer.state.get(parameter, {})
                if "mu_product" in state:
                    _follow(state, int(steps), group["betas"][0], group["momentum_decay"])
                if isinstance(state.get("step"), torch.Tensor):
                    state["step"].fill_(steps)
                elif "step" in state:
                    state["step"] = int(steps)

    def prepare(self, out: Array, ranks: int) -> None:
        with outgoing(out, self._parameters) as each:
            both = zip(each, self._steps, strict=True)
            for group, (_, _, second) in zip(self._optimizer.param_groups, self.decay, strict=True):
                for (parameter, own), steps in islice(both, len(group["params"])):
                    self._square(group, parameter, own)
                    moment = self._optimizer.state.get(parameter, {}).get(self._keys[-1])
                    if steps and moment is not None and second and parameter.grad is not None:
                        squared = own.to(moment)
                        moment.addcmul_(squared, squared, value=-(1.0 - second) / second * (1.0 - 1.0 / ranks))

    def _square(self, group: dict[str, Any], parameter: torch.Tensor, out: torch.Tensor) -> None:
        """Write what the optimizer will square of a parameter."""
        if parameter.grad is None:
            out.zero_()
            return
        out.copy_(parameter.grad.to_dense())
        if group.get("maximize"):
            out.neg_()
        coupled = not (group.get("decoupled_weight_decay") or isinstance(self._optimizer, AdamW))
        if coupled and group["weight_decay"]:
            out.add_(parameter.detach().to(out), alpha=group["weight_decay"])


def _follow(state: dict[str, Any], steps: int, first: float, decay: float) -> None:
    """Make the product that NAdam has over its steps that of another number of them."""
    own = int(state["step"])
    if steps > own:
        state["mu_product"].mul_(_product(own, steps, first, decay))
    elif steps < own:
        state["mu_product"].fill_(_product(0, steps, first, decay))


@lru_cache(maxsize=16)  # parameters have mostly made the same steps
def _product(after: int, until: int, first: float, decay: float) -> float:
    return float(np.prod(first * (1.0 - 0.5 * 0.96 ** (decay * np.arange(after + 1.0, until + 1.0)))))


def steps_average(optimizer: Optimizer) -> bool:
    """Return whether ranks can step on by themselves and average what came of it, with shared moments if any."""
    return steps_as(optimizer, SGD) or shares_moments(optimizer)


def steps_as(optimizer: Optimizer, *kinds: type[Optimizer]) -> bool:
    """Return whether an optimizer is of one of these kinds, and has no step of its own, as subclasses may."""
    return any(isinstance(optimizer, kind) and unwrap(type(optimizer).step) is unwrap(kind.step) for kind in kinds)


def shares_moments(optimizer: Optimizer) -> bool:
    """Return whether an optimizer divides by the root of a second moment, and averages no more than those know of.

    A rank's own mean (`centered`) would not fit the team's second moment: their difference may be below 0. And what
    RMSprop has divided is averaged (`momentum`) by each rank alone.
    """
    known = steps_as(optimizer, Adam, AdamW, NAdam, RAdam, RMSprop)
    return known and not any(group.get("centered") or group.get("momentum") for group in optimizer.param_groups)

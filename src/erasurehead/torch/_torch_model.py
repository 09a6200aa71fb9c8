"""A module and its optimizer of PyTorch, as meetings see them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from itertools import islice
from math import isclose
from typing import Any, cast, final

import torch
from torch.optim import SGD, Optimizer

from erasurehead._internal.arrays import Array
from erasurehead.torch._flat import Flat, finite
from erasurehead.torch._optimizer import later_group
from erasurehead.torch._rank_model import RankModel
from erasurehead.torch._second_moments import SharedMoments, SharedMomentum, shares_moments, steps_as

_SCHEDULED = "lr", "momentum", "betas", "weight_decay"
"""What schedulers change of a group: each by the steps of its own rank."""


@final
class OptimizedModule(Flat, RankModel):
    """The parameters that an optimizer has, and the buffers of their model, with the optimizer.

    Arguments:
        optimizer: the wrapped one.
        model: the model.
    """

    ends_step = "optimizer.step()"
    weighs = "call team.backward((losses, weights)), with one of each a sample"

    def __init__(self, optimizer: Optimizer, model: torch.nn.Module) -> None:
        super().__init__(optimizer.param_groups, model)
        self._optimizer, self.n_tensors = optimizer, len(self.parameters)
        self.sizes = [parameter.numel() for parameter in self.parameters]
        self._stepped: list[tuple[torch.device, Any]] = []
        self._agreed = self.rates

    @property
    def rates(self) -> list[float]:
        own = [group[key] for group in self._optimizer.param_groups for key in _SCHEDULED if key in group]
        return [float(one) for each in own for one in _each(each)]

    def check(self) -> None:
        super().check()
        if sum(len(group["params"]) for group in self._optimizer.param_groups) != self.n_tensors:
            raise later_group()

    def moments(self) -> SharedMoments | None:
        return SharedMoments(self._optimizer, self.parameters) if shares_moments(self._optimizer) else None

    def momentum(self) -> SharedMomentum | None:
        return SharedMomentum(self._optimizer, self.there) if steps_as(self._optimizer, SGD) else None

    def counts(self, out: Array) -> None:
        known, place = shares_moments(self._optimizer), 0
        for group in self._optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    out[place] = 1.0 if known else float(group["lr"])
                place += 1

    @contextmanager
    def hooked(self, call: Callable[[], None]) -> Generator[None]:
        def called(*_: object) -> None:
            call()

        hook = self._optimizer.register_step_pre_hook(called)  # after those of the script, which may clip
        try:
            yield
        finally:
            hook.remove()

    def finite(self) -> bool:
        return finite([parameter.detach() for parameter in self.parameters])

    def finite_gradients(self) -> bool:
        return finite([each.grad for each in self.parameters if each.grad is not None])

    @contextmanager
    def at_rates(self, rates: Sequence[float]) -> Generator[None]:
        groups = self._optimizer.param_groups
        before = [{key: group[key] for key in _SCHEDULED if key in group} for group in groups]
        means = (  # to the bit where they are as they were agreed on
            own if isclose(mean, own, rel_tol=1e-6) else mean for mean, own in zip(rates, self._agreed, strict=True)
        )
        try:
            for group, own in zip(groups, before, strict=True):
                for key, one in own.items():
                    every = tuple(islice(means, len(_each(one))))
                    group[key] = every if isinstance(one, tuple) else every[0]
            yield
        finally:
            for group, own in zip(groups, before, strict=True):
                group.update(own)

    def packed(self) -> Any:
        return [
            {
                key: one
                for key, one in dict[str, Any](self._optimizer.state.get(parameter, {})).items()
                if isinstance(one, torch.Tensor | int | float)
            }
            for parameter in self.parameters
        ]

    def unpack(self, packed: Any) -> None:
        kept = iter(packed)
        for group in self._optimizer.param_groups:
            counts_there = group.get("fused") or group.get("capturable")  # the steps; others count them on the host
            for parameter, own in zip(group["params"], kept, strict=False):
                for key, one in own.items():
                    moves = isinstance(one, torch.Tensor) and (one.dim() or counts_there)
                    self._optimizer.state[parameter][key] = one.to(parameter.device) if moves else one

    def write(self, vector: Array) -> None:
        super().write(vector)
        self.stepped()

    def stepped(self) -> None:
        devices = {parameter.device for parameter in self.parameters if parameter.is_cuda}
        self._stepped = [(each, torch.cuda.current_stream(each).record_event()) for each in devices]

    def await_step(self) -> None:
        for device, stepped in self._stepped:  # another thread has a stream of its own
            torch.cuda.current_stream(device).wait_event(stepped)


def _each(setting: Any) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", setting) if isinstance(setting, tuple) else (setting,)

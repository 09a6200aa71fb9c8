"""The second moments of optimizers that have them: read from their state, and replaced by the team's."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim import SGD, Adam, AdamW, NAdam, Optimizer, RAdam, RMSprop

from erasurehead._internal.arrays import Array


class SecondMoments:
    """The running means of squared gradients in an optimizer's state.

    Arguments:
        optimizer: one that `shared` knows.
        parameters: all that it trains, each once, in the order of their groups.
    """

    def __init__(self, optimizer: Optimizer, parameters: list[torch.Tensor]) -> None:
        self._optimizer, self._parameters = optimizer, parameters
        self._key = "square_avg" if isinstance(optimizer, RMSprop) else "exp_avg_sq"
        self.length = sum(parameter.numel() for parameter in parameters)

    @property
    def decay(self) -> tuple[tuple[int, float], ...]:
        """Where parameters of a group end, and by what their moments are multiplied at each version."""
        found: list[tuple[int, float]] = []
        end = 0
        for group in self._optimizer.param_groups:
            end += sum(parameter.numel() for parameter in group["params"])
            found.append((end, float(group["alpha"] if self._key == "square_avg" else group["betas"][1])))
        return tuple(found)

    def read(self, out: Array) -> None:
        """Copy the moments, and then the number of steps, into a vector; 0 where there are none yet."""
        target, begin, steps = torch.from_numpy(out), 0, 0.0  # pyright: ignore[reportUnknownMemberType]
        out[:] = 0.0
        for parameter in self._parameters:
            state: dict[str, Any] = self._optimizer.state.get(parameter, {})
            if self._key in state:
                target[begin : begin + parameter.numel()].view(parameter.shape).copy_(state[self._key])
                steps = max(steps, float(state["step"]))
            begin += parameter.numel()
        out[-1] = steps

    def write(self, vector: Array) -> None:
        """Replace the moments by the team's, where there are any."""
        source, begin = torch.from_numpy(vector), 0  # pyright: ignore[reportUnknownMemberType]
        for parameter in self._parameters:
            state: dict[str, Any] = self._optimizer.state.get(parameter, {})
            if self._key in state:
                team = source[begin : begin + parameter.numel()].view(parameter.shape)
                state[self._key].copy_(team)
                largest = state.get("max_exp_avg_sq")
                if largest is not None:
                    torch.maximum(largest, state[self._key], out=largest)
                if isinstance(state["step"], torch.Tensor):
                    state["step"].fill_(float(vector[-1]))
                else:
                    state["step"] = int(vector[-1])
            begin += parameter.numel()

    def add_gradients(self, out: Array) -> None:
        """Copy what the optimizer will square into a vector: the gradients, with what decays weights through them."""
        target, begin = torch.from_numpy(out), 0  # pyright: ignore[reportUnknownMemberType]
        for group in self._optimizer.param_groups:
            coupled = not (group.get("decoupled_weight_decay") or isinstance(self._optimizer, AdamW))
            for parameter in group["params"]:
                end = begin + parameter.numel()
                own = target[begin:end].view(parameter.shape)
                if parameter.grad is None:
                    own.zero_()
                else:
                    own.copy_(parameter.grad)
                    if coupled and group["weight_decay"]:
                        own.add_(parameter.detach().to(own), alpha=group["weight_decay"])
                begin = end


def steps_average(optimizer: Optimizer) -> bool:
    """Return whether ranks can step on by themselves and average what came of it, with shared second moments if any."""
    return isinstance(optimizer, SGD) or shares_moments(optimizer)


def shares_moments(optimizer: Optimizer) -> bool:
    """Return whether an optimizer divides by the root of a second moment that must be the team's."""
    return isinstance(optimizer, Adam | AdamW | NAdam | RAdam | RMSprop)

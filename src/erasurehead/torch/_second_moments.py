"""What optimizers average over steps: read from their state, and replaced by the team's."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch.optim import SGD, Adam, AdamW, NAdam, Optimizer, RAdam, RMSprop

from erasurehead._internal.arrays import Array
from erasurehead.torch._flat import parts
from erasurehead.torch._ways._busy import COUNTED


class SharedMomentum:
    """The momentum of SGD, which is how far the model moves in a step.

    Arguments:
        optimizer: its rates and buffers.
    """

    def __init__(self, optimizer: SGD) -> None:
        self._optimizer = optimizer
        self._before: Array | None = None

    def forget(self) -> None:
        """Begin anew after a model that no steps led to, such as a loaded one."""
        self._before = None

    def write(self, newest: Array) -> None:
        """Replace the momentum by that with which the team came from the model of the last call to this one.

        Arguments:
            newest: the model, and a counter of steps by ranks; it stays as it is.
        """
        before, self._before = self._before, newest
        if before is None:
            return
        steps = float(newest[-1] - before[-1]) % COUNTED
        if not 0.0 < steps < 0.5 * COUNTED:
            return
        every = [parameter for group in self._optimizer.param_groups for parameter in group["params"]]
        both = zip(parts(before, every), parts(newest, every), strict=True)
        for group in self._optimizer.param_groups:
            scale = (-1.0 if group["maximize"] else 1.0) / (steps * float(group["lr"]) or float("inf"))
            for (parameter, old), (_, new) in islice(both, len(group["params"])):
                buffer = self._optimizer.state.get(parameter, {}).get("momentum_buffer")
                if buffer is not None and scale:
                    alike = buffer.device == old.device
                    (torch.sub(old, new, out=buffer) if alike else buffer.copy_(old - new)).mul_(scale)


class SharedMoments:
    """The running means of gradients, where there are, and of their squares in an optimizer's state.

    Arguments:
        optimizer: one that `shares_moments` knows.
        parameters: all that it trains, each once, in the order of their groups.
    """

    def __init__(self, optimizer: Optimizer, parameters: list[torch.Tensor]) -> None:
        self._optimizer, self._parameters = optimizer, parameters
        self._keys = ("square_avg",) if isinstance(optimizer, RMSprop) else ("exp_avg", "exp_avg_sq")
        self._versions = 0.0
        self.n_parameters = sum(parameter.numel() for parameter in parameters)

    @property
    def first(self) -> bool:
        """Whether there are first moments."""
        return len(self._keys) > 1

    @property
    def length(self) -> int:
        """Number of elements of all moments."""
        return len(self._keys) * self.n_parameters

    @property
    def decay(self) -> tuple[tuple[int, float, float], ...]:
        """Where parameters of a group end, and by what their moments are multiplied at each version."""
        found: list[tuple[int, float, float]] = []
        end = 0
        for group in self._optimizer.param_groups:
            end += sum(parameter.numel() for parameter in group["params"])
            first, second = group["betas"] if self.first else (0.0, group["alpha"])
            found.append((end, float(first), float(second)))
        return tuple(found)

    def _parts(self, vector: Array) -> Iterator[tuple[torch.Tensor, torch.Tensor, dict[str, Any]]]:
        """Yield each moment that there is, its part of a vector, and the state that it is of."""
        for number, key in enumerate(self._keys):
            for parameter, own in parts(vector[number * self.n_parameters :], self._parameters):
                state: dict[str, Any] = self._optimizer.state.get(parameter, {})
                if key in state:
                    yield state[key], own, state

    def read(self, out: Array) -> None:
        """Copy the moments, and then the number of steps, into a vector; 0 where there are none yet."""
        out[:] = 0.0
        for moment, own, state in self._parts(out):
            own.copy_(moment)
            out[-1] = max(out[-1], float(state["step"]))

    def write(self, vector: Array) -> None:
        """Replace the moments by the team's, where there are any."""
        self._versions = float(vector[-1])
        for moment, own, state in self._parts(vector):
            moment.copy_(own)
            largest = state.get("max_exp_avg_sq")
            if largest is not None and moment is state[self._keys[-1]]:
                torch.maximum(largest, moment, out=largest)
            if isinstance(state["step"], torch.Tensor):
                state["step"].fill_(self._versions)
            else:
                state["step"] = int(self._versions)

    def temper(self, gradients: Array, ranks: int) -> None:
        """Let the next step add the square of this rank's gradient divided by the number of ranks, not the whole.

        So noisy it would be if all ranks' gradients were averaged. It counts in the first versions, which make the
        moment by themselves, and where the moment forgets soon.
        """
        if not self._versions:
            return
        both = parts(gradients, self._parameters)
        for group, (_, _, second) in zip(self._optimizer.param_groups, self.decay, strict=True):
            for parameter, part in islice(both, len(group["params"])):
                moment = self._optimizer.state.get(parameter, {}).get(self._keys[-1])
                if moment is not None and second and parameter.grad is not None:
                    own = part.to(moment)
                    moment.addcmul_(own, own, value=-(1.0 - second) / second * (1.0 - 1.0 / ranks))

    def add_gradients(self, out: Array) -> None:
        """Copy what the optimizer will square into a vector: the gradients, with what decays weights through them."""
        both = parts(out, self._parameters)
        for group in self._optimizer.param_groups:
            coupled = not (group.get("decoupled_weight_decay") or isinstance(self._optimizer, AdamW))
            for parameter, own in islice(both, len(group["params"])):
                if parameter.grad is None:
                    own.zero_()
                else:
                    own.copy_(parameter.grad)
                    if coupled and group["weight_decay"]:
                        own.add_(parameter.detach().to(own), alpha=group["weight_decay"])


def steps_average(optimizer: Optimizer) -> bool:
    """Return whether ranks can step on by themselves and average what came of it, with shared moments if any."""
    return isinstance(optimizer, SGD) or shares_moments(optimizer)


def shares_moments(optimizer: Optimizer) -> bool:
    """Return whether an optimizer divides by the root of a second moment."""
    return isinstance(optimizer, Adam | AdamW | NAdam | RAdam | RMSprop)

"""What a script sees of its team: which rank it is, its optimizer, and the team's model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Literal, cast, final

import torch
from torch.optim import Optimizer

from erasurehead.errors import ErasureHeadError, invalid
from erasurehead.torch._flat import Flat
from erasurehead.torch._meetings import BusyMeeting
from erasurehead.torch._member import Version
from erasurehead.torch._optimizer import Closure, TeamOptimizer
from erasurehead.torch._place import Place

WAYS = ("busy",)


@final
class Team:
    """Ranks that train one model together, each in a process with a loop and an optimizer of its own.

    Made by `join`.

    Attributes:
        rank: number of this rank, from 0.
        size: number of ranks that were started together.
        versions: what this rank has gathered, version by version.
        skipped: number of steps that were not made, as their gradients were not finite.
    """

    def __init__(self, place: Place) -> None:
        self.rank, self.size = place.rank, place.size
        self.versions: list[Version] = []
        self.skipped = 0
        self._place = place
        self._samples = 0.0
        self._optimizer: TeamOptimizer | None = None
        self._model: torch.nn.Module | None = None
        self._meeting: BusyMeeting | None = None
        self._not_finite: Literal["skip", "stop"] = "skip"
        place.at_end(self.close)

    @property
    def first(self) -> bool:
        """Whether this is the rank that logs, evaluates and saves: rank 0, or after its death the next one."""
        return self.rank == (0 if self._meeting is None else self._meeting.member.first)

    @property
    def seconds(self) -> float:
        """Seconds since the team began, on the clock that it runs on."""
        return self._place.now()

    def optimizer(
        self,
        optimizer: Optimizer,
        model: torch.nn.Module,
        way: Literal["busy", "busy-by-rank"] | None = None,
        not_finite: Literal["skip", "stop"] = "skip",
    ) -> TeamOptimizer:
        """Return an optimizer whose steps are the team's; all ranks go on from the first rank's model.

        Arguments:
            optimizer: any optimizer of PyTorch's form, of this rank only.
            model: the model that it trains.
            way: how ranks meet; None for what suits the optimizer.
            not_finite: what to do with a step whose gradients are infinite or no numbers: not to make it, or to raise
                an error.

        Raises:
            InvalidArgument: if these are no optimizer and model that a team can train.
        """
        if not isinstance(cast("object", optimizer), Optimizer):
            raise invalid("optimizer", "must be an optimizer of PyTorch", type(optimizer).__name__)
        if self._optimizer is not None:
            raise invalid("optimizer", "must be the only one of its team", "a second one")
        self._not_finite, self._model = not_finite, model
        if self._place.counts_samples:
            model.register_forward_pre_hook(_counting(model, self.add_samples))
        self._optimizer = TeamOptimizer(optimizer, self._step)
        if self.size > 1:
            weighted = "ranks" if way == "busy-by-rank" else "steps"
            self._meeting = BusyMeeting(
                self._place, Flat(optimizer.param_groups, model), optimizer, self._record, weighted
            )
        return self._optimizer

    def model(self) -> torch.nn.Module:
        """Return a copy of the model with the weights of the team's newest version, as far as this rank has heard."""
        if self._model is None:
            raise invalid("model", "must be given to Team.optimizer first", "none")
        copied = copy.deepcopy(self._model)
        if self._meeting is not None and self._optimizer is not None:
            self._meeting.show(self._optimizer.inner, self._model, copied)
        return copied

    def close(self) -> None:
        """Make no more steps. Who gathers goes on gathering until all others are through, too."""
        if self._meeting is not None:
            self._meeting.close()

    def add_samples(self, samples: float) -> None:
        """Say that the next step is computed from so many more samples; `batches` does."""
        self._samples += samples

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        version = "" if self._meeting is None else f", version {self._meeting.member.newest[1]} of the model"
        return f"rank {self.rank} of {self.size}{version}"

    def _record(self, version: Version) -> None:
        self.versions.append(version)
        self._place.record(version)

    def _step(self, closure: Closure | None) -> float | None:
        optimizer = self._optimizer
        assert optimizer is not None
        if closure is None:
            self._place.compute(self._samples, optimizer.steps)
        if closure is None and not self._finite(optimizer):
            self._samples = 0.0
            return None
        if self._meeting is not None:
            self._meeting.before()
        loss = optimizer.inner.step() if closure is None else optimizer.inner.step(closure)
        if closure is not None:
            self._place.compute(self._samples, optimizer.steps)
        samples, self._samples = self._samples, 0.0
        if self._meeting is not None:
            self._meeting.meet(samples)
        return loss

    def _finite(self, optimizer: TeamOptimizer) -> bool:
        """Whether all gradients are finite; by policy it is an error if they are not."""
        if self.size == 1 and self._not_finite == "skip":
            return True
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        sums = [gradient.sum() for gradient in gradients]
        if bool(torch.isfinite(torch.stack([each.float() for each in sums]).sum())) if sums else True:
            return True
        if self._not_finite == "stop":
            raise ErasureHeadError(
                f"Rank {self.rank} has gradients that are not finite in its step {optimizer.steps + 1}."
            )
        self.skipped += 1
        return False


def _counting(
    model: torch.nn.Module, add_samples: Callable[[int], None]
) -> Callable[[torch.nn.Module, tuple[Any, ...]], None]:
    """Return a hook that counts the samples of forward passes that are trained on, by the first tensor's length."""

    def count(module: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
        if module is model and module.training and torch.is_grad_enabled():  # a copy has the hook, too
            add_samples(next((len(each) for each in inputs if isinstance(each, torch.Tensor) and each.dim()), 0))

    return count

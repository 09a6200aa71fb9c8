"""`Team.backward`: the gradient of a rank's tasks, each with the coefficient that its code has for it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, TypeAlias, cast, final

import numpy as np
import torch
from torch import nn

from erasurehead.errors import UNSAID, InvalidArgument, invalid
from erasurehead.torch import _generators
from erasurehead.torch._coded import CodedMeeting, TaskBatch

Losses: TypeAlias = torch.Tensor | tuple[torch.Tensor, torch.Tensor]
"""One loss a sample; or of each sample the sum of its losses, and of their weights. A function may return one sum."""

LossesOf: TypeAlias = Callable[[Any], Losses]

_AVERAGES = nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm
_SOME = 16  # gradients, and numbers of each, that are looked at
_ROUNDING = 1e-2  # of bfloat16, and more
_NAMED: Any = Mapping
_SEVERAL: Any = (tuple, list)
_DRAWS = torch.Generator, np.random.Generator, np.random.RandomState, random.Random


class _LeftOff(BaseException):
    """Raised within a backward pass whose step the others have made."""


def go_backward(losses: Losses | LossesOf, batch: Any) -> torch.Tensor:
    """Go backward from the mean of losses, and return it."""
    found, weights = _checked(losses(batch) if callable(losses) else losses)
    mean: Any = found.sum() / _sum(found, weights)
    mean.backward()
    return mean.detach()


@final
class CodedBackward:
    """Goes backward from losses, once for each batch of a rank.

    Arguments:
        model: whose modules may draw random numbers, or mix samples.
        meeting: which says what the batch's tasks are.
    """

    def __init__(self, model: Any, meeting: CodedMeeting) -> None:
        self._model, self._meeting = model, meeting
        self._apart: dict[tuple[bool, ...], bool] = {}  # by modes of modules: whether tasks are computed one by one
        self._runs = False  # a backward pass
        self._left = False  # gradients, at which no step has looked yet
        self._seen = torch.zeros(0)  # some of the numbers in them
        self._factor = 0.0  # by which all were multiplied before the last step, as a scaler does; 0 before the first

    def __call__(self, losses: Losses | LossesOf, batch: Any) -> torch.Tensor:
        """Compute gradients, and return the mean loss of this rank's samples."""
        meeting = self._meeting
        tasks = meeting.batch
        if callable(losses) and batch is None:
            raise invalid("batch", "must be given with a function", batch, "call team.backward(function, batch)")
        if tasks is None or tasks.leaves_off:
            raise invalid(
                "team.backward",
                "must have one call for each batch of team.batches",
                "losses of other samples" if tasks is None else "a second call",
            )
        if meeting.alike:
            return self._together(tasks, losses(batch) if callable(losses) else losses)
        if any(parameter.grad is not None and bool(parameter.grad.any()) for parameter in self._hooked):
            self._refuse_more("there are gradients already")
        if not callable(losses):
            self._check_ready(tasks)
            self._check_apart()
            return self._together(tasks, losses)
        modes = tuple(module.training for module in self._model.modules())
        if modes not in self._apart:
            self._check_ready(tasks)
            self._apart[modes] = self._tried(losses, batch, tasks)
        if not self._apart[modes]:
            before = self._buffers()
            found = losses(batch)
            if self._left_nothing(tasks.ready, before):
                return self._together(tasks, found)
            self._restore(before)
            self._apart[modes] = True
        else:
            self._check_ready(tasks)
        return self._one_by_one(tasks, losses, batch)

    @property
    def samples(self) -> int:
        """Number of samples of the batch under way."""
        return 0 if self._meeting.batch is None else sum(self._meeting.batch.counts)

    def _together(self, tasks: TaskBatch, found: Losses) -> torch.Tensor:
        """Go backward from the losses of all tasks, which come from one forward pass."""
        losses, weights = _checked(found, self.samples, not self._meeting.adds_up)
        coded, whole = losses.sum(), _sum(losses, weights)
        total = coded.detach()
        tasks.weight = size = whole
        if not self._meeting.adds_up:
            factors: Any = np.repeat(tasks.coefficients, tasks.counts)
            each: Any = np.ones(len(factors)) if weights is None else weights.double().cpu().numpy()
            coded = (losses * losses.new_tensor(factors)).sum()
            tasks.weight, size = float(each @ factors), float(each @ np.abs(factors))
        self._go(tasks, coded, size)
        return total / whole

    def _one_by_one(self, tasks: TaskBatch, function: LossesOf, batch: Any) -> torch.Tensor:
        """Go backward from the losses of all tasks, each of which has a forward pass and random numbers of its own."""
        meeting, before = self._meeting, self._buffers()
        coded, total, weighed, size = cast("torch.Tensor", 0.0), cast("torch.Tensor", 0.0), 0.0, 0.0
        tasks.buffers = np.zeros_like(meeting.before)
        for task, piece, count, factor in zip(
            tasks.tasks, _pieces(batch, tasks.counts), tasks.counts, tasks.coefficients.tolist(), strict=True
        ):
            if weighed and meeting.overtaken:
                break
            self._restore(before)
            _generators.begin(tasks.seed(task))
            losses, weights = _checked(function(piece), count)
            summed, weight = losses.sum(), _sum(losses, weights)
            coded, total = coded + factor * summed, total + summed.detach()
            weighed, size = weighed + weight, size + abs(factor) * weight
            tasks.weight += factor * weight
            tasks.buffers += factor * weight * (meeting.buffers() - meeting.before)
        self._go(tasks, coded, size)
        return total / weighed

    def _go(self, tasks: TaskBatch, coded: torch.Tensor, size: float) -> None:
        """Go backward, to the end or until the others have made the step."""
        tasks.divisor, tasks.leaves_off = size or 1.0, True  # gradients are about as large as those of a mean
        parameters, self._runs = self._hooked, True
        try:
            cast("Any", coded / tasks.divisor).backward()
        except _LeftOff:
            for parameter in parameters:  # a scaler, or clipping, wants some
                parameter.grad = torch.zeros_like(parameter)
        finally:
            self._runs = False
        self._left, self._seen = True, self._some()

    def _some(self) -> torch.Tensor:
        """Return some numbers of some gradients; nothing can be read from sparse ones."""
        every = [each.grad.detach() for each in self._hooked if each.grad is not None and not each.grad.is_sparse]
        few = every[:: max(len(every) // _SOME, 1)]
        some = [each.reshape(-1)[:: max(each.numel() // _SOME, 1)].to(few[0].device) for each in few]
        return torch.cat(some).double().cpu() if some else torch.zeros(0)

    def check_unchanged(self) -> None:
        """Refuse what the script has done to gradients, but for a factor that they have in common in all steps.

        A scaler divides them by such a one, or by it and powers of two; clipping does not.
        """
        left, self._left, before = self._left, False, self._seen
        if not left or self._meeting.overtaken:
            return
        factor = 1.0
        if not torch.equal(after := self._some(), before):  # their versions would not tell of `gradient.data`
            factor = float(after @ before / (before @ before)) if len(after) == len(before) else 0.0
            if not factor > 0.0 or float((after - factor * before).abs().max()) > _ROUNDING * float(after.abs().max()):
                self._refuse_changed()
        doublings = math.log2(factor / (self._factor or factor))
        self._factor = factor
        if abs(doublings - round(doublings)) > _ROUNDING:
            self._refuse_changed()

    def _refuse_changed(self) -> None:
        raise InvalidArgument(
            "gradients",
            "must stay as team.backward has left them",
            sentence=f"Between team.backward and optimizer.step(), the gradients of rank {self._meeting.member.rank} "
            "were changed. They are a part of the team's gradient, and what clips or changes them must have the whole: "
            "call it in a hook, by optimizer.register_step_pre_hook.",
        )

    @cached_property
    def _hooked(self) -> list[torch.Tensor]:
        """Parameters, each of which looks, when it has its gradient, whether there is any use in going on."""
        found = [parameter for parameter in self._model.parameters() if parameter.requires_grad]
        for parameter in found:
            parameter.register_post_accumulate_grad_hook(self._look)
        return found

    def _look(self, _: torch.Tensor) -> None:
        if self._runs and self._meeting.overtaken:
            raise _LeftOff
        batch = self._meeting.batch
        if not self._runs and batch is not None and batch.leaves_off and not self._meeting.alike:
            self._refuse_more("another backward pass follows")

    def _refuse_more(self, what: str) -> None:
        self._refuse(
            "gradients",
            "must be those of team.backward alone",
            f"a rank's gradient has a coefficient for each task, and nothing can be added to it, but {what} beside "
            "that of team.backward. Call optimizer.zero_grad() before it, and put penalties into the losses.",
        )

    # What a forward pass leaves and draws

    def _buffers(self) -> list[torch.Tensor]:
        return [buffer.detach().clone() for buffer in self._model.buffers()]

    def _restore(self, before: Iterable[torch.Tensor]) -> None:
        for buffer, own in zip(self._model.buffers(), before, strict=True):
            if buffer.shape == own.shape:
                buffer.data.copy_(own)  # which a backward pass through batch norm does not notice
            else:  # a cache that grows
                buffer.data = own.clone()

    def _left_nothing(self, states: _generators.States, buffers: Iterable[torch.Tensor]) -> bool:
        """Whether a forward pass has drawn nothing, and left all buffers as they were."""
        unchanged = all(map(torch.equal, self._model.buffers(), buffers))
        return unchanged and _generators.same(_generators.states(), states)

    def _tried(self, function: LossesOf, batch: Any, tasks: TaskBatch) -> bool:
        """Return whether tasks must be computed one by one: the first one comes to something else with the others.

        Raises:
            InvalidArgument: if it does when it is computed again, or the function goes backward itself.
        """
        before, count, piece = self._buffers(), tasks.counts[0], _pieces(batch, tasks.counts)[0]
        seed = tasks.seed(tasks.tasks[0])
        gradients = [parameter.grad for parameter in self._hooked]
        found: list[torch.Tensor] = []
        apart = False
        for given, size in ((piece, count), (piece, count), (batch, self.samples)):
            _generators.begin(seed)
            states = _generators.states()
            losses = _checked(function(given), size)[0].detach()
            found.append(losses[:count])
            apart = apart or len(losses) < size or not self._left_nothing(states, before)
            self._restore(before)
        _generators.begin(tasks.seed(*tasks.tasks))
        if any(parameter.grad is not own for parameter, own in zip(self._hooked, gradients, strict=True)):
            raise invalid("the function of team.backward", "must return losses, and not go backward itself", UNSAID)
        if not _same(*found[:2]):
            self._refuse_other(function, piece, seed, before)
        return apart or not _same(*found[1:])

    def _refuse_other(self, function: LossesOf, piece: Any, seed: int, before: Sequence[torch.Tensor]) -> None:
        """Raise an error that names what is not the same in two runs of a task."""
        runs: list[list[Any]] = [[], []]

        def note(run: list[Any], name: str, module: Any, _: object, found: Any) -> None:
            run.append((f"module {name!r} ({type(module).__name__})", [each.clone() for each in _tensors(found)]))

        for run in runs:
            hooks = [one.register_forward_hook(partial(note, run, name)) for name, one in self._model.named_modules()]
            _generators.begin(seed)
            function(piece)
            self._restore(before)
            for hook in hooks:
                hook.remove()
        names = (name for (name, ones), (_, others) in zip(*runs, strict=False) if not all(map(_same, ones, others)))
        name = next(names, "the function that team.backward was given")
        raise InvalidArgument(
            "model" if name.startswith("module") else "losses",
            "must give the same losses in two runs of one task",
            sentence=f"In two runs of one task, with the same weights and seeds, {name} gave different results. What a "
            "task comes to must follow from weights, samples, and the generators of PyTorch, NumPy and Python, which "
            "begin with a seed of the step and the task: let it draw from these, and keep nothing from run to run.",
        )

    def _check_ready(self, tasks: TaskBatch) -> None:
        """Refuse that the script has drawn numbers since it has its batch."""
        if not _generators.same(_generators.states(), tasks.ready):
            self._refuse_together("random numbers were drawn")

    def _check_apart(self) -> None:
        """Refuse losses of several tasks from a forward pass that has mixed their samples."""
        for name, module in self._model.named_modules():
            what = f"module {name!r} ({type(module).__name__})"
            if module.training and isinstance(module, _AVERAGES):
                self._refuse_together(f"{what} has averaged over samples")
            if module.training and any(isinstance(each, _DRAWS) for each in vars(module).values()):
                self._refuse_together(f"{what} has a generator of its own, and may have drawn from it,")
        if not np.array_equal(self._meeting.buffers(), self._meeting.before):
            self._refuse_together("the model has changed its buffers")

    def _refuse_together(self, what: str) -> None:
        self._refuse(
            "losses",
            "must be those of each task alone",
            "ranks share single tasks, so what a task comes to must not depend on those beside it, but "
            f"{what} for all tasks of rank {self._meeting.member.rank} together. Give team.backward a function that "
            "returns the losses of a batch, and the batch: each task then has a forward pass and random numbers of its "
            "own. What the script itself draws belongs in that function, or in the data set.",
        )

    def _refuse(self, argument: str, rule: str, why: str) -> None:
        raise InvalidArgument(argument, rule, sentence=f"With the scheme {self._meeting.scheme.name}, {why}")


def _checked(found: Any, count: int | None = None, single: bool = False) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return losses, and their weights if they have any.

    Arguments:
        found: what a script gave, or what its function returned.
        count: number of samples; None if unknown.
        single: whether they must be one a sample, and one sum with its weight is not enough.

    Raises:
        InvalidArgument: if they are not one a sample, or their weights are none.
    """
    pair: list[Any] = list(found) if isinstance(found, _SEVERAL) else [found]
    if not 1 <= len(pair) <= 2 or not all(isinstance(each, torch.Tensor) for each in pair):
        raise invalid(
            "losses",
            "must be a tensor with one loss a sample, or such a tensor and one of their weights",
            " and ".join(type(each).__name__ for each in pair),
        )
    losses, weights = pair[0], pair[1].detach() if len(pair) > 1 else None
    if losses.dim() != 1 or count not in (None, len(losses)):
        if single or losses.dim() or weights is None:
            raise invalid(
                "losses",
                "must have one number for each " + ("sample" if count is None else f"of {count} samples"),
                f"a tensor of shape {tuple(losses.shape)}",
                "take reduction='none'; where a sample has several losses, or some do not count, return their sums a "
                "sample, and the sums of their weights",
            )
        losses, weights = losses.reshape(1), weights.reshape(-1)
    if not losses.requires_grad:
        raise invalid("losses", "must depend on the model's weights", "a tensor without a gradient")
    if weights is not None and (weights.shape != losses.shape or not bool((weights >= 0).all())):
        raise invalid("weights", "must be one for each loss, and at least 0", weights)
    return losses.to(torch.promote_types(losses.dtype, torch.float32)), weights


def _sum(losses: torch.Tensor, weights: torch.Tensor | None) -> float:
    return float(len(losses) if weights is None else weights.sum())


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two results of one computation are the same, but for the order in which a GPU may have added up."""
    if one.shape != other.shape or not one.is_floating_point() or not one.numel():
        return torch.equal(one, other)
    most = float(torch.nan_to_num(one).abs().max())
    return torch.allclose(one, other, rtol=0.0, atol=torch.finfo(one.dtype).eps ** 0.5 * most, equal_nan=True)


def _tensors(found: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of a nest of tuples, lists and dicts."""
    if isinstance(found, torch.Tensor):
        yield found.detach()
    elif isinstance(found, (_NAMED, *_SEVERAL)):
        for one in found.values() if isinstance(found, _NAMED) else found:
            yield from _tensors(one)


def _pieces(batch: Any, counts: Sequence[int]) -> list[Any]:
    """Return a batch cut into tasks."""
    ends = np.cumsum(counts).tolist()
    return [_cut(batch, slice(end - count, end), ends[-1]) for count, end in zip(counts, ends, strict=True)]


def _cut(batch: Any, own: slice, total: int) -> Any:
    """Return some samples of a batch: of tensors by their first axis, of lists of texts, and of nests of these."""
    kind = batch.__class__
    if isinstance(batch, _NAMED):
        return kind({key: _cut(one, own, total) for key, one in batch.items()})
    if isinstance(batch, _SEVERAL) and not isinstance([*batch, None][0], str | int | float):
        found = [_cut(one, own, total) for one in batch]
        return kind(*found) if hasattr(kind, "_fields") else kind(found)
    if isinstance(batch, str) or not getattr(batch, "shape", hasattr(batch, "__len__")):
        return batch
    if len(batch) != total:
        raise invalid(
            "batch", f"must have this rank's {total} samples along the first axis of each tensor", f"{len(batch)} there"
        )
    return batch[own]

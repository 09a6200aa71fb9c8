"""A script's side of coded gradients: each rank has the batch of its group, and all have the same step."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, final

import numpy as np

from erasurehead import codes, schemes
from erasurehead._internal.arrays import Array, IntArray, finite
from erasurehead._internal.shares import parts
from erasurehead.errors import ErasureHeadError, InvalidArgument, check_count, invalid, numbered
from erasurehead.schemes import wait_rules
from erasurehead.torch import _generators
from erasurehead.torch._epochs import Feed, mixed
from erasurehead.torch._meetings import GradientMeeting
from erasurehead.torch._membership import MINUTE
from erasurehead.torch._ways._base import Way
from erasurehead.torch._ways._coded import TAIL, Coded, lost, workers_of

if TYPE_CHECKING:
    from erasurehead.schemes import Scheme

_READ = 1 << 30  # beyond numbers of tasks: what is drawn when one is read is not what the model draws for it


def scheme_for(text: str | None, n_ranks: int) -> Scheme:
    """Return the scheme that a text stands for, if ranks with loops of their own can carry it out.

    Arguments:
        text: of a scheme, or of a wait rule for a batch of which each rank has its share.
        n_ranks: number of ranks.

    Raises:
        InvalidArgument: if it is neither, or does not fit.
    """
    if not isinstance(text, str):
        raise invalid("scheme", "must be given with every='gradient'", text, "such as 'exact(load=2)' or 'first(7)'")
    try:
        rule = wait_rules.parse(text)
    except InvalidArgument:
        scheme = schemes.parse_scheme(text, n_ranks)
    else:
        scheme = schemes.custom(codes.uncoded(n_ranks), rule, schemes.ByCoverage(), name=text)
    code, why = scheme.code, ""
    if not code.one_message_each or code.n_pieces > 1:
        why = "has several messages of a rank"
    elif not code.loads.all():
        why = f"leaves {numbered('rank', np.flatnonzero(code.loads == 0).tolist())} without a task"
    elif scheme.aggregation.remembers or scheme.rule.remembers or scheme.by_speed is not None:
        why = "remembers more than one step"
    if why:
        load = code.load
        other = f"exact(load={load})" if load > 1 and n_ranks % load == 0 else "exact(load=2) or first(7)"
        raise invalid(
            "scheme",
            "must take one message of each rank",
            f"{text}, which {why}",
            f"take {other}; erasurehead.train, with problems.torch, carries out any scheme",
        )
    return scheme


@final
@dataclass
class TaskBatch:
    """A rank's batch, task by task.

    Arguments:
        version: of the team's model that it is for.
        worker: of the code whose tasks they are.
        tasks: their numbers.
        counts: number of samples of each task.
        coefficients: what each task counts for in this rank's message.
        seed: returns that of some tasks in this step, by their numbers.

    Attributes:
        ready: states of the generators from when it had been read.
        divisor: by what the gradients are divided; None as long as there are none.
        weight: by what the losses are, with coefficients: the coordinate that goes out behind the gradient.
        buffers: what the tasks have changed of the buffers, with coefficients and weights; None if all of them have
            changed the same ones.
        leaves_off: whether this rank leaves it as soon as the others have made its step.
    """

    version: int
    worker: int
    tasks: list[int]
    counts: list[int]
    coefficients: Array
    seed: Callable[..., int]
    ready: _generators.States = field(default_factory=dict[str, Any])
    divisor: float | None = None
    weight: float = 0.0
    buffers: Array | None = None
    leaves_off: bool = False


@final
class CodedMeeting(GradientMeeting):
    """The sum of the gradients of this rank's tasks goes out, and the mean gradient of the whole batch comes in.

    Arguments:
        scheme: who computes what, and for whom a step waits; the others are those of `Meeting`.

    Attributes:
        batch: of the step under way.
        length: number of steps of an epoch; 0 before the first one.
    """

    more = TAIL
    most_late = 0

    def __init__(self, scheme: Scheme, *arguments: Any) -> None:
        self.scheme = scheme
        self.batch: TaskBatch | None = None
        self.length = 0
        self._made = 0  # steps that were made before what was loaded
        self._loaded: int | None = None  # the length of an epoch there, 0 if it had no steps of all; None once known
        self._whole: frozenset[int] = frozenset()  # ranks that hold all tasks, as was found last
        self._silent_since = math.inf  # when they ceased to hold them
        super().__init__(*arguments)

    def _way(self, told: Array) -> Way:
        return Coded(self.scheme, self._flat.length, told)

    @property
    def made(self) -> int:
        """Number of steps of the team that are in this rank's model."""
        return self._made + max(self.taken[1], 0)

    @cached_property
    def adds_up(self) -> bool:
        """Whether a rank's message is the sum over its batch, so that any backward pass over it will do."""
        return bool((self.scheme.code.encoding.data == 1.0).all())

    @cached_property
    def alike(self) -> bool:
        """Whether ranks that share a task share all, so that a batch may be computed as a whole, whatever it draws."""
        code = self.scheme.code
        tasks = {tuple(code.tasks_of(worker).tolist()) for worker in range(code.n_workers)}
        return self.adds_up and sum(map(len, tasks)) == code.n_tasks

    @property
    def counts_nothing(self) -> bool:
        """Whether the gradient of the step under way is that of a mean of nothing, whatever it is."""
        return self.batch is not None and self.batch.divisor == 0.0

    @property
    def overtaken(self) -> bool:
        """Whether the others have made the step of this rank's batch."""
        return self.member.newest > self.taken

    @property
    def until(self) -> Callable[[], bool] | None:
        return (lambda: self.overtaken) if self.batch is not None and self.batch.leaves_off else None

    @property
    def before(self) -> Array:
        """The buffers as they were before the step under way."""
        return self._before

    def buffers(self) -> Array:
        """Return the buffers as they are."""
        return self._flat.read_buffers(self._before.copy())

    def begin(self, tasks: Callable[[int], IntArray], seed: int) -> list[int]:
        """Return the samples of this rank's next step.

        Arguments:
            tasks: returns the samples of a task.
            seed: of what the model and the data set draw, with the tasks and the step: alike in all that have them.
        """
        if self.batch is not None and self._flat.finite_gradients():
            raise ErasureHeadError(  # else a scaler has left out a step that overflowed, and tries the same batch again
                f"Rank {self.member.rank} has asked team.batches for its next batch without {self._flat.ends_step} "
                "for the one before: each batch is a step of the team. To accumulate gradients, go through one batch "
                "in parts."
            )
        self._check()
        code = self.scheme.code
        worker = workers_of(self._ranks() | {self.member.rank}, code.n_workers)[self.member.rank]
        message = int(code.messages_of(worker)[0])
        own = code.tasks_of_message(message).tolist()
        samples = [tasks(task) for task in own]
        coefficients, seeds = code.coefficients(message)[:, 0], partial(mixed, seed, self.made)
        self.batch = TaskBatch(max(self.taken[1], 0), worker, own, list(map(len, samples)), coefficients, seeds)
        return np.concatenate(samples).tolist()

    def _ranks(self) -> frozenset[int]:
        membership = self.member.membership
        return membership.view.members - membership.ended

    @property
    def under_way(self) -> TaskBatch:
        """The batch of the step under way.

        Raises:
            InvalidArgument: if there is none.
        """
        if self.batch is None:
            raise invalid(
                "every='gradient'", "needs the batches of team.batches", "a step of other samples", "iterate over those"
            )
        return self.batch

    def _complete(self) -> None:
        batch = self.under_way
        if batch.divisor is None and not self.alike:
            raise InvalidArgument(
                "scheme",
                "must have ranks share all tasks or none where team.backward is not called",
                self.scheme.name,
                sentence=f"With the scheme {self.scheme.name}, ranks share single tasks, and must compute each by "
                "itself: before optimizer.step(), call team.backward(losses), with one loss a sample of the batch, in "
                "place of loss.backward().",
            )
        if batch.divisor is None:
            self.weigh(sum(batch.counts))
        if batch.divisor == 0.0:
            self._sent[: self._flat.length] = 0.0
        elif batch.divisor not in (None, 1.0):
            self._sent[: self._flat.length] *= batch.divisor
        if batch.buffers is not None:
            self._sent[self._buffers] = batch.buffers
        self._sent[-TAIL:] = batch.weight, batch.worker, batch.version
        self.batch = None

    def _stuck(self) -> bool:
        ranks = self._ranks()
        lacks = ranks != self._whole and self.member.membership.belongs and self._lacks(ranks)
        return lacks or self._deserted()

    def _lacks(self, ranks: frozenset[int]) -> bool:
        """Whether ranks do not hold all tasks, and those that are only silent cannot help, or have had their minute."""
        if not lost(self.scheme, ranks):
            self._whole, self._silent_since = ranks, math.inf
            return False
        self._whole, now = frozenset(), self.place.now()
        if self._silent_since == math.inf:
            self._silent_since = now
            self.member.alarm(now + MINUTE)
        return now >= self._silent_since + MINUTE or lost(self.scheme, ranks | self.member.silent)

    def _deserted(self) -> bool:
        """Whether ranks have left their loops without whose tasks no batch is whole, before this one has."""
        member = self.member
        waits_in_vain = member.settled and not self.overtaken
        return waits_in_vain and bool(member.resting) and lost(self.scheme, member.steppers)

    def _check(self) -> None:
        super()._check()
        if self._deserted():
            raise ErasureHeadError(
                f"Rank {self.member.rank} is still in its loop, and {numbered('rank', sorted(self.member.resting))} "
                f"have left theirs: the gradient of a batch cannot be had any more by {self.scheme.name}. A late rank "
                "leaves out steps, so end loops after an epoch of team.batches, not after a number of iterations."
            )
        if self._stuck():
            lacks = set(range(self.scheme.code.n_workers)) - self._ranks()
            if lacks <= self.member.through:  # they were through, and it was left out: nobody tells it of their steps
                raise self._outrun()
            gone = numbered("rank", sorted(lacks))
            through = "" if self._ranks() - {self.member.rank} else " (or were through while this rank was stopped)"
            if lacks & self.member.silent:
                through = f", or of which nothing was heard for {MINUTE:g} s"
            raise ErasureHeadError(
                f"The gradient of a batch cannot be had any more by {self.scheme.name}: nobody else has all the tasks "
                f"of {gone}, which are gone{through}. Start again from what was saved, with a greater load, or with "
                "--restarts."
            )

    def weigh(self, weight: float) -> None:
        """Say by what the loss of the step under way is divided, if not by its samples."""
        if not self.alike:
            raise invalid(
                "weight",
                f"must come with the losses, as ranks share single tasks with {self.scheme.name}",
                weight,
                self._flat.weighs,
            )
        if self.batch is not None:
            self.batch.divisor = self.batch.weight = weight

    def _apply(self, mean: Array) -> None:
        if finite(mean):
            super()._apply(mean)
            return
        super().forgo()
        if mean[-TAIL] <= 0.0:  # else whose gradients it were has counted it
            self._leave_out("weights that add up to nothing, and so gradients")

    def forgo(self) -> None:
        """Send what is not finite, as the others must know; and make the step if they come to one without it."""
        self.step(self._step, lambda: 0.0)

    def kept(self) -> dict[str, Any]:
        epoch = self.made // self.length if self.length else 0
        return {"steps": self.made, "epoch": epoch, "length": self.length}

    def restart(self, version: int, state: dict[str, Any]) -> None:
        self._made, self._loaded = int(state.get("steps", 0)), int(state.get("length", 0))
        super().restart(version, state)

    def measure(self, length: int, epoch: int) -> None:
        """Learn how long epochs are; what was saved with others, or without, goes on at the beginning of an epoch."""
        if self._loaded not in (None, length):
            self._made = epoch * length
        self.length, self._loaded = length, None

    def _adopt(self, kept: dict[str, Any]) -> None:
        self._made, self._loaded = int(kept["steps"]) - max(self.taken[1], 0), None


class _ByTask:
    """A data set of whose batches each task is read with random numbers of its own: alike in all ranks that have it.

    Arguments:
        data: the data set.
        meeting: which has the batch that is read.
    """

    def __init__(self, data: Any, meeting: CodedMeeting) -> None:
        self._data, self._meeting = data, meeting

    def __getitems__(self, positions: list[int]) -> list[Any]:
        batch = self._meeting.batch
        assert batch is not None
        found: list[Any] = []
        for task, count in zip(batch.tasks, batch.counts, strict=True):
            own = positions[len(found) :][:count]
            _generators.begin(batch.seed(_READ, task))
            several = getattr(self._data, "__getitems__", None)
            found += [self._data[position] for position in own] if several is None else several(own)
        _generators.begin(batch.seed(*batch.tasks))
        batch.ready = _generators.states()
        return found


@final
class CodedBatches:
    """What a rank trains on in one epoch, of which each step of the team has the same batch, whoever is late or dies.

    A rank that is late leaves out the steps that the others have made without it. Made by `Team.batches`.

    Arguments:
        feed: the data set.
        meeting: this rank's.
        epoch, batch_size, seed, drop_last: as those of `Team.batches`.
        add_samples: told how many samples each batch has.
    """

    def __init__(
        self,
        feed: Feed,
        meeting: CodedMeeting,
        epoch: int | None,
        batch_size: int,
        seed: int,
        drop_last: bool,
        add_samples: Callable[[int], None],
    ) -> None:
        n_tasks = meeting.scheme.code.n_tasks
        self._given, self.epoch, self._begun = epoch, feed.numbered(epoch), False
        self.batch_size = check_count("batch_size", batch_size, n_tasks)
        if feed.iterable:
            raise invalid("dataset", "must have items by number where several ranks compute the same", "iterable")
        if feed.options.get("num_workers"):
            raise invalid("num_workers", "must be 0 where a late rank leaves out steps", feed.options["num_workers"])
        self._feed, self._meeting, self._seed, self._add_samples = feed, meeting, seed, add_samples
        if feed.reads is feed.data:
            feed.reads = _ByTask(feed.data, meeting)
        whole, rest = divmod(feed.total, batch_size)
        if not drop_last and feed.total < n_tasks:
            raise invalid("dataset", f"must have at least a sample for each of {n_tasks} tasks", feed.total)
        self._length = whole + (rest >= n_tasks and not drop_last)
        meeting.measure(self._length, self.epoch)
        self._joined = rest if rest < n_tasks and not drop_last else 0  # too few for a batch: part of the last one

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        if self._begun and self._meeting.made >= (self.epoch + 1) * self._length:
            self.epoch = self._feed.numbered(self._given)
        # A rank that comes when the first epoch is over has none of it, and not the next one instead.
        self._begun = True
        self._feed.pieces.begin(self._pieces())
        return iter(self._feed.loader(self.batch_size, drop_last=False))

    def _pieces(self) -> Generator[list[int]]:
        feed, meeting = self._feed, self._meeting
        order = feed.order(self._seed, self.epoch)
        n_tasks = meeting.scheme.code.n_tasks
        meeting.batch = None
        while True:
            meeting.take()
            begin = (meeting.made - self.epoch * self._length) * self.batch_size
            if begin < 0:
                raise invalid(
                    "epoch",
                    f"must be at most {meeting.made // self._length} after {meeting.made} steps, of which an epoch has "
                    f"{self._length}",
                    self.epoch,
                    "go through each epoch of team.batches to its end, or go on by team.load",
                )
            if begin >= self._length * self.batch_size:
                return
            last = begin + self.batch_size >= self._length * self.batch_size
            batch = order[begin:][: self.batch_size + last * self._joined]
            ends = np.cumsum(parts(len(batch), np.ones(n_tasks), least=1))
            shares = np.split(batch, ends[:-1])
            own = meeting.begin(lambda task, shares=shares: shares[task], self._seed)
            if not meeting.place.counts_samples:
                self._add_samples(len(own))
            yield own

"""A script's side of coded gradients: each rank has the batch of its group, and all have the same step."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any, final

import numpy as np

from erasurehead import codes
from erasurehead._internal.arrays import Array
from erasurehead._internal.shares import parts
from erasurehead.errors import ErasureHeadError, InvalidArgument, check_count, invalid, numbered
from erasurehead.schemes import Scheme, custom, parse_scheme, wait_rules
from erasurehead.schemes._aggregation import ByCoverage
from erasurehead.torch import _generators
from erasurehead.torch._batches import Feed, mixed, permutation
from erasurehead.torch._flat import finite
from erasurehead.torch._meetings import GradientMeeting
from erasurehead.torch._ways._base import Way
from erasurehead.torch._ways._coded import TAIL, Coded, lost, workers_of


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
        scheme = parse_scheme(text, n_ranks)
    else:
        scheme = custom(codes.uncoded(n_ranks), rule, ByCoverage(), name=text)
    code, why = scheme.code, ""
    if not code.one_message_each or code.n_pieces > 1:
        why = "has several messages of a rank"
    elif (code.encoding.data != 1.0).any():
        why = "needs a coefficient for each task"
    elif scheme.aggregation.remembers or scheme.rule.remembers or scheme.by_speed is not None:
        why = "remembers more than one step"
    if why:
        load = code.load
        other = f"exact(load={load})" if load > 1 and n_ranks % load == 0 else "exact(load=2) or first(7)"
        raise invalid("scheme", "must add up whole batches of ranks", f"{text}, which {why}", f"take {other}")
    return scheme


@final
class CodedMeeting(GradientMeeting):
    """The sum of the gradients of this rank's tasks goes out, and the mean gradient of the whole batch comes in.

    Arguments:
        scheme: who computes what, and for whom a step waits; the others are those of `Meeting`.

    Attributes:
        batch: of the step under way: the version before it, the worker of the code whose tasks they are, and by what
            its loss is divided.
        length: number of steps of an epoch; 0 before the first one.
    """

    more = TAIL
    most_late = 0

    def __init__(self, scheme: Scheme, *arguments: Any) -> None:
        self.scheme = scheme
        self.batch: tuple[int, int, float] | None = None
        self.length = 0
        self._made = 0  # steps that were made before what was loaded
        self._whole: frozenset[int] = frozenset()  # ranks that hold all tasks, as was found last
        super().__init__(*arguments)

    def _way(self, told: Array) -> Way:
        return Coded(self.scheme, self._flat.length, told)

    @property
    def made(self) -> int:
        """Number of steps of the team that are in this rank's model."""
        return self._made + max(self.taken[1], 0)

    def begin(self, tasks: Callable[[int], Array], seed: int) -> list[int]:
        """Return the samples of this rank's next step.

        Arguments:
            tasks: returns the samples of a task.
            seed: of what the model and the data set draw, with the tasks and the step: alike in all that have them.
        """
        if self.batch is not None and finite([each.grad for each in self._flat.parameters if each.grad is not None]):
            raise ErasureHeadError(  # else a scaler has left out a step that overflowed, and tries the same batch again
                f"Rank {self.member.rank} has asked team.batches for its next batch without optimizer.step() for the "
                "one before: each batch is a step of the team. To accumulate gradients, go through one batch in parts."
            )
        self.take()
        self._check()
        code = self.scheme.code
        worker = workers_of(self._ranks() | {self.member.rank}, code.n_workers)[self.member.rank]
        own = code.tasks_of_message(int(code.messages_of(worker)[0])).tolist()
        samples = np.concatenate([tasks(task) for task in own]).tolist()
        self.batch = max(self.taken[1], 0), worker, len(samples)
        _generators.begin(mixed(seed, self.made, *own))
        return samples

    def _ranks(self) -> frozenset[int]:
        membership = self.member.membership
        return membership.view.members - membership.ended

    def _complete(self) -> None:
        if self.batch is None:
            raise invalid(
                "every='gradient'", "needs the batches of team.batches", "a step of other samples", "iterate over those"
            )
        version, worker, weight = self.batch
        self._sent[: self._flat.length] *= weight
        self._sent[-TAIL:] = weight, worker, version
        self.batch = None

    def _stuck(self) -> bool:
        ranks = self._ranks()
        if ranks != self._whole and self.member.membership.belongs:
            if lost(self.scheme, ranks):
                return True
            self._whole = ranks
        return self._deserted()

    def _deserted(self) -> bool:
        """Whether ranks have left their loops without whose tasks no batch is whole, before this one has."""
        member = self.member
        return member.settled and bool(member.resting) and lost(self.scheme, member.steppers)

    def _check(self) -> None:
        super()._check()
        if self._deserted():
            raise ErasureHeadError(
                f"Rank {self.member.rank} is still in its loop, and {numbered('rank', sorted(self.member.resting))} "
                f"have left theirs: the gradient of a batch cannot be had any more by {self.scheme.name}. A late rank "
                "leaves out steps, so end loops after an epoch of team.batches, not after a number of iterations."
            )
        if self._stuck():
            gone = numbered("rank", sorted(set(range(self.scheme.code.n_workers)) - self._ranks()))
            raise ErasureHeadError(
                f"The gradient of a batch cannot be had any more by {self.scheme.name}: nobody else has all the tasks "
                f"of {gone}, which are gone. Start again from what was saved, with a greater load, or with --restarts."
            )

    def weigh(self, weight: float) -> None:
        """Say by what the loss of the step under way is divided, if not by its samples."""
        if self.batch is not None:
            self.batch = *self.batch[:2], weight

    def _apply(self, mean: Array) -> None:
        if np.isfinite(mean).all():
            super()._apply(mean)
        else:
            super().forgo()

    def forgo(self) -> None:
        """Send what is not finite, as the others must know; and make the step if they come to one without it."""
        self.step(self._step, lambda: 0.0)

    def kept(self) -> dict[str, Any]:
        return {"steps": self.made, "epoch": self.made // self.length if self.length else 0}

    def restart(self, version: int, state: dict[str, Any]) -> None:
        self._made = int(state.get("steps", 0))
        super().restart(version, state)

    def _adopt(self, kept: dict[str, Any]) -> None:
        self._made = int(kept["steps"]) - max(self.taken[1], 0)


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
        epoch: int,
        batch_size: int,
        seed: int,
        drop_last: bool,
        add_samples: Callable[[int], None],
    ) -> None:
        n_tasks = meeting.scheme.code.n_tasks
        self.epoch, self.batch_size = epoch, check_count("batch_size", batch_size, n_tasks)
        if feed.iterable:
            raise invalid("dataset", "must have items by number where several ranks compute the same", "iterable")
        if feed.options.get("num_workers"):
            raise invalid("num_workers", "must be 0 where a late rank leaves out steps", feed.options["num_workers"])
        self._feed, self._meeting, self._seed, self._add_samples = feed, meeting, seed, add_samples
        whole, rest = divmod(feed.total, batch_size)
        self._length = meeting.length = whole + (rest >= n_tasks and not drop_last)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        self._feed.pieces.begin(self._pieces())
        return iter(self._feed.loader(self.batch_size, drop_last=False))

    def _pieces(self) -> Generator[list[int]]:
        feed, meeting = self._feed, self._meeting
        order: Any = np.arange(feed.total)
        if feed.shuffle:
            order = permutation(feed.total, self._seed, self.epoch).numpy()
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
            batch = order[begin:][: self.batch_size]
            ends = np.cumsum(parts(len(batch), np.ones(n_tasks), least=1))
            shares = np.split(batch, ends[:-1])
            own = meeting.begin(lambda task, shares=shares: shares[task], self._seed)
            if not meeting.place.counts_samples:
                self._add_samples(len(own))
            yield own

"""What a script sees of its team, whichever library trains: which rank it is, its batches, who makes steps."""

from __future__ import annotations

import json
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

from erasurehead._internal.atomic_files import writing
from erasurehead.errors import ErasureHeadError, check_count, invalid, real
from erasurehead.torch import _generators
from erasurehead.torch._coded import CodedBatches, CodedMeeting, scheme_for
from erasurehead.torch._epochs import Batches, Feed, Source, Speeds, mixed
from erasurehead.torch._handouts import Handouts, Stock
from erasurehead.torch._meetings import BusyMeeting, GradientMeeting, Meeting
from erasurehead.torch._outer import OUTER_MOMENTUM, OUTER_RATE, OuterMeeting, OuterSteps
from erasurehead.torch._place import RankPlace
from erasurehead.torch._versions import Version

logger = logging.getLogger("erasurehead")

Way = Literal["busy", "first-gradients"]

_ANY_SCHEME = 60  # ranks for which most schemes fit: by which a team of one reads one that it has no use for

_KEPT = 1_000  # versions that are kept in memory

_WAYS: dict[str, type[Meeting]] = {"busy": BusyMeeting, "first-gradients": GradientMeeting}


class AnyTeam(ABC):
    """Ranks that train one model together, each in a process with a loop of its own.

    Attributes:
        rank: number of this rank, from 0.
        size: number of ranks that were started together.
        versions: the last versions of the team's model that this rank has gathered.
        skipped: number of steps that were not made, as their gradients or what came of them were not finite.
    """

    begun_by: str
    """What a script calls first."""

    def __init__(self, place: RankPlace) -> None:
        self.rank, self.size = place.rank, place.size
        self.versions: deque[Version] = deque(maxlen=_KEPT)
        self.skipped = 0
        self._records: Path | None = None
        self._place = place
        self._samples = 0.0
        self._meeting: Meeting | None = None
        self._not_finite: Literal["skip", "stop"] = "skip"
        self._feeds: list[Feed] = []
        self._alone = Handouts(self.rank)
        place.at_end(self.close)

    @property
    @abstractmethod
    def steps(self) -> int:
        """Number of steps that this rank has made."""

    @property
    def first(self) -> bool:
        """Whether this is the rank that logs, evaluates and saves: the first of those that are there, so ask each time.

        Rank 0, or after its death the next one; also some seconds after its script has ended, if others go on.
        """
        return self.rank == (0 if self._meeting is None else self._meeting.member.first)

    @property
    def version(self) -> tuple[int, int]:
        """The version of the team's model that this rank went on from last: its term and its number."""
        return (0, 0) if self._meeting is None else self._meeting.taken

    @property
    def seconds(self) -> float:
        """Seconds since the team began, on the clock that it runs on."""
        return self._place.now()

    def _how_to_meet(
        self,
        averages: Callable[[], bool],
        way: Way | None,
        not_finite: Literal["skip", "stop"],
        record: str | Path | None,
        every: int | Literal["gradient"] | None,
        scheme: str | None,
        outer_rate: float,
        outer_momentum: float,
    ) -> tuple[str, Callable[..., Meeting], bool]:
        """Return what the way to meet is called, what makes a meeting of it, and whether a step has one gradient.

        Arguments:
            averages: says whether what came of steps can be averaged, whatever the ranks have done by themselves.
            way, not_finite, record, every, scheme, outer_rate, outer_momentum: as the script has given them.

        Raises:
            InvalidArgument: if one of them breaks a rule.
        """
        self._not_finite = not_finite
        self._records = None if record is None else Path(record)
        if not_finite not in ("skip", "stop"):
            raise invalid("not_finite", "must be one of skip, stop", not_finite)
        if way not in (None, *_WAYS):
            raise invalid("way", f"must be one of {', '.join(_WAYS)}", way)
        if every is not None and way is not None:
            raise invalid("way", "must be left out where every says how ranks meet", way)
        if every in (None, "gradient") and (outer_rate, outer_momentum) != (OUTER_RATE, OUTER_MOMENTUM):
            raise invalid("every", "must be a number of steps with outer_rate or outer_momentum", every)
        if scheme is not None and every != "gradient":
            raise invalid("every", "must be 'gradient' with a scheme", every)
        if every == "gradient":
            fitting = scheme_for(scheme, self.size if self.size > 1 else _ANY_SCHEME)
            return f"gradients by {scheme}", partial(CodedMeeting, fitting), True
        if isinstance(every, str):
            raise invalid("every", "must be a number of steps, 'gradient', or left out", every)
        if every is not None:
            outer = OuterSteps.checked(every, outer_rate, outer_momentum)
            return str(outer), partial(OuterMeeting, outer), False
        chosen: str = way or ("busy" if averages() else "first-gradients")
        return chosen, _WAYS[chosen], chosen == "first-gradients"

    @abstractmethod
    def _feed(self, dataset: Any, number: int, shuffle: bool, options: dict[str, Any]) -> Feed:
        """Return what reads a data set."""

    def batches(
        self,
        dataset: Any,
        batch_size: int,
        epoch: int | None = None,
        *,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
        speeds: Speeds = None,
        **options: Any,
    ) -> Batches | CodedBatches:
        """Return this rank's batches of an epoch in which the team has each sample once.

        Each rank takes its next piece of the batch when it needs one, so that fast ranks make more steps than slow
        ones, and nobody waits at the end of an epoch. All ranks must call it with the same arguments, after
        `optimizer`. Iterable data sets are split: each rank has every so many-th item, however fast it is.

        Arguments:
            dataset: a data set of PyTorch, with a length or iterable, the same object in all epochs; random transforms
                are drawn each time.
            batch_size: number of samples of a batch of the whole team, which its ranks share.
            epoch: number of the epoch; by default the next one of this data set, whenever the batches are gone through.
            seed: of the order, with the epoch, and of the loader's workers.
            shuffle: whether each epoch has an order of its own.
            drop_last: whether to leave out the samples beyond the last whole batch.
            speeds: how the ranks share a batch: None for equally, numbers for in proportion to them, or `"measured"`
                for in proportion to how fast they are, again where a change lasts.
            **options: of PyTorch's `DataLoader`, such as `num_workers`, `collate_fn` and `pin_memory`.

        Raises:
            InvalidArgument: if an argument breaks a rule, or `optimizer` was not called before.
        """
        if self.size > 1 and self._meeting is None:
            raise invalid("batches", f"must be asked for after {self.begun_by}", "before it")
        feed = next((one for one in self._feeds if one.serves(dataset, shuffle, options)), None)
        if feed is None:
            feed = self._feed(dataset, len(self._feeds), shuffle, options)
            self._feeds.append(feed)
        if epoch is not None:
            check_count("epoch", epoch, 0)
        if isinstance(self._meeting, CodedMeeting):
            if speeds is not None:
                raise invalid("speeds", "must be left out where a scheme says who computes what", speeds)
            return CodedBatches(feed, self._meeting, epoch, batch_size, seed, drop_last, self._source.add_samples)
        return Batches(feed, self._source, epoch, batch_size, seed, drop_last, speeds)

    @property
    def _source(self) -> Source:
        if self._meeting is None:
            self._alone.on_view(None, self.rank, frozenset({self.rank}))
            return Source(self._place, self._alone, None, self.add_samples, lambda: False)
        member = self._meeting.member
        return Source(self._place, member.handouts, member.port, self.add_samples, lambda: member.forgotten)

    def _where(self) -> dict[str, Any]:
        """Return how far the epoch is, and what else a team goes on from beside model and optimizer."""
        stocks = {number: (one.epoch, one.position, one.missing) for number, one in self._source.positions().items()}
        through = {feed.number: feed.through for feed in self._feeds}
        ended = [epoch + 1 for number, (epoch, _, left) in stocks.items() if epoch == through.get(number) and not left]
        version = 0 if self._meeting is None else self._meeting.member.newest[1]
        return {
            "data": stocks,
            "epoch": max(ended, default=0),
            "generators": _generators.states(),
            "about": {"version": version, "rank": self.rank, "size": self.size, "steps": self.steps},
        } | ({} if self._meeting is None else self._meeting.kept())

    @property
    def _came_later(self) -> bool:
        """Whether the team has gone on before this rank came, so that its newest model is here."""
        return self._place.joins and self._meeting is not None and self._meeting.taken[1] > 0

    def _go_on(self, state: dict[str, Any]) -> int:
        """Go on where what was saved had been, after model and optimizer were loaded; return the epoch."""
        if self.rank == state["about"]["rank"]:
            _generators.restore(state["generators"])
        else:
            _generators.begin(mixed(_generators.number_in(state["generators"]), self.rank))
        epoch = max([state.get("epoch", 0), *(epoch for epoch, _, _ in state["data"].values())])
        if self._came_later:
            return epoch
        stocks = self._source.handouts.stocks
        for number, (begun, position, missing) in state["data"].items():
            stocks[number] = Stock(begun, position, [(begin, end) for begin, end in missing])
        if self._meeting is not None:
            self._meeting.restart(state["about"]["version"] + 1, state)
        return epoch

    def close(self) -> None:
        """Make no more steps. Who gathers goes on gathering until all others are through, too."""
        for feed in self._feeds:
            feed.close()
        if self._meeting is not None:
            self._meeting.close()
        elif self.size > 1:
            logger.warning(
                "Rank %s of %s has given no optimizer to %s: others know nothing of what it trained.",
                self.rank,
                self.size,
                self.begun_by,
            )

    def add_samples(self, samples: float) -> None:
        """Say that the next step is computed from so many more samples; `batches` does."""
        self._samples += samples

    def weigh(self, weight: float) -> None:
        """Say by what the loss of the next step is divided, where gradients are coded and it is not its samples.

        Such as the sum of class weights, or the number of tokens that are not ignored. A batch's gradient is that of
        the sum of all losses divided by the sum of all these.

        Arguments:
            weight: by what this rank's loss is divided; 0 if none of its samples count, whatever its gradient is then.

        Raises:
            InvalidArgument: if it breaks the rule.
        """
        if not 0.0 <= real(weight) < float("inf"):
            raise invalid("weight", "must be a finite number, at least 0", weight)
        if isinstance(self._meeting, CodedMeeting):
            self._meeting.weigh(float(weight))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._meeting is None:
            return f"rank {self.rank} of {self.size}"
        member = self._meeting.member
        view, there = member.membership.view, len(member.steppers)
        return (
            f"rank {self.rank} of {self.size}, version {member.newest[1]} of the model, "
            f"{there} {'rank makes' if there == 1 else 'ranks make'} steps, rank {view.gathers} gathers"
        )

    def _record(self, version: Version) -> None:
        self.versions.append(version)
        if self._records is not None:
            with writing(self._records), self._records.open("a", encoding="utf-8") as file:
                known = {name: one for name, one in version._asdict().items() if one is not None}
                file.write(json.dumps(known) + "\n")
        self._place.record(version)

    def _made(self) -> None:
        """Note that a step was made of what the script has."""
        self._samples = 0.0
        for feed in self._feeds:
            feed.trained(self._source)

    def _leave_out(self, what: str) -> None:
        """Count a step that is not made, or not sent, as something of it is not finite; by policy it is an error."""
        if self._not_finite == "stop":
            raise ErasureHeadError(f"Rank {self.rank} has {what} that are not finite in its step {self.steps + 1}.")
        self.skipped += 1

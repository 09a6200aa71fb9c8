"""What a script sees of its team: which rank it is, its optimizer, and the team's model."""

from __future__ import annotations

import copy
import json
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast, final

import torch
from torch.optim import LBFGS, Optimizer

from erasurehead.errors import ErasureHeadError, check_count, invalid, real
from erasurehead.torch import _generators, _state
from erasurehead.torch._agreed import about
from erasurehead.torch._batches import Batches, Feed, Source, Speeds, mixed, shard
from erasurehead.torch._coded import CodedBatches, CodedMeeting, scheme_for
from erasurehead.torch._flat import Flat, finite
from erasurehead.torch._handouts import Handouts, Stock
from erasurehead.torch._meetings import BusyMeeting, GradientMeeting, Meeting, Step
from erasurehead.torch._member import Version
from erasurehead.torch._optimizer import Closure, TeamOptimizer
from erasurehead.torch._outer import OUTER_MOMENTUM, OUTER_RATE, OuterMeeting, OuterSteps
from erasurehead.torch._place import RankPlace
from erasurehead.torch._second_moments import steps_average

logger = logging.getLogger("erasurehead")

_ANY_SCHEME = 60  # ranks for which most schemes fit: by which a team of one reads one that it has no use for

_KEPT = 1_000  # versions that are kept in memory

_WAYS: dict[str, type[Meeting]] = {"busy": BusyMeeting, "first-gradients": GradientMeeting}


@final
class Team:
    """Ranks that train one model together, each in a process with a loop and an optimizer of its own.

    Made by `join`.

    Attributes:
        rank: number of this rank, from 0.
        size: number of ranks that were started together.
        versions: the last versions of the team's model that this rank has gathered.
        skipped: number of steps that were not made, as their gradients or what came of them were not finite.
    """

    def __init__(self, place: RankPlace) -> None:
        self.rank, self.size = place.rank, place.size
        self.versions: deque[Version] = deque(maxlen=_KEPT)
        self._records: Path | None = None
        self.skipped = 0
        self._place = place
        self._samples = 0.0
        self._optimizer: TeamOptimizer | None = None
        self._model: torch.nn.Module | None = None
        self._meeting: Meeting | None = None
        self._not_finite: Literal["skip", "stop"] = "skip"
        self._feeds: list[Feed] = []
        self._alone = Handouts(self.rank)
        place.at_end(self.close)

    @property
    def first(self) -> bool:
        """Whether this is the rank that logs, evaluates and saves: rank 0, or after its death the next one."""
        return self.rank == (0 if self._meeting is None else self._meeting.member.first)

    @property
    def version(self) -> tuple[int, int]:
        """The version of the team's model that this rank went on from last: its term and its number."""
        return (0, 0) if self._meeting is None else self._meeting.taken

    @property
    def seconds(self) -> float:
        """Seconds since the team began, on the clock that it runs on."""
        return self._place.now()

    def optimizer(
        self,
        optimizer: Optimizer,
        model: torch.nn.Module,
        way: Literal["busy", "first-gradients"] | None = None,
        not_finite: Literal["skip", "stop"] = "skip",
        record: str | Path | None = None,
        bfloat16: bool = False,
        *,
        every: int | Literal["gradient"] | None = None,
        scheme: str | None = None,
        outer_rate: float = OUTER_RATE,
        outer_momentum: float = OUTER_MOMENTUM,
    ) -> TeamOptimizer:
        """Return an optimizer whose steps are the team's; all ranks go on from the first rank's model.

        Arguments:
            optimizer: any optimizer of PyTorch's form, of this rank only.
            model: the model that it trains.
            way: how ranks meet; None for what suits the optimizer.
            not_finite: what to do with a step whose gradients, or weights after it, are infinite or no numbers: not to
                make it, or to raise an error.
            record: a file to which whoever gathers adds a line of JSON with each version of the team's model: when it
                was closed, and how many steps of which ranks are in it.
            bfloat16: whether steps are sent in half the bytes, as bfloat16; they are added, and models sent, as ever.
                With `every`, how far the team's model has moved, too.
            every: for slow networks: ranks meet when they have made so many steps by themselves, each with an optimizer
                state of its own, and late ones send what they have (outer steps, as in DiLoCo).
                With "gradient": all meet in each step, and have the gradient of the same batch, whoever is late or
                dies: see `scheme`.
            scheme: with `every="gradient"`: a scheme of the library whose ranks add up whole gradients, such as
                "exact(load=2)", "erasurehead(load=2, wait_for=6)", or "first(7)" for the first of ranks that share a
                batch. Samples come from `batches` then, and a rank has those of all its tasks.
            outer_rate, outer_momentum: of these meetings: the mean of what ranks have changed goes, as a gradient, to
                SGD with Nesterov's momentum.

        Raises:
            InvalidArgument: if these are no optimizer and model that a team can train.
        """
        if not isinstance(cast("object", optimizer), Optimizer):
            raise invalid("optimizer", "must be an optimizer of PyTorch", type(optimizer).__name__)
        if self._optimizer is not None:
            raise invalid(
                "optimizer",
                "must be the only one of its team",
                "a second one",
                "give one optimizer all parameters, in groups with settings of their own, and nn.ModuleList of all "
                "models: groups without gradients are left alone",
            )
        plain = self._model = getattr(model, "_orig_mod", model)  # as torch.compile names it
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
        chosen: str = way or ("busy" if steps_average(optimizer) else "first-gradients")
        if every == "gradient":
            chosen = f"gradients by {scheme}"
            meeting = partial(CodedMeeting, scheme_for(scheme, self.size if self.size > 1 else _ANY_SCHEME))
        elif every is not None:
            outer = OuterSteps.checked(every, outer_rate, outer_momentum)
            chosen, meeting = str(outer), partial(OuterMeeting, outer)
        else:
            meeting = _WAYS[chosen]
        one_gradient = every == "gradient" or chosen == "first-gradients"
        if one_gradient and isinstance(optimizer, LBFGS) and self.size > 1:
            raise invalid(
                "optimizer",
                "must make a step of one gradient to meet others",
                type(optimizer).__name__,
                "way='busy' lets each rank make such steps by itself",
            )
        if self._place.counts_samples:
            model.register_forward_pre_hook(_counting(model, self.add_samples))
        self._optimizer = TeamOptimizer(optimizer, self._step, alone=self.size == 1)
        if self.size > 1:
            flat = Flat(optimizer.param_groups, plain)
            own = about(optimizer, plain, self.size, chosen)
            self._meeting = meeting(
                self._place, flat, optimizer, self._optimizer.own_step, self._record, own, bfloat16, self._leave_out
            )
        return self._optimizer

    def model(self) -> torch.nn.Module:
        """Return a copy of the model with the weights of the team's newest version, as far as this rank has heard.

        Steps of this rank since then are in it by their share, so that also a script that is through before the first
        version has a model that was trained.
        """
        if self._model is None:
            raise invalid("model", "must be given to Team.optimizer first", "none")
        copied = copy.deepcopy(self._model)
        if self._meeting is not None:
            self._meeting.newest(copied)
        return copied

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
            epoch: number of the epoch; by default the next one of this data set.
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
            raise invalid("batches", "must be asked for after Team.optimizer", "before it")
        feed = next((one for one in self._feeds if one.serves(dataset, shuffle, options)), None)
        if feed is None:
            feed = Feed(dataset, len(self._feeds), self.rank, self.size, shuffle, options)
            self._feeds.append(feed)
        epoch = feed.next_epoch if epoch is None else check_count("epoch", epoch, 0)
        feed.next_epoch = epoch + 1
        if isinstance(self._meeting, CodedMeeting):
            if speeds is not None:
                raise invalid("speeds", "must be left out where a scheme says who computes what", speeds)
            return CodedBatches(feed, self._meeting, epoch, batch_size, seed, drop_last, self._source.add_samples)
        return Batches(feed, self._source, epoch, batch_size, seed, drop_last, speeds)

    def shard(self, dataset: Any) -> Any:
        """Return this rank's fixed part of a data set, every so many-th item, for a loader of the user's own.

        A fixed part is what `DistributedSampler` gives: a slow rank is through with it late, and fast ones are not
        given anything of it.
        """
        return shard(dataset, self.rank, self.size)

    @property
    def _source(self) -> Source:
        if self._meeting is None:
            self._alone.on_view(None, self.rank, frozenset({self.rank}))
            return Source(self._place, self._alone, None, self.add_samples, lambda: False)
        member = self._meeting.member
        return Source(self._place, member.handouts, member.port, self.add_samples, lambda: member.forgotten)

    def save(self, path: str | Path, **objects: Any) -> None:
        """Save the team's newest model, and what it takes to go on from it, to one file; the first rank does, at once.

        Beside the model: this rank's optimizer, how far the epoch is, and this rank's generators. Nobody waits for it:
        steps that are under way in other ranks are not in it, and their samples are handed out again.

        Arguments:
            path: of the file, in the format safetensors; it is replaced as a whole.
            **objects: whatever else has `state_dict` and `load_state_dict`, by name, such as a scheduler or a scaler.

        Raises:
            InvalidArgument: if an object has no state of tensors, numbers and texts.
            RecordsError: if the file cannot be written.
        """
        if not self.first:
            return
        optimizer, names = self._saved("save"), self._names(objects)
        stocks = {number: (one.epoch, one.position, one.missing) for number, one in self._source.positions().items()}
        through = {feed.number: feed.through for feed in self._feeds}
        ended = [epoch + 1 for number, (epoch, _, left) in stocks.items() if epoch == through.get(number) and not left]
        version = 0 if self._meeting is None else self._meeting.member.newest[1]
        state = {
            "model": self.model().state_dict(),
            "optimizer": optimizer.inner.state_dict(),
            "objects": {name: objects[name].state_dict() for name in names},
            "data": stocks,
            "epoch": max(ended, default=0),
            "generators": _generators.states(),
            "about": {"version": version, "rank": self.rank, "size": self.size, "steps": optimizer.steps},
        } | ({} if self._meeting is None else self._meeting.kept())
        _state.write(Path(path), state)

    def load(self, path: str | Path, **objects: Any) -> int:
        """Go on from what was saved: all ranks call this, after `optimizer` and before their first step.

        All ranks then have the model, and the optimizer of the rank that saved; one that joins a team that trains has
        the team's, which is newer. The team may be of another size. An
        epoch goes on with what nobody had trained on: `team.batches(dataset, batch_size, epoch)` with the number of
        that epoch, which is returned, and with the same data sets, in the order in which they were first used.

        Arguments:
            path: of the file.
            **objects: those that were saved, by the same names.

        Returns:
            The epoch to go on with; 0 if no batches had been handed out.

        Raises:
            DataError: if there is no such file, it is damaged, or it is of another model or optimizer.
        """
        path = Path(path)
        optimizer, names = self._saved("load"), self._names(objects)
        if optimizer.steps:
            raise invalid("load", "must be called before the first step", f"after {optimizer.steps} steps")
        state, model = _state.read(path), cast("torch.nn.Module", self._model)
        _state.check_fits(model.state_dict(), state["model"], path, "model")
        _state.check_groups(optimizer.param_groups, state["optimizer"]["param_groups"], path)
        if names != sorted(state["objects"]):
            raise invalid("the names of objects", f"must be {sorted(state['objects'])}, as they were saved", names)
        came_later = self._place.joins and self._meeting is not None and self._meeting.taken[1] > 0
        if not came_later:  # else the team has gone on, and its newest model is here
            model.load_state_dict(state["model"])
            optimizer.inner.load_state_dict(state["optimizer"])
        for name in names:
            objects[name].load_state_dict(state["objects"][name])
        if self.rank == state["about"]["rank"]:
            _generators.restore(state["generators"])
        else:
            _generators.begin(mixed(_generators.number_in(state["generators"]), self.rank))
        epoch = max([state.get("epoch", 0), *(epoch for epoch, _, _ in state["data"].values())])
        if came_later:
            return epoch
        stocks = self._source.handouts.stocks
        for number, (begun, position, missing) in state["data"].items():
            stocks[number] = Stock(begun, position, [(begin, end) for begin, end in missing])
        if self._meeting is not None:
            self._meeting.restart(state["about"]["version"] + 1, state)
        return epoch

    def _saved(self, what: str) -> TeamOptimizer:
        if self._optimizer is None:
            raise invalid(what, "must be called after Team.optimizer", "before it")
        return self._optimizer

    @staticmethod
    def _names(objects: dict[str, Any]) -> list[str]:
        for name, one in objects.items():
            if not (hasattr(one, "state_dict") and hasattr(one, "load_state_dict")):
                raise invalid(name, "must have state_dict and load_state_dict", type(one).__name__)
        return sorted(objects)

    def close(self) -> None:
        """Make no more steps. Who gathers goes on gathering until all others are through, too."""
        for feed in self._feeds:
            feed.close()
        if self._optimizer is not None:
            self._optimizer.close()
        if self._meeting is not None:
            self._meeting.close()
        elif self.size > 1:
            logger.warning(
                "Rank %s of %s has given no optimizer to Team.optimizer: others know nothing of what it trained.",
                self.rank,
                self.size,
            )

    def add_samples(self, samples: float) -> None:
        """Say that the next step is computed from so many more samples; `batches` does."""
        self._samples += samples

    def weigh(self, weight: float) -> None:
        """Say by what the loss of the next step is divided, where gradients are coded and it is not its samples.

        Such as the sum of class weights, or the number of tokens that are not ignored. A batch's gradient is that of
        the sum of all losses divided by the sum of all these.

        Arguments:
            weight: by what this rank's loss is divided, above 0.

        Raises:
            InvalidArgument: if it breaks the rule.
        """
        if not 0.0 < real(weight) < float("inf"):
            raise invalid("weight", "must be a number above 0", weight)
        if isinstance(self._meeting, CodedMeeting):
            self._meeting.weigh(float(weight))

    def __enter__(self) -> Team:
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
            with self._records.open("a", encoding="utf-8") as file:
                file.write(json.dumps(version._asdict()) + "\n")
        self._place.record(version)

    def _step(self, closure: Closure | None) -> float | None:
        wrapped, meeting, place = self._optimizer, self._meeting, self._place
        assert wrapped is not None
        loss = None
        if closure is None or isinstance(meeting, GradientMeeting):
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            place.compute(self._samples, wrapped.steps)
            if not self._finite(wrapped):
                self._samples = 0.0
                if meeting is not None:
                    meeting.forgo()
                return loss
            step: Step = wrapped.own_step
        else:
            step = self._closed_step(wrapped, closure)
        result = step() if meeting is None else meeting.step(step, lambda: self._samples)
        self._samples = 0.0
        for feed in self._feeds:
            feed.trained(self._source)
        return result if loss is None else loss

    def _closed_step(self, wrapped: TeamOptimizer, closure: Closure) -> Step:
        """Return a step for which the wrapped optimizer computes gradients, and as often as it likes."""

        def step() -> float | None:
            loss = wrapped.own_step(closure)
            self._place.compute(self._samples, wrapped.steps)
            return loss

        return step

    def _finite(self, optimizer: TeamOptimizer) -> bool:
        """Whether all gradients are finite; by policy it is an error if they are not."""
        if self.size == 1 and self._not_finite == "skip":
            return True
        if finite([p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]):
            return True
        self._leave_out("gradients")
        return False

    def _leave_out(self, what: str) -> None:
        """Count a step that is not made, or not sent, as something of it is not finite; by policy it is an error."""
        if self._not_finite == "stop":
            steps = 0 if self._optimizer is None else self._optimizer.steps
            raise ErasureHeadError(f"Rank {self.rank} has {what} that are not finite in its step {steps + 1}.")
        self.skipped += 1


def _counting(
    model: torch.nn.Module, add_samples: Callable[[int], None]
) -> Callable[[torch.nn.Module, tuple[Any, ...]], None]:
    """Return a hook that counts the samples of forward passes that are trained on, by the first tensor's length."""

    def count(module: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
        if module is model and module.training and torch.is_grad_enabled():  # a copy has the hook, too
            add_samples(next((len(each) for each in inputs if isinstance(each, torch.Tensor) and each.dim()), 0))

    return count

"""What a script sees of its team: which rank it is, its optimizer, and the team's model."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, cast, final

import torch
from torch.optim import LBFGS, Optimizer, SparseAdam

from erasurehead.errors import invalid
from erasurehead.torch import _state
from erasurehead.torch._agreed import about
from erasurehead.torch._any_team import AnyTeam
from erasurehead.torch._backward import CodedBackward, Losses, LossesOf, go_backward
from erasurehead.torch._batches import LoaderFeed, shard
from erasurehead.torch._coded import CodedMeeting
from erasurehead.torch._epochs import Feed
from erasurehead.torch._flat import Flat, finite
from erasurehead.torch._join import joined_place
from erasurehead.torch._meetings import Step
from erasurehead.torch._optimizer import Closure, TeamOptimizer
from erasurehead.torch._outer import OUTER_MOMENTUM, OUTER_RATE
from erasurehead.torch._place import RankPlace
from erasurehead.torch._second_moments import shares_moments, steps_average
from erasurehead.torch._torch_model import OptimizedModule


@final
class Team(AnyTeam):
    """Ranks that train one model together, each in a process with a loop and an optimizer of its own.

    Made by `join`.

    Attributes:
        rank: number of this rank, from 0.
        size: number of ranks that were started together.
        versions: the last versions of the team's model that this rank has gathered.
        skipped: number of steps that were not made, as their gradients or what came of them were not finite.
    """

    begun_by = "Team.optimizer"

    def __init__(self, place: RankPlace) -> None:
        super().__init__(place)
        self._optimizer: TeamOptimizer | None = None
        self._model: torch.nn.Module | None = None
        self._whole: OptimizedModule | None = None
        self._coded: CodedBackward | None = None
        self._gradient_first = False

    @property
    def steps(self) -> int:
        return 0 if self._optimizer is None else self._optimizer.steps

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
            scheme: with `every="gradient"`: a scheme of the library whose ranks send one message each, such as
                "exact(load=2)", "erasurehead(load=2, wait_for=6)", or "first(7)" for the first of ranks that share a
                batch. Samples come from `batches` then, and a rank has those of all its tasks; where a code has a
                coefficient for each, call `backward`.
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
        if not isinstance(cast("object", plain), torch.nn.Module):
            raise invalid("model", "must be a torch.nn.Module", type(plain).__name__, "nn.ModuleList holds several")
        chosen, meeting, one_gradient = self._how_to_meet(
            lambda: steps_average(optimizer), way, not_finite, record, every, scheme, outer_rate, outer_momentum
        )
        if one_gradient and isinstance(optimizer, LBFGS) and self.size > 1:
            raise invalid(
                "optimizer",
                "must make a step of one gradient to meet others",
                type(optimizer).__name__,
                "way='busy' lets each rank make such steps by itself",
            )
        if one_gradient and isinstance(optimizer, SparseAdam) and self.size > 1:
            raise invalid(
                "optimizer",
                "must take dense gradients, as the mean over ranks is one",
                type(optimizer).__name__,
                "way='busy' or every=20 lets each rank make steps of its own, sparse gradients; Adam takes dense ones",
            )
        self._gradient_first = one_gradient or (every is None and shares_moments(optimizer))  # which is sent as it is
        if self._place.counts_samples:
            model.register_forward_pre_hook(_counting(model, self.add_samples))
        self._optimizer = TeamOptimizer(optimizer, self._step, alone=self.size == 1)
        if self.size > 1:
            whole = self._whole = OptimizedModule(optimizer, plain)
            own = about(optimizer, plain, self.size, chosen)
            self._meeting = meeting(
                self._place, whole, self._optimizer.own_step, self._record, own, bfloat16, self._leave_out
            )
            if isinstance(self._meeting, CodedMeeting):
                self._coded = CodedBackward(plain, self._meeting)
        return self._optimizer

    def backward(self, losses: Losses | LossesOf, batch: Any = None) -> torch.Tensor:
        """Go backward from the losses of this rank's batch, in place of `losses.mean().backward()`.

        Needed where a scheme has a coefficient for each task, and the same as that in any other team. A late rank
        leaves off when the others have made its step.

        Arguments:
            losses: of the samples of a batch of `batches`, in its order, shape (samples,); or a pair: of each sample
                the sum of its losses, and of their weights, such as the number of tokens that count. Or a function of a
                batch that returns these, which may be called several times, with the tasks of the batch one by one.
            batch: what that function is given: tensors with the samples along their first axes, in tuples, lists and
                dicts.

        Returns:
            The mean loss, without its graph: the sum of the losses divided by that of their weights.

        Raises:
            InvalidArgument: if losses are none of samples; or tasks cannot be told apart in them, or come to something
                else when they are computed again.
        """
        if self._coded is None:
            return go_backward(losses, batch)
        counted = self._samples
        found = self._coded(losses, batch)
        if callable(losses) and self._place.counts_samples:
            self._samples = counted + self._coded.samples  # however often the function was called
        return found

    def model(self) -> torch.nn.Module:
        """Return a copy of the model with the weights of the team's newest version, as far as this rank has heard.

        Steps of this rank since then are in it by their share, so that also a script that is through before the first
        version has a model that was trained.
        """
        if self._model is None:
            raise invalid("model", "must be given to Team.optimizer first", "none")
        computed = (each for module in self._model.modules() for each in vars(module).values())
        kept = {id(each): each.detach() for each in computed if isinstance(each, torch.Tensor) and not each.is_leaf}
        copied = copy.deepcopy(self._model, kept)  # of what a forward pass keeps, as weight_norm does, there is no copy
        if self._meeting is not None and self._whole is not None:
            self._whole.check()
            own = dict(copied.named_parameters())
            flat = Flat([{"params": [own[name] for name in self._whole.names]}], copied, like=self._whole)
            flat.write(self._meeting.newest())
        return copied

    def _feed(self, dataset: Any, number: int, shuffle: bool, options: dict[str, Any]) -> Feed:
        return LoaderFeed(dataset, number, self.rank, self.size, shuffle, options)

    def shard(self, dataset: Any) -> Any:
        """Return this rank's fixed part of a data set, every so many-th item, for a loader of the user's own.

        A fixed part is what `DistributedSampler` gives: a slow rank is through with it late, and fast ones are not
        given anything of it.
        """
        return shard(dataset, self.rank, self.size)

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
        state = {
            "model": self.model().state_dict(),
            "optimizer": optimizer.inner.state_dict(),
            "objects": {name: objects[name].state_dict() for name in names},
        }
        _state.write(Path(path), state | self._where())

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
        if not self._came_later:
            model.load_state_dict(state["model"])
            optimizer.inner.load_state_dict(state["optimizer"])
        for name in names:
            objects[name].load_state_dict(state["objects"][name])
        return self._go_on(state)

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
        if self._optimizer is not None:
            self._optimizer.close()
        super().close()

    def _step(self, closure: Closure | None) -> float | None:
        wrapped, meeting, place = self._optimizer, self._meeting, self._place
        assert wrapped is not None
        loss = None
        if closure is None or self._gradient_first:
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            place.compute(self._samples, wrapped.steps, None if meeting is None else meeting.until)
            if self._finite(wrapped):
                if self._coded is not None:
                    self._coded.check_unchanged()
            else:
                self._samples = 0.0
                if meeting is not None:
                    meeting.forgo()
                return loss
            step: Step = wrapped.own_step
        else:
            step = self._closed_step(wrapped, closure)
        result = step() if meeting is None else meeting.step(step, lambda: self._samples)
        self._made()
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
        if isinstance(self._meeting, CodedMeeting) and self._meeting.counts_nothing:
            return True
        if finite([p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]):
            return True
        self._leave_out("gradients")
        return False


def _counting(
    model: torch.nn.Module, add_samples: Callable[[int], None]
) -> Callable[[torch.nn.Module, tuple[Any, ...]], None]:
    """Return a hook that counts the samples of forward passes that are trained on, by the first tensor's length."""

    def count(module: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
        if module is model and module.training and torch.is_grad_enabled():  # a copy has the hook, too
            add_samples(next((len(each) for each in inputs if isinstance(each, torch.Tensor) and each.dim()), 0))

    return count


def join(secret_file: str | os.PathLike[str] | None = None, trusted_network: bool = False) -> Team:
    """Return this process's team; a team of one where there are no others.

    Which rank of how many this is says the launcher: `python -m erasurehead.torch.run`, torchrun, mpiexec or srun.

    Arguments:
        secret_file: for ranks on several hosts: a file that only its owner can read, with the same secret on all hosts.
        trusted_network: for ranks on several hosts whose ports nobody else can reach: do without a secret.

    Raises:
        ErasureHeadError: if what the launcher says makes no sense, the ranks cannot reach each other, or this rank has
            joined already.
    """
    return Team(joined_place(secret_file, trusted_network))

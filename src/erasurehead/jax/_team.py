"""What a script sees of its team: which rank it is, its step, and the team's parameters."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, cast, final

import numpy as np

import erasurehead
from erasurehead.errors import check_count, invalid
from erasurehead.jax._feed import ArrayFeed, cut, of_arrays, taken
from erasurehead.jax._form import Transformation, jax, jnp, mapped
from erasurehead.jax._model import PytreeModel, filled, named
from erasurehead.jax._step import TeamStep, samples_of
from erasurehead.torch import _state
from erasurehead.torch._any_team import AnyTeam, Way
from erasurehead.torch._coded import CodedMeeting
from erasurehead.torch._epochs import Feed
from erasurehead.torch._outer import OUTER_MOMENTUM, OUTER_RATE
from erasurehead.torch._place import RankPlace


@final
class JaxTeam(AnyTeam):
    """Ranks that train one pytree of parameters together, each in a process with a loop of its own.

    Made by `join`.

    Attributes:
        rank: number of this rank, from 0.
        size: number of ranks that were started together.
        versions: the last versions of the team's model that this rank has gathered.
        skipped: number of steps that were not made, as their gradients or what came of them were not finite.
    """

    begun_by = "step.init"

    def __init__(self, place: RankPlace) -> None:
        super().__init__(place)
        self._steps = 0
        self._step: TeamStep | None = None
        self._model: PytreeModel | None = None
        self._drawn = 0, 0  # seed and epoch that keys are made of
        self._seed = 0
        self._returns = False, False  # has_aux and weighted

    @property
    def steps(self) -> int:
        return self._steps

    def step(
        self,
        loss: Callable[..., Any],
        optimizer: Transformation,
        way: Way | None = None,
        not_finite: Literal["skip", "stop"] = "skip",
        record: str | Path | None = None,
        bfloat16: bool = False,
        *,
        has_aux: bool = False,
        weighted: bool = False,
        seed: int = 0,
        every: int | Literal["gradient"] | None = None,
        scheme: str | None = None,
        outer_rate: float = OUTER_RATE,
        outer_momentum: float = OUTER_MOMENTUM,
    ) -> TeamStep:
        """Return a step of the team: `params, state, metrics = step(params, state, batch)`, after `step.init(params)`.

        Arguments:
            loss: `loss(params, batch)`, the mean over a batch's samples; with `key` as a third argument, a key comes
                that is made of seed, epoch and step.
            optimizer: of optax.
            way: how ranks meet; None for what suits the optimizer.
            not_finite: what to do with a step whose gradients, or parameters after it, are not finite: not to make it,
                or to raise an error.
            record: a file to which whoever gathers adds a line of JSON with each version of the team's model.
            bfloat16: whether steps are sent in half the bytes.
            has_aux: whether the loss returns a pair, of which the first is the loss.
            weighted: whether the loss is a pair itself: the sum of its samples' losses, and that of their weights (such
                as class weights, or tokens that are not padding), by which it is divided.
            seed: of the keys.
            every: a number of steps after which ranks meet (outer steps), or "gradient" for the gradient of one batch
                in each step, by a scheme.
            scheme: with `every="gradient"`, such as "exact(load=2)" or "first(7)".
            outer_rate, outer_momentum: of outer steps.

        Raises:
            InvalidArgument: if an argument breaks a rule.
        """
        if not callable(loss):
            raise invalid("loss", "must be a function of parameters and a batch", type(loss).__name__)
        if not all(callable(getattr(optimizer, name, None)) for name in ("init", "update")):
            raise invalid("optimizer", "must be one of optax", type(optimizer).__name__, "such as optax.adamw(1e-3)")
        if self._step is not None:
            raise invalid(
                "step", "must be the only one of its team", "a second one", "let one loss have all parameters"
            )
        self._seed = check_count("seed", seed, 0)

        def how(averages: bool) -> tuple[str, Callable[..., Any], bool]:
            return self._how_to_meet(
                lambda: averages, way, not_finite, record, every, scheme, outer_rate, outer_momentum
            )

        def begin(model: PytreeModel) -> None:
            chosen, meeting, _ = how(model.programs.averages.kind != "others")
            self._model = model
            if self.size > 1:
                own = _about(model, self.size, chosen)
                self._meeting = meeting(self._place, model, model.step, self._record, own, bfloat16, self._leave_out)

        how(True)  # what is wrong is said here
        self._returns = has_aux, weighted
        self._step = TeamStep(loss, optimizer, has_aux, weighted, begin, self._meet)
        return self._step

    def _meet(self, model: PytreeModel, batch: Any) -> Any:
        samples = self._samples or samples_of(batch)
        meeting, plain = self._meeting, self.size == 1 and self._not_finite == "skip"
        if isinstance(meeting, CodedMeeting):
            metrics = self._by_tasks(model, meeting, batch)
        else:
            words = self._words(*self._drawn, self._steps, self.rank)
            metrics = (model.alone if plain else model.differentiate)(batch, words)
        self._place.compute(samples, self._steps, None if meeting is None else meeting.until)
        if plain or model.finite_gradients():
            if meeting is not None:
                meeting.step(cast("Any", model.step), lambda: samples)
            elif not plain:
                model.step()
            self._made()
        else:
            self._leave_out("gradients")
            self._samples = 0.0
            if meeting is not None:
                meeting.forgo()
        self._steps += 1
        return metrics

    def _by_tasks(self, model: PytreeModel, meeting: CodedMeeting, batch: Any) -> Any:
        """Compute the gradient of a rank's tasks with their coefficients; return what the loss returns for them.

        Each task is computed by itself, with a key of its own, unless those that have one of them have all of them.
        """
        tasks, (has_aux, weighted) = meeting.under_way, self._returns
        pieces = [(batch, tasks.seed(*tasks.tasks), tasks.divisor or sum(tasks.counts), 1.0)]
        if not meeting.alike:
            pieces = [
                *zip(
                    cut(batch, tasks.counts),
                    map(tasks.seed, tasks.tasks),
                    tasks.counts,
                    tasks.coefficients.tolist(),
                    strict=True,
                )
            ]
        model.terms.clear()
        found: list[Any] = []
        total, whole = 0.0, 0.0
        for piece, seed, count, factor in pieces:
            if found and meeting.overtaken:
                break
            times = 1.0 if weighted else count
            metrics, weight = model.add(piece, self._words(seed), factor * times)
            if weight < 0.0:
                raise invalid("loss", "must return a weight of at least 0 with weighted=True", weight)
            value, aux = metrics if has_aux else (metrics, None)
            tasks.weight += factor * times * weight
            total, whole = total + times * value, whole + times * weight
            found.append(aux)
        tasks.divisor, tasks.leaves_off = 1.0, not meeting.alike
        return (total / whole, found[0] if meeting.alike else found) if has_aux else total / whole

    def _words(self, *numbers: int) -> Any:
        """Return what a key is made of, if the loss has one."""
        draws = self._step is not None and self._step.draws
        return np.random.SeedSequence((self._seed, *numbers)).generate_state(2) if draws else None

    def params(self) -> Any:
        """Return the parameters of the team's newest version, as far as this rank has heard.

        Steps of this rank since then are in them by their share.
        """
        model = self._begun("params")
        return mapped(jnp.copy, model.params) if self._meeting is None else model.at(self._meeting.newest())

    def batches(self, dataset: Any, batch_size: int, epoch: int | None = None, *, seed: int = 0, **options: Any) -> Any:
        """Return this rank's batches of an epoch in which the team has each sample once.

        Each rank takes its next piece of the batch when it needs one, so that fast ranks make more steps than slow
        ones, and nobody waits at the end of an epoch. All ranks must call it with the same arguments, after
        `step.init`.

        Arguments:
            dataset: a tuple or a dict of arrays, whose batches are such; or samples by number with a length, which are
                stacked; the same object in all epochs.
            batch_size: number of samples of a batch of the whole team, which its ranks share.
            epoch: number of the epoch; by default the next one of this data set.
            seed: of the order, with the epoch, and of keys.
            **options: `shuffle`, `drop_last` and `speeds`, as in `erasurehead.torch.Team.batches`.

        Raises:
            InvalidArgument: if an argument breaks a rule, or `step.init` was not called before.
        """
        made = super().batches(dataset, batch_size, epoch, seed=seed, **options)
        self._drawn = seed, made.epoch
        return made

    def _feed(self, dataset: Any, number: int, shuffle: bool, options: dict[str, Any]) -> Feed:
        if options:
            raise invalid("batches", "takes shuffle, drop_last and speeds beside seed and epoch", ", ".join(options))
        return ArrayFeed(dataset, number, shuffle, options)

    def shard(self, dataset: Any) -> Any:
        """Return this rank's fixed part of a data set, every so many-th sample, for a loop of the user's own."""
        part = slice(self.rank, None, self.size)
        return taken(dataset, part) if of_arrays(dataset) else dataset[part]

    def save(self, path: str | Path) -> None:
        """Save the team's newest parameters, and what it takes to go on from them, to one file; the first rank does.

        Beside the parameters: this rank's optimizer state, how far the epoch is, and generators. Nobody waits for it.

        Arguments:
            path: of the file, in the format safetensors; it is replaced as a whole.

        Raises:
            InvalidArgument: if it is called before `step.init`.
            RecordsError: if the file cannot be written.
        """
        if self.first:
            model = self._begun("save")
            state = {"model": named(self.params()), "optimizer": named(model.state)}
            _state.write(Path(path), state | self._where(), "np")

    def load(self, path: str | Path) -> tuple[Any, Any, int]:
        """Go on from what was saved: all ranks call this, after `step.init` and before their first step.

        The team may be of another size. One that joins a team that trains has the team's parameters, which are newer.

        Arguments:
            path: of the file.

        Returns:
            Parameters, the optimizer's state, and the epoch to go on with, with the same data sets; 0 if no batches had
            been handed out.

        Raises:
            DataError: if there is no such file, it is damaged, or it is of other parameters or another optimizer.
        """
        path, model = Path(path), self._begun("load")
        if self._steps:
            raise invalid("load", "must be called before the first step", f"after {self._steps} steps")
        saved = _state.read(path, "np")
        own = {"model": model.params, "optimizer": model.state}
        for what, tree in own.items():
            _state.check_fits(named(tree), saved[what], path, what)
        if not self._came_later:
            model.take_back(filled(model.params, saved["model"]), filled(model.state, saved["optimizer"]))
        epoch = self._go_on(saved)
        self._steps = saved["about"]["steps"]  # keys are not drawn again
        return *model.lend(), epoch

    def _begun(self, what: str) -> PytreeModel:
        if self._model is None:
            raise invalid(what, "must be called after step.init", "before it")
        return self._model


def _about(model: PytreeModel, size: int, way: str) -> dict[str, Any]:
    """Return what must be alike in all ranks, by what it is called."""
    form, averages = model.form, model.programs.averages
    told = {
        "the optimizer's state": str(jax.tree.structure(model.state)).removeprefix("PyTreeDef"),
        "what the optimizer makes of small gradients": " ".join(f"{each:.3g}" for each in averages.answers),
        "what it averages": " ".join(f"{first:.3g} {second:.3g}" for first, second in dict.fromkeys(averages.decay)),
    }
    return {
        "the version of erasurehead": erasurehead.__version__,
        "the version of JAX": jax.__version__,
        "the number of ranks": size,
        "the way to meet": way,
        **{
            f"params{path}": f"{kind} {shape}"
            for path, shape, kind in zip(form.paths, form.shapes, form.dtypes, strict=True)
        },
        **{
            name: text if len(text) < 80 else f"{text[:60]} ... ({zlib.crc32(text.encode()):08x})"
            for name, text in told.items()
        },
    }

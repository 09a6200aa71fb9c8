"""The interface of delay models (seconds added to work, drawn from (seed, worker, step)), and combinations of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, ClassVar, cast, final

import numpy as np

from erasurehead._internal.arrays import Array, real_numbers
from erasurehead._internal.ours import ours
from erasurehead.errors import check_not_negative, check_type, counted, invalid

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MOST_SECONDS = 1e15
"""The longest delay that is read, or that a model is given, unless it is inf: sums and squares of such are finite."""

LEAST_SECONDS = 1e-15
"""Shorter delays that were measured are rounding errors, and taken for 0: ratios of times are finite."""


class Delays(ABC):
    """How slow workers are. The same seed gives the same delays to every scheme, on every engine.

    A model is immutable data: it is sent to worker processes, and a run's `config.toml` holds `str(model)`.
    """

    @abstractmethod
    def rows(
        self,
        first: int,
        count: int,
        n_workers: int,
        unit: int = 0,
        work: float | Array = 1.0,
        out: Array | None = None,
    ) -> Array:
        """Return the delays of workers 0..n_workers-1 in successive steps, in seconds, shape (count, n_workers).

        A delay depends only on its worker, step and unit, not on what else is asked for: rows that are asked for one by
        one, in blocks, or for more workers are the same numbers. inf means that the worker does not answer.

        Arguments:
            first: the first step, from 0.
            count: number of steps, at least 1.
            n_workers: number of workers, at least 1.
            unit: 0 for the first message of a step, 1 for the second, and so on; each has its own draw.
            work: number of tasks that the message combines, in all or per worker, for laws in which the delay grows
                with the load.
            out: output, shape (count, n_workers), C-contiguous; None for a new array.
        """

    follows_clock: bool = False
    """Whether delays depend on when an order is posted, not only on its step: see `draw_of`."""

    def draw_of(self, step: int, posted: float) -> int:
        """Return which draw an order meets: a step in the sense of `rows`.

        By default that is the order's own step, so that a method with more steps draws more often. A model that follows
        the clock goes by the time instead, so that a stall takes as long as it takes, whatever is asked meanwhile; its
        `follows_clock` is True.

        Arguments:
            step: step of the order.
            posted: when the order was submitted, in seconds since training began.
        """
        return step

    def rows_at(self, step: int, posted: float, n_workers: int, unit: int = 0, work: float | Array = 1.0) -> Array:
        """Return the delays of an order, shape (1, n_workers); a combined model uses each part's own draw.

        Arguments:
            step, posted: as for `draw_of`.
            n_workers, unit, work: as for `rows`.
        """
        return self.rows(self.draw_of(step, posted), 1, n_workers, unit, work)

    @abstractmethod
    def __str__(self) -> str:
        """Return the model as it is written in a run file: `"exponential(mean=0.5, seed=0)"`."""

    @property
    def expected(self) -> float | None:
        """The mean delay of a message of one unit of work, in seconds, if it is known and the same for all workers.

        It may be inf, as for a Pareto distribution of exponent 1; if None, it is estimated from draws.
        """
        return None

    @property
    def rounds_known(self) -> int | None:
        """Of how many recorded rounds all draws are repetitions; None if each draw is a new one."""
        return None

    def check_workers(self, n_workers: int) -> None:
        """Raise if the model does not fit the number of workers: it names one beyond it, or has too few.

        Raises:
            InvalidArgument: if so; the error names the argument.
        """
        return

    def row(
        self, step: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, posted: float | None = None
    ) -> Array:
        """Return the delays of workers 0..n_workers-1 in one step, in seconds, shape (n_workers,).

        Arguments:
            step: step of the order; without `posted`, the draw.
            n_workers, unit, work: as for `rows`.
            posted: when the order was submitted, in seconds since training began.

        Raises:
            InvalidArgument: if the model returns NaN, a negative number, or not one number per worker.
        """
        drawn = (
            self.rows(step, 1, n_workers, unit, work)
            if posted is None
            else self.rows_at(step, posted, n_workers, unit, work)
        )
        return check_rows(self, drawn, step, 1, n_workers)[0]

    def ranks(self, first: int, count: int, n_workers: int, unit: int = 0) -> Array | None:
        """Return the order of messages of a step that arrive simultaneously, shape (count, n_workers).

        The smaller number goes first. None, as for all models but recorded runs, leaves the order to be drawn: see
        `erasurehead.delays._ties`.

        Arguments:
            first, count, n_workers, unit: as for `rows`.
        """
        return None

    def seconds(self, worker: int, step: int, unit: int = 0, work: float = 1.0, posted: float | None = None) -> float:
        """Return the delay of one worker, in seconds; arguments as of `row`."""
        return float(self.row(step, worker + 1, unit, work, posted)[worker])

    def __add__(self, other: Delays) -> Delays:

        return Sum((self, other))


def check_rows(model: Delays, rows: object, first: int, count: int, n_workers: int) -> Array:
    """Check what a model returned for some steps; a user's own model may return anything.

    Raises:
        InvalidArgument: if these are not delays; the error names step, worker and value.
    """
    # Workers ask before each message: only errors put a model in words, which may be a long table.
    if getattr(rows, "dtype", None) == np.float64:
        values = np.asarray(rows)
    else:
        values = real_numbers(f"what the delay model {model} returns", rows)
    if values.shape != (count, n_workers):
        raise invalid(f"what the delay model {model} returns", f"must have shape {(count, n_workers)}", values.shape)
    if not (sound := values >= 0.0).all():
        step, worker = np.argwhere(~sound)[0].tolist()
        raise invalid(
            f"the delay of worker {worker} in step {first + step}, by {model},",
            "must be a number of seconds of at least 0, or inf",
            float(values[step, worker]),
        )
    return values


def check_models(argument: str, models: Iterable[object]) -> None:
    """Raise unless all of them are delay models.

    Raises:
        InvalidArgument: if one is not; the error shows it.
    """
    for model in models:
        check_type(argument, model, Delays, "must be a delay model", "such as delays.Exponential(mean=0.5)")


def check_own(model: Delays, n_workers: int) -> None:
    """Raise if a user's own model returns other delays of a worker where other steps or fewer workers are asked for.

    Workers of real engines draw their own delays, each for itself, and other engines draw for all: a model of which the
    generator goes on from call to call, or is seeded with the number of workers, has each meet another law.

    Raises:
        InvalidArgument: if so, or as `check_rows`.
    """
    if ours(type(model)):
        return
    drawn = check_rows(model, model.rows(0, 2, n_workers), 0, 2, n_workers)
    for step, worker in ((0, 0), (1, 0), (1, n_workers - 1)):
        if (alone := model.seconds(worker, step)) != drawn[step, worker]:
            raise invalid(
                "delays",
                f"must be the same of a worker in a step whatever else is asked for, which {model} is not: of worker "
                f"{worker} in step {step} it is {drawn[step, worker]:.6g} s among {n_workers} workers",
                alone,
                "draw with np.random.default_rng([seed, step, worker])",
            )


def rows_of(
    model: Delays,
    first: int,
    count: int,
    n_workers: int,
    unit: int = 0,
    work: float | Array = 1.0,
    out: Array | None = None,
) -> Array:
    """Return a model's rows, in an array that may be changed; those of a user's own model are checked.

    Arguments:
        model: the delay model.
        first, count, n_workers, unit, work, out: as for `Delays.rows`.

    Raises:
        InvalidArgument: as `check_rows`.
    """
    if ours(type(model)):
        return model.rows(first, count, n_workers, unit, work, out)
    values = room(out, count, n_workers)
    values[:] = check_rows(model, model.rows(first, count, n_workers, unit, work), first, count, n_workers)
    return values


def rows_at_of(model: Delays, step: int, posted: float, n_workers: int, unit: int, work: float | Array) -> Array:
    """Return a model's delays for an order; those of a user's own model are checked.

    Arguments:
        model: the delay model.
        step, posted, n_workers, unit, work: as for `Delays.rows_at`.

    Raises:
        InvalidArgument: as `check_rows`.
    """
    values = model.rows_at(step, posted, n_workers, unit, work)
    if ours(type(model)):
        return values
    return check_rows(model, values, step, 1, n_workers)


def room(out: Array | None, count: int, n_workers: int) -> Array:
    """Return `out`, or a new array of shape (count, n_workers) if it is None."""
    return np.empty((count, n_workers)) if out is None else out


def seeds(model: object) -> Iterator[int]:
    """Yield every seed that a model draws from."""
    if isinstance(model, tuple):
        for item in cast("tuple[object, ...]", model):
            yield from seeds(item)
    elif isinstance(model, Delays) and is_dataclass(model):
        for item in fields(model):
            if item.name == "seed":
                yield int(getattr(model, item.name))
            else:
                yield from seeds(getattr(model, item.name))


class Declared(Delays):
    """A model that is a dataclass, and written as a call: its name, with its fields."""

    name: ClassVar[str]

    def __str__(self) -> str:
        """Return `name(argument=value, ...)`, without arguments at their defaults (but with the seed)."""
        shown = [
            f"{item.name}={_value(getattr(self, item.name))}"
            for item in fields(cast("DataclassInstance", self))
            if item.name == "seed" or item.default is MISSING or getattr(self, item.name) != item.default
        ]
        return f"{self.name}({', '.join(shown)})"


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_value(item) for item in cast('tuple[object, ...]', value))}]"
    return str(value) if hasattr(value, "rows") else repr(value)


class Combined(Declared):
    """A model made of others, whose draws it joins in the same way whether they go by the step or by the clock."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Delays, ...]:
        """The models that it is made of."""

    @abstractmethod
    def joined(self, draw: Callable[[Delays], Array], first: int, count: int, n_workers: int, unit: int) -> Array:
        """Return the delays, shape (count, n_workers).

        Arguments:
            draw: returns the delays of a part in these steps, which must not be changed.
            first, count, n_workers, unit: as for `rows`.
        """

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        values = self.joined(
            lambda part: rows_of(part, first, count, n_workers, unit, work), first, count, n_workers, unit
        )
        if out is None:
            return values
        out[:] = values
        return out

    @property
    def follows_clock(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return any(part.follows_clock for part in self.parts)

    def rows_at(self, step: int, posted: float, n_workers: int, unit: int = 0, work: float | Array = 1.0) -> Array:
        return self.joined(lambda part: rows_at_of(part, step, posted, n_workers, unit, work), step, 1, n_workers, unit)

    def check_workers(self, n_workers: int) -> None:
        for part in self.parts:
            part.check_workers(n_workers)


class Around(Delays):
    """Another model's delays; subclasses say what else there is to it."""

    model: Delays

    @property
    def expected(self) -> float | None:
        return self.model.expected

    @property
    def rounds_known(self) -> int | None:
        return self.model.rounds_known

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        return self.model.rows(first, count, n_workers, unit, work, out)

    def check_workers(self, n_workers: int) -> None:
        self.model.check_workers(n_workers)


@final
@dataclass(frozen=True)
class Sum(Combined):
    """The sum of delays, for example of computing, network and queueing. Written `a + b`.

    Arguments:
        terms: at least two; nested sums are flattened. Terms that draw must have different seeds, or they would be
            slow together.
    """

    terms: tuple[Delays, ...]

    def __post_init__(self) -> None:
        check_models("a term of a sum of delays", self.terms)
        terms = tuple(part for term in self.terms for part in (term.terms if isinstance(term, Sum) else (term,)))
        if len(terms) < 2:
            raise invalid("terms", "must be at least two", len(terms))
        seen: set[int] = set()
        for term in terms:
            own = set(seeds(term))
            if own & seen:
                raise invalid(
                    "terms",
                    "must draw from different seeds",
                    f"seed {min(own & seen)} in several",
                    "give each its own, such as seed=1",
                )
            seen |= own
        object.__setattr__(self, "terms", terms)

    @property
    def expected(self) -> float | None:
        means = [mean for term in self.terms if (mean := term.expected) is not None]
        return sum(means) if len(means) == len(self.terms) else None

    @property
    def rounds_known(self) -> int | None:
        return min((count for term in self.terms if (count := term.rounds_known) is not None), default=None)

    @property
    def parts(self) -> tuple[Delays, ...]:
        return self.terms

    def joined(self, draw: Callable[[Delays], Array], first: int, count: int, n_workers: int, unit: int) -> Array:
        values = draw(self.terms[0])
        for term in self.terms[1:]:
            values = values + draw(term)
        return values

    def __str__(self) -> str:
        return " + ".join(str(term) for term in self.terms)


@final
@dataclass(frozen=True)
class Scaled(Combined):
    """Workers of unequal speed: each worker's delay times its own factor.

    Arguments:
        model: the delays of a worker whose factor is 1.
        factors: one per worker, at least 0 and finite. More workers than factors are refused.
    """

    name = "scaled"
    model: Delays
    factors: tuple[float, ...]

    def __post_init__(self) -> None:
        check_models("model", (self.model,))
        if not self.factors:
            raise invalid("factors", "must be at least one", self.factors)
        for worker, factor in enumerate(self.factors):
            check_not_negative(f"factors[{worker}]", factor)

    @property
    def rounds_known(self) -> int | None:
        return self.model.rounds_known

    @property
    def parts(self) -> tuple[Delays, ...]:
        return (self.model,)

    def joined(self, draw: Callable[[Delays], Array], first: int, count: int, n_workers: int, unit: int) -> Array:
        self.check_workers(n_workers)
        values, factors = draw(self.model), np.array(self.factors[:n_workers])
        # A worker that never answers does not do so at factor 0, either: 0 times infinity is no number.
        answers = True if factors.all() else np.isfinite(values) | (factors > 0.0)
        return np.multiply(values, factors, out=values.copy(), where=answers)

    def check_workers(self, n_workers: int) -> None:
        if n_workers > len(self.factors):
            raise invalid(
                "factors",
                f"must have one for each of {counted('worker', n_workers)}",
                f"{counted('factor', len(self.factors))}",
            )
        super().check_workers(n_workers)


@final
@dataclass(frozen=True)
class PerWorker(Combined):
    """Workers of several kinds, each kind with its own model.

    Arguments:
        models: one per kind.
        kinds: the kind of each worker, 0..len(models)-1; workers beyond the last are refused. Left out, worker i is
            of kind i.
    """

    name = "per_worker"
    models: tuple[Delays, ...]
    kinds: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.models:
            raise invalid("models", "must be at least one", self.models)
        check_models("a model of models", self.models)
        places = range(len(self.models))
        kinds = self.kinds or tuple(places)
        for worker, kind in enumerate(kinds):
            if kind not in places:
                raise invalid(f"kinds[{worker}]", f"must name one of {len(self.models)} models, from 0", kind)
        object.__setattr__(self, "kinds", () if kinds == tuple(places) else kinds)

    @property
    def parts(self) -> tuple[Delays, ...]:
        return self.models

    def joined(self, draw: Callable[[Delays], Array], first: int, count: int, n_workers: int, unit: int) -> Array:
        self.check_workers(n_workers)
        kinds, values = np.array(self.kinds or range(len(self.models))), np.empty((count, n_workers))
        for kind, model in enumerate(self.models):
            own = np.flatnonzero(kinds[:n_workers] == kind)
            if len(own):
                values[:, own] = draw(model)[:, own]
        return values

    def check_workers(self, n_workers: int) -> None:
        n_kinds = len(self.kinds or self.models)
        if n_workers > n_kinds:
            raise invalid(
                "kinds", f"must have one for each of {counted('worker', n_workers)}", f"{counted('kind', n_kinds)}"
            )
        super().check_workers(n_workers)

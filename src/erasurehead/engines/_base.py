"""The interface of engines: where workers run. Engines carry opaque programs and vectors, and record times.

An engine knows neither codes nor problems. The training loop assigns a program to each worker, submits orders,
and takes events one by one. Any engine that passes `erasurehead.testing.EngineConformance` will do.
"""

from __future__ import annotations

import math
import socket
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Literal, Self, TypeAlias

from erasurehead._internal.arrays import Array, Tree, dtype_of
from erasurehead._internal.late_work import LateWork as LateWork, check_late as check_late, rounds_kept as rounds_kept
from erasurehead.errors import EngineError, ErasureHeadError

Moment: TypeAlias = Literal["begin", "end"]
"""The moments whose time the training loop records."""


BY_TASK = "by_task"
"""Key of the note of an order that workers answer with a message per task, where their programs can: each is sent as
soon as it is finished, in place of the sum of all of them at the end."""

PRECISE = "precise"
"""In the note of an order: messages shall cross as they were computed, in all their digits, on whatever wire."""

TURNS = "turns"
"""Key of the note of an order that says in which order workers take their messages: by the number of each message, its
place among those of its worker. Without it, programs send them in the order of `sent`."""

WORKED = "worked"
"""In the note of an order: each message is to say how long its worker worked on it (`Arrived.worked`)."""

UNTIL_NEWER = "until_newer"
"""In the note of an order: a worker sends one message after the other until a newer order is out, and takes that one
next, whatever late workers do; the message that it is at is finished, or dropped, as they do."""


def then_pause(message: int) -> int:
    """Return what `Engine.redirect` is given for a message after which the worker pauses, be it sent already or not."""
    return -1 - message


def chosen(remaining: Sequence[MessageSpec], told: int | None) -> MessageSpec | None:
    """Return which of the messages that are left a worker takes next; None if it is to pause.

    Arguments:
        remaining: the messages, in order; at least one.
        told: where its coordinator has redirected it for this order; None for nowhere.
    """
    if told is None:
        return remaining[0]
    wanted = next((one for one in remaining if one.message in (told, then_pause(told))), None)
    return wanted or (remaining[0] if told >= 0 else None)


REPORTS = "reports"
"""In the note of an order: each message is a report that what it is computed from is there; it waits at the worker."""

ASKED = "asked"
"""Key of the note of an order for one message of each worker, that of a `level`, after an order for reports in the same
step, in the round `of`. Its `prior` has the number of each message that is asked for, with how much of its work was
reported as done."""


QUESTIONS = "questions"
"""Key of the note of an order that is answered with one number for each message that it names. Its value has, for
each: the number of the message; which of the tasks that it is the sum over are to be summed, counted from 0, the first
and one more than the last; and which element of that sum is wanted."""


@dataclass(frozen=True, eq=False)
class Order:
    """What the coordinator asks the workers to compute.

    Arguments:
        step: number of the optimizer's step; delays and samples are drawn from it.
        points: the models at which to compute; usually one. The arrays must not change once they are submitted.
        round: number of the submission, increasing by one each time; set by the training loop.
        generation: number of the worker set; increases when the code is resized.
        kind: which wait rule governs it, such as `"gradient"`.
        coefficients: one number per point, if the message combines several points.
        note: anything else that programs need, such as the tolerance chosen for a nested code; and what engines heed:
            `PRECISE`, `UNTIL_NEWER`, `WORKED`.
        posted: when it was submitted, in seconds since training began; set by the training loop. Delays that follow the
            clock are drawn from it.
    """

    step: int
    points: tuple[Array, ...]
    round: int = -1
    generation: int = 0
    kind: str = "gradient"
    coefficients: tuple[float, ...] = ()
    note: Mapping[str, Any] = field(default_factory=dict[str, Any])
    posted: float = 0.0


@dataclass(frozen=True)
class MessageSpec:
    """A message before it is computed: its size and work are known in advance.

    Arguments:
        message: the message's row of the code.
        work: amount of work, in tasks; delay models that scale with the load use it.
        length: number of elements of the vector.
        dtype: of the vector, as numpy writes it, or `"bfloat16"` and its kin where the package ml_dtypes is installed.
        content: messages with the same content carry equal vectors in the same round; None if no other is like it.
        vectors: number of vectors of equal length that it holds, one after the other; wires encode each by itself.
        prior: the part of the work that its worker has done before, for an earlier message or order of the same step:
            only the rest takes time, and the injected delay is what it adds to that of one message.
    """

    message: int
    work: float
    length: int
    dtype: str = "float64"
    content: int | None = None
    vectors: int = 1
    prior: float = 0.0

    @property
    def nbytes(self) -> int:
        """Bytes of the vector."""
        return self.length * dtype_of(self.dtype).itemsize


def delay_of(spec: MessageSpec, unit: int, draw: Callable[[int, float], float]) -> float:
    """Return the delay of a message, in seconds.

    Arguments:
        spec: the message.
        unit: 0 for its worker's first message for an order, 1 for the second, and so on.
        draw: returns the delay of a message of some unit and work.
    """
    if not spec.prior:
        return draw(unit, spec.work)
    whole = draw(0, spec.work)
    return max(0.0, whole - draw(0, spec.prior)) if whole < math.inf else whole


class Program(ABC):
    """What runs on a worker. It is sent to the worker once, with the data that it needs."""

    preload: tuple[str, ...] = ()
    """Modules to import once, in the server that workers are forked from."""

    input_dtype: str = "float64"
    """Dtype of the points' elements; the widest, if they differ."""

    pure: bool = True
    """Whether computing may be delayed, shared between equal messages, or repeated, without changing the result."""

    def sent(self, by_task: bool) -> Sequence[MessageSpec]:
        """Return the messages that answer an order, in the order of sending: by default all of `message_specs`.

        Arguments:
            by_task: whether the order's note asks for a message per task (`BY_TASK`).
        """
        return self.message_specs

    @property
    @abstractmethod
    def message_specs(self) -> Sequence[MessageSpec]:
        """All messages that this program may ever send, with their greatest lengths; engines reserve room for them."""

    @property
    @abstractmethod
    def input_size(self) -> int:
        """The greatest total number of elements of an order's points; engines reserve room for them."""

    @property
    def input_nbytes(self) -> int:
        """The bytes of `input_size` elements."""
        return self.input_size * dtype_of(self.input_dtype).itemsize

    @abstractmethod
    def remaining(self, order: Order, done: Sequence[MessageSpec]) -> Sequence[MessageSpec]:
        """Return the messages still to be sent for an order, in the order of sending, after `done` have been sent.

        Arguments:
            order: the order.
            done: messages of this order that were sent, in order: the first ones, or, where a worker was redirected
                (`Engine.redirect`), others. Each was computed before; only where a program is `pure` may an engine in
                the coordinator's process compute them later, when they are read.
        """

    @abstractmethod
    def take(self, order: Order) -> Any:
        """Copy what is needed from the order's points: the engine may overwrite them as soon as this returns."""

    @abstractmethod
    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        """Write the message's vector into `out`, shape (spec.length,).

        Arguments:
            spec: one of `remaining`.
            taken: what `take` returned for the same order.
            out: output, shape (spec.length,); every element must be written.
        """

    def state(self) -> Tree:
        """Return what computing has changed in this program, as plain data; nothing for a pure program."""
        return {}

    def restore(self, state: Tree) -> None:
        """Continue from what `state` returned, in a newly built program."""
        return


class Lease(ABC):
    """A message's vector, lent to the coordinator until it is given back."""

    @abstractmethod
    def read(self) -> Array:
        """Return the vector, shape (spec.length,).

        Raises:
            MessageLost: if it turns out only now that the vector cannot be computed.
            EngineError: if it has been given back.
        """

    @abstractmethod
    def end(self) -> None:
        """Give the vector back; may be called twice."""


@dataclass(frozen=True, eq=False)
class Arrived:
    """A message has arrived. Its vector is valid until the event is released, or a later round is submitted.

    Arguments:
        worker: the worker that sent it.
        spec: the message.
        order_round: the round that it answers; less than the current one if it is late.
        step: the step that it answers.
        started: when the worker began to work on the order, in the engine's seconds.
        time: when the coordinator received it, in the engine's seconds.
        read: returns the vector, shape (spec.length,); engines may compute it only when it is called, and
            then raise `MessageLost` if computing fails.
        lease: the lease that `Engine.release` ends; None if there is none.
        worked: for how many seconds the worker computed: what would be twice as long if there were twice as much to
            compute, an injected delay of that kind included. None where the order does not ask, or nobody says.
    """

    worker: int
    spec: MessageSpec
    order_round: int
    step: int
    started: float
    time: float
    read: Callable[[], Array]
    lease: Lease | None = None
    worked: float | None = None


@dataclass(frozen=True)
class Failed:
    """A worker will not answer this round, for example because its program raised, but is still alive.

    Arguments:
        worker: number of the worker.
        order_round: the round that it will not answer.
        reason: the reason, in words.
        time: when it was noticed, in the engine's seconds.
    """

    worker: int
    order_round: int
    reason: str
    time: float


@dataclass(frozen=True)
class Died:
    """A worker has died, and with it all that it had not sent.

    Arguments:
        worker: number of the worker.
        reason: the reason, in words.
        time: when it was noticed, in the engine's seconds.
        broken: whether it reported itself that it cannot run its program, which a replacement may not be able to,
            either.
    """

    worker: int
    reason: str
    time: float
    broken: bool = False


@dataclass(frozen=True)
class Joined:
    """A worker has joined and is ready for orders; the newest order submitted to it, if any, is its first.

    Arguments:
        worker: number of the worker.
        host: the host where it runs.
        time: when it joined, in the engine's seconds.
    """

    worker: int
    host: str
    time: float


@dataclass(frozen=True)
class Offered:
    """There is room for more workers than before, for example on a new machine. None are started automatically.

    Arguments:
        workers: how many more there is room for.
        host: the host with room.
        time: when it was noticed, in the engine's seconds.
    """

    workers: int
    host: str
    time: float


Event: TypeAlias = Arrived | Failed | Died | Joined | Offered


CLOSED = "the engine is closed, and its workers are gone; make a new one for another run."


class MessageLost(EngineError):
    """A message was announced, but its vector cannot be read: the training loop counts it as an erasure."""


class NoRoom(EngineError):
    """A worker cannot be started because there is no room for it. Other workers continue."""


_MOST_TOLD = 500  # characters of an exception's text


def told(error: BaseException) -> str:
    """Return the text of an exception, truncated so that it fits into records and pipes.

    The traceback stays in the worker, so the text says which function that is not the library's was called, and the
    line in it. Its file is not known there, if it is the user's main program.
    """
    text = f"{type(error).__name__}: {error}"
    text = text if len(text) <= _MOST_TOLD else f"{text[:_MOST_TOLD]}..."
    for frame, line in traceback.walk_tb(None if isinstance(error, ErasureHeadError) else error.__traceback__):
        if not frame.f_globals["__name__"].startswith("erasurehead."):
            return f"{text} (in {frame.f_code.co_qualname}, line {line})"
    return text


class Engine(ABC):
    """Where workers run. As a context manager, it ends all workers on exit, and frees their shared memory.

    A copy of an engine, also through a pickle, is a new one with the same settings, and without workers. Records and
    the command line call it by its `name`.
    """

    name: ClassVar[str]

    virtual: bool = False
    """Whether the clock is virtual: it stands still while the coordinator works, and jumps when it waits."""

    inside: bool = False
    """Whether workers take the coordinator's own time, so that none is started, and nothing runs beside training."""

    late: LateWork = "preempt"
    """What a worker does when a newer order is out while its injected delay still runs: see `LateWork`."""

    message_error: float = 0.0
    """How much equal messages may differ after transport, relative to their largest element: 0 without lossy wires."""

    message_rounding: float = 0.0
    """The largest error of an element after transport, relative to the message's largest element; likewise."""

    _settings: tuple[tuple[Any, ...], dict[str, Any]]  # what it was made with

    def __new__(cls, *settings: Any, **named: Any) -> Self:
        engine = super().__new__(cls)
        engine._settings = settings, named
        return engine

    def __reduce__(self) -> tuple[Any, ...]:
        settings, named = self._settings
        return partial(type(self), *settings, **named), ()

    def hosts(self) -> Mapping[str, int | None]:
        """Return the hosts where workers can run, each with the total number of workers it has room for; None for any.

        The training loop reads it before it assigns workers, so that not all replicas of a task go to one host.
        """
        return {socket.gethostname(): None}

    @abstractmethod
    def assign(self, worker: int, program: Program | None, host: str | None = None) -> None:
        """Start a worker with a program, replace the program of a worker, or end the worker (with None).

        Returns at once; a `Joined` event tells when the worker is ready. Messages of an earlier process with this
        number that have not been taken yet are dropped: no event of it follows.

        Arguments:
            worker: number of the worker; a number that is not in use stands for a new worker.
            program: the program to run.
            host: one of `hosts()`, if the worker should run there; if there is no room left, it runs on another.

        Raises:
            NoRoom: if the worker cannot be started anywhere.
        """

    @abstractmethod
    def submit(self, order: Order, workers: Iterable[int] | None = None) -> None:
        """Send an order to the given workers, by default to all that are alive.

        A round higher than any before frees all vectors that were handed out; sending the current round to another
        worker (a replacement) does not. A busy worker takes the newest order next: orders never queue up.
        """

    def redirect(self, worker: int, order_round: int, message: int) -> None:
        """Let a worker take another message next, when it is through with the one at hand, and then go on in its order.

        This is advice, which the newest replaces. A worker that is at another order, or has sent the message, does as
        if it had not been told, and so do all by default, for engines that pass nothing on.

        Arguments:
            worker: number of the worker.
            order_round: the round of the order, whose note says `UNTIL_NEWER`.
            message: number of one of its messages for that; of message m, -1 - m if the worker is to wait after it for
                more advice, or a newer order: at once if it has sent m.
        """
        return

    @abstractmethod
    def next_event(self, until: float | None = None) -> Event | None:
        """Return the next event, or None once `now()` has reached `until`.

        Arguments:
            until: time limit in the engine's seconds; None waits as long as some worker can still answer, and raises
                `EngineError` when none can.
        """

    @abstractmethod
    def release(self, arrived: Arrived) -> None:
        """Give back a message's vector before the next order; reading it afterwards is an error."""

    def state(self) -> Tree | None:
        """Return everything that `restore` needs to continue bit for bit; called between two rounds.

        None, the default, is right for workers outside this process: they cannot be saved, and are started afresh when
        a run is resumed.
        """
        return None

    def restore(self, state: Tree, programs: Mapping[int, Program]) -> None:
        """Continue as the engine whose state was saved; earlier orders to this one are dropped.

        Arguments:
            state: what `state` returned.
            programs: the programs of all workers that may be in the state, by number.

        Raises:
            EngineError: if this kind of engine has no state.
            DataError: if it is not such a state, or comes from an engine with other settings.
        """
        raise EngineError(f"the engine {self.name!r} has no state to continue from: its workers are started afresh.")

    @abstractmethod
    def now(self) -> float:
        """Return the engine's time in seconds, from an arbitrary origin."""

    def stamp(self, moment: Moment, order_round: int) -> float:
        """Return the time to record for a moment: the present time or, in a replay, the recorded one.

        Arguments:
            moment: `"begin"`: a round begins; `"end"`: the model has moved after it.
            order_round: the round.
        """
        return self.now()

    @abstractmethod
    def close(self) -> None:
        """End all workers and free their shared memory. May be called twice; other methods then raise `EngineError`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

"""What an engine is: the place where workers run. It carries opaque programs and vectors, and stamps the time.

An engine knows neither codes nor problems. The training loop assigns a program to each worker, submits orders,
and takes events one by one. Engines are equal peers: whatever passes `erasurehead.testing.EngineConformance` will do.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar, Literal, Self, TypeAlias

from erasurehead._internal.arrays import Array, Tree, dtype_of
from erasurehead._internal.late_work import LateWork as LateWork
from erasurehead._internal.late_work import check_late as check_late
from erasurehead._internal.late_work import rounds_kept as rounds_kept
from erasurehead.errors import EngineError

Moment: TypeAlias = Literal["begin", "end"]
"""What the loop takes the time of, for its records."""


@dataclass(frozen=True, eq=False)
class Order:
    """What the coordinator asks of the workers.

    Arguments:
        step: the optimizer's step; delays and samples are drawn from it.
        points: the models at which to compute; usually one. The arrays are not changed once they are submitted.
        round: number of the submission, rising by one each time; set by the loop.
        generation: number of the worker set; rises when the code is resized.
        kind: which wait rule governs it, such as `"gradient"`.
        coefficients: one number a point, if the message combines several points.
        note: anything else that programs need, such as the tolerance chosen for a nested code.
        posted: when it was submitted, in seconds since training began; set by the loop. Delays that follow the clock
            are drawn from it.
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
    """One message to come; what a worker will send is known before it is computed.

    Arguments:
        message: row of the code.
        work: in task units; laws that scale with the load read it.
        length: number of elements of the vector.
        dtype: of the vector, as numpy writes it, or `"bfloat16"` and its kin where the package ml_dtypes is installed.
        content: messages of equal content carry equal vectors in the same round; None if it is unlike any other.
        vectors: how many vectors of equal length it holds, one after the other; wires encode each by itself.
    """

    message: int
    work: float
    length: int
    dtype: str = "float64"
    content: int | None = None
    vectors: int = 1

    @property
    def nbytes(self) -> int:
        """Bytes of the vector."""
        return self.length * dtype_of(self.dtype).itemsize


class Program(ABC):
    """What runs on a worker. It is sent there once, with the data that it needs."""

    preload: tuple[str, ...] = ()
    """Modules to import once in the server that workers are forked from."""

    input_dtype: str = "float64"
    """Type of the points' elements; the widest, if they differ."""

    pure: bool = True
    """Whether computing may be delayed, shared between equal messages, or repeated, without changing the outcome."""

    @property
    @abstractmethod
    def message_specs(self) -> Sequence[MessageSpec]:
        """Every message that this program may ever send, with its greatest length; engines reserve room for them."""

    @property
    @abstractmethod
    def input_size(self) -> int:
        """Greatest number of elements of all points of an order together; engines reserve room for them."""

    @property
    def input_nbytes(self) -> int:
        """Bytes of so many elements."""
        return self.input_size * dtype_of(self.input_dtype).itemsize

    @abstractmethod
    def remaining(self, order: Order, done: Sequence[MessageSpec]) -> Sequence[MessageSpec]:
        """Return the messages still to be sent for an order, in order, when `done` have been.

        Arguments:
            order: what is asked.
            done: messages of this order that were sent, in order. Each was computed before; only where a program is
                `pure` may an engine in the coordinator's process compute them later, when they are read.
        """

    @abstractmethod
    def take(self, order: Order) -> Any:
        """Copy what is needed of the order's points: the engine may overwrite them as soon as this returns."""

    @abstractmethod
    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        """Write the message's vector into `out`, shape (spec.length,).

        Arguments:
            spec: one of `remaining`.
            taken: what `take` returned for the same order.
            out: room for the vector; every element is to be written.
        """

    def state(self) -> Tree:
        """Return what computing has changed in this program, as plain data; a pure program has nothing to tell."""
        return {}

    def restore(self, state: Tree) -> None:
        """Continue from a state, in a program that was built anew."""
        return


class Lease(ABC):
    """A message's vector in the coordinator's hands, until it is given back."""

    @abstractmethod
    def read(self) -> Array:
        """Return the vector, shape (spec.length,).

        Raises:
            MessageLost: if it turns out only now that it cannot be computed.
            EngineError: if it was given back.
        """

    @abstractmethod
    def end(self) -> None:
        """Give the vector back; twice is as good as once."""


@dataclass(frozen=True, eq=False)
class Arrived:
    """A message is in. Its vector is valid until the event is released, or a later round submitted.

    Arguments:
        worker: who sent it.
        spec: which message.
        order_round: the round that it answers; smaller than the current one if it is late.
        step: the step that it answers.
        started: when the worker began to work on the order, in the engine's seconds.
        time: when the coordinator had it, in the engine's seconds.
        read: returns the vector, shape (spec.length,); engines may compute it only when it is asked for, and
            then raise `MessageLost` if computing fails.
        lease: what the engine is given back with the event; None if that is nothing.
    """

    worker: int
    spec: MessageSpec
    order_round: int
    step: int
    started: float
    time: float
    read: Callable[[], Array]
    lease: Lease | None = None


@dataclass(frozen=True)
class Failed:
    """A worker will not answer this round (it raised, say), but lives on.

    Arguments:
        worker: its number.
        order_round: the round that it will not answer.
        reason: in words.
        time: in the engine's seconds.
    """

    worker: int
    order_round: int
    reason: str
    time: float


@dataclass(frozen=True)
class Died:
    """A worker is gone for good, and all that it had not sent with it.

    Arguments:
        worker: its number.
        reason: in words.
        time: when it was noticed, in the engine's seconds.
        broken: whether it said itself that it cannot run its program, as the next one may have to say, too.
    """

    worker: int
    reason: str
    time: float
    broken: bool = False


@dataclass(frozen=True)
class Joined:
    """A worker is there and ready for orders; the newest order submitted to it, if any, is its first.

    Arguments:
        worker: its number.
        host: where it runs.
        time: in the engine's seconds.
    """

    worker: int
    host: str
    time: float


@dataclass(frozen=True)
class Offered:
    """There is room for more workers than before: a machine has come, say. None are started there by themselves.

    Arguments:
        workers: how many more.
        host: where.
        time: when it was noticed, in the engine's seconds.
    """

    workers: int
    host: str
    time: float


Event: TypeAlias = Arrived | Failed | Died | Joined | Offered


CLOSED = "the engine is closed, and its workers are gone; make a new one for another run."


class MessageLost(EngineError):
    """A message was announced, but its vector cannot be read: the loop counts it as an erasure."""


class NoRoom(EngineError):
    """A worker cannot be started: no place is free for it. Others go on."""


_MOST_TOLD = 500  # characters of an exception's text


def told(error: BaseException) -> str:
    """Return what an exception says, cut where it would fill the records, or a pipe."""
    text = f"{type(error).__name__}: {error}"
    return text if len(text) <= _MOST_TOLD else f"{text[:_MOST_TOLD]}..."


class Engine(ABC):
    """Where workers run. Use it as a context manager: leaving it ends every worker and frees what they shared."""

    name: ClassVar[str]

    virtual: bool = False
    """Whether its clock stands still while the coordinator works, and jumps when it waits."""

    late: LateWork = "preempt"
    """What a worker does when a newer order is out while its injected delay still runs."""

    message_error: float = 0.0
    """How much equal messages may come to differ on their way, relative to their largest element: on lossy wires."""

    message_rounding: float = 0.0
    """The largest error of an element of a message on its way, relative to its largest element: likewise."""

    def hosts(self) -> Mapping[str, int | None]:
        """Return where workers can run: each host, with how many workers it has room for in all; None for any.

        The loop reads it before it assigns, so that replicas of a task do not all go to one host.
        """
        return {socket.gethostname(): None}

    @abstractmethod
    def assign(self, worker: int, program: Program | None, host: str | None = None) -> None:
        """Start a worker with a program, replace the program of a worker, or (None) end the worker.

        Returns at once; a `Joined` event tells when the worker is ready. What an earlier process of this number sent
        and nobody has taken yet is void: no event of it follows.

        Arguments:
            worker: its number; any number that is not in use names a new worker.
            program: what it is to run.
            host: one of `hosts()`, if it should run there; where there is no room left, it runs on another.

        Raises:
            NoRoom: if it cannot be started anywhere.
        """

    @abstractmethod
    def submit(self, order: Order, workers: Iterable[int] | None = None) -> None:
        """Send an order to the given workers, by default to all that live.

        A round higher than any before frees all vectors that were handed out; sending the current round to one more
        worker (a replacement) does not. A worker that is busy takes the newest order next, never a queue of them.
        """

    @abstractmethod
    def next_event(self, until: float | None = None) -> Event | None:
        """Return the next event, or None once `now()` has reached `until`.

        Arguments:
            until: in the engine's seconds; None waits for as long as some worker can still answer, and raises
                `EngineError` where none can.
        """

    @abstractmethod
    def release(self, arrived: Arrived) -> None:
        """Give back a message's vector before the next order; reading it afterwards is an error."""

    def state(self) -> Tree | None:
        """Return all that `restore` needs to go on to the bit, between two rounds.

        None, which is the default and right for workers outside this process: they cannot be saved, and are started
        afresh when a run is resumed.
        """
        return None

    def restore(self, state: Tree, programs: Mapping[int, Program]) -> None:
        """Take the place of the engine that a state was taken of; earlier orders to this one are dropped.

        Arguments:
            state: what `state` returned.
            programs: of every worker that may be in it, by number.

        Raises:
            EngineError: if this kind of engine has no state.
            DataError: if it is not such a state, or not one of an engine with the same settings.
        """
        raise EngineError(f"the engine {self.name!r} has no state to go on from: its workers are started afresh.")

    @abstractmethod
    def now(self) -> float:
        """Return the engine's time in seconds, from an arbitrary origin."""

    def stamp(self, moment: Moment, order_round: int) -> float:
        """Return the time of something that is recorded: now; in a replay, what was recorded then.

        Arguments:
            moment: what it is: `"begin"`, a round begins; `"end"`, the model has moved after it.
            order_round: the round.
        """
        return self.now()

    @abstractmethod
    def close(self) -> None:
        """End every worker and free what they shared. May be called twice; all else then raises `EngineError`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

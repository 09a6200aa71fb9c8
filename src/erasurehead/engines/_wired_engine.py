"""An engine whose messages cross a wire: computed in full precision, sent in fewer bytes, decoded when they are read.

A wire sits between a program and the transport of its messages: engines carry bytes, and know nothing about it.
Messages that answer an order whose note says `PRECISE` are sent in full: a method that finds its gradients too coarse
may ask for them as they were computed. Where a message holds two vectors, the second one, of curvatures, keeps digits
for each of its elements: those of rare columns are thousands of times smaller than the largest, and matter as much.

Programs compute in their own type, whatever the wire: a message is a sum over many
samples and several tasks, so computing it in a shorter type would lose more than rounding the result does, and
differently on each machine, so that replicas could not be compared any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar, cast, final

import numpy as np

from erasurehead._internal.arrays import Array, dtype_of
from erasurehead.engines._base import PRECISE, Arrived, Engine, Event, Lease, MessageLost, MessageSpec, Order, Program
from erasurehead.engines._engine_around import EngineAround, ProgramAround
from erasurehead.engines._wires import Bytes, Cast, Wire

BYTES = "uint8"


@final
class WiredProgram(ProgramAround):
    """A program whose messages are encoded by a wire; otherwise it is the program that it wraps.

    Arguments:
        program: the wrapped program; its messages hold the loss last.
        wire: encodes the messages.
    """

    def __init__(self, program: Program, wire: Wire) -> None:
        super().__init__(program)
        self.wire = wire
        self._computed: dict[MessageSpec, MessageSpec] = {}

    @property
    def message_specs(self) -> Sequence[MessageSpec]:
        return [max(self._sent(spec), _first(spec), key=lambda one: one.nbytes) for spec in self.program.message_specs]

    def remaining(self, order: Order, done: Sequence[MessageSpec]) -> Sequence[MessageSpec]:
        remaining = self.program.remaining(order, [self._computed[spec] for spec in done])
        precise = bool(order.note.get(PRECISE))
        sent = [spec if precise and spec.vectors == 1 else self._sent(spec) for spec in remaining]
        self._computed |= zip(sent, remaining, strict=True)
        return sent

    def take(self, order: Order) -> Any:
        return order.step, self.program.take(order)

    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        step, inner = taken
        computed = self._computed[spec]
        if computed == spec:
            self.program.compute(computed, inner, out)
            return
        whole = np.empty(computed.length, dtype_of(computed.dtype))
        self.program.compute(computed, inner, whole)
        content = computed.message if computed.content is None else computed.content
        slices = _slices(self.wire, cast("Bytes", out), computed.vectors, computed.length // computed.vectors)
        for (wire, part), vector in zip(slices, np.split(whole, computed.vectors), strict=True):
            wire.encode(vector, (step, content), part)

    def _sent(self, spec: MessageSpec) -> MessageSpec:
        length = spec.length // spec.vectors
        nbytes = sum(wire.nbytes(length) for wire in _wires(self.wire, spec.vectors))
        return replace(spec, length=nbytes, dtype=BYTES)


def _first(spec: MessageSpec) -> MessageSpec:
    """Return the message of the first vector alone."""
    return replace(spec, length=spec.length // spec.vectors, vectors=1)


def _wires(wire: Wire, vectors: int) -> Sequence[Wire]:
    """Return what each vector of a message crosses on: the first on its wire, others with digits for each element."""
    each = wire if isinstance(wire, Cast) and wire.dtype != "float16" else Cast("bfloat16")
    return [wire, *[each] * (vectors - 1)]


def _slices(wire: Wire, sent: Bytes, vectors: int, length: int) -> Iterator[tuple[Wire, Bytes]]:
    """Yield the bytes of each vector of a message, with the wire that it crosses on.

    Arguments:
        wire: of the first.
        sent: all bytes.
        vectors: how many there are.
        length: of each, in elements.
    """
    begin = 0
    for one in _wires(wire, vectors):
        end = begin + one.nbytes(length)
        yield one, sent[begin:end]
        begin = end


@final
class _Decoded(Lease):
    """A message that is decoded when it is first read."""

    def __init__(self, sent: Arrived, wire: Wire) -> None:
        self.sent, self._wire = sent, wire
        self._vector: Array | None = None

    def read(self) -> Array:
        sent = cast("Bytes", self.sent.read())  # raises if it has been given back meanwhile
        if self._vector is None:
            vectors = self.sent.spec.vectors
            if vectors == 1:
                self._vector = self._wire.decode(sent)
            else:
                length = int(sent[:8].view(np.int64)[0])
                if sum(wire.nbytes(length) for wire in _wires(self._wire, vectors)) != len(sent):
                    raise MessageLost(f"a message of {len(sent)} bytes is not {vectors} vectors of {length} elements")
                parts = [wire.decode(part) for wire, part in _slices(self._wire, sent, vectors, length)]
                self._vector = np.concatenate(parts)
        return self._vector

    def end(self) -> None:
        self._vector = None  # the encoded one belongs to the engine, which releases it itself


@final
class WiredEngine(EngineAround):
    """Any engine, with messages encoded by a wire; made by `train(..., wire=)`, and closed with the engine.

    `Arrived.spec` has the bytes that messages take on the wire; when they are read they are as computed, except for the
    loss of the wire.

    Arguments:
        engine: where the workers run.
        wire: encodes the messages.
    """

    name: ClassVar[str] = "wired"

    def __init__(self, engine: Engine, wire: Wire) -> None:
        super().__init__(engine)
        self.wire = wire
        setattr(self, "name", engine.name)  # noqa: B010  # the name of the wrapped engine is recorded with runs
        self.message_error, self.message_rounding = wire.error, wire.rounding

    def around(self, worker: int, program: Program) -> Program:
        return self._wired(program)

    @cache  # noqa: B019  # Ray knows a program that it is asked for again by its identity; as many as there are workers
    def _wired(self, program: Program) -> WiredProgram:
        return WiredProgram(program, self.wire)

    def next_event(self, until: float | None = None) -> Event | None:
        event = self.engine.next_event(until)
        if not isinstance(event, Arrived) or event.spec.dtype != BYTES:  # as it was computed
            return event
        decoded = _Decoded(event, self.wire)
        return replace(event, read=decoded.read, lease=decoded)

    def release(self, arrived: Arrived) -> None:
        lease = arrived.lease
        if isinstance(lease, _Decoded):
            self.engine.release(lease.sent)
            lease.end()

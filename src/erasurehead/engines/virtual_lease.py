"""What the virtual engine lends the coordinator: vectors that are computed when they are read, and equal ones once."""

from __future__ import annotations

import numpy as np

from erasurehead._internal.arrays import Array, dtype_of
from erasurehead.engines.base import Lease, MessageLost, MessageSpec, Program, told
from erasurehead.engines.virtual_state import Flight
from erasurehead.errors import EngineError


class VirtualLease(Lease):
    """A vector lent to the coordinator: computed when it is first read, refused after it was given back."""

    def __init__(self, program: Program, flight: Flight, spec: MessageSpec, lost: bool = False) -> None:
        self._lost = lost
        self._source: tuple[Program, Flight, MessageSpec] | None = (program, flight, spec)
        self._own: Array | None = None

    def end(self) -> None:
        self._source = self._own = None

    def read(self) -> Array:
        if self._source is None:
            raise EngineError("the vector of this message was released; read it before the next order is submitted.")
        program, flight, spec = self._source
        if self._lost:
            raise MessageLost(f"message {spec.message}: it could not be used in the recorded run")
        shared = spec.content if program.pure else None
        vector = self._own if shared is None else flight.vectors.get(shared)
        if vector is None:
            vector = np.empty(spec.length, dtype=dtype_of(spec.dtype))
            try:
                program.compute(spec, program.take(flight.order), vector)
            except Exception as error:
                raise MessageLost(f"message {spec.message}: {told(error)}") from error
            if shared is None:
                self._own = vector
            else:
                flight.vectors[shared] = vector
        return vector

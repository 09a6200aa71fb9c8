"""A program on its way to its actor: its large arrays as objects of Ray's store, which all workers of a node share."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any, cast

import cloudpickle  # pyright: ignore[reportMissingTypeStubs]  # ships none
import numpy as np

from erasurehead.delays.base import Delays
from erasurehead.engines.base import Program, told
from erasurehead.errors import EngineError

_LARGE = 100_000
"""Bytes from which an array is an object of its own; Ray sends smaller ones with the rest, too."""


@dataclass
class Store:
    """Large arrays that are in Ray's store already, by where they lie in our memory, and how large they are.

    The arrays are kept alive beside their references, so that no other array can have their address.
    """

    objects: dict[tuple[int, int], tuple[Any, memoryview]] = field(
        default_factory=dict[tuple[int, int], tuple[Any, memoryview]]
    )

    def put(self, ray: Any, raw: memoryview) -> Any:
        """Return the reference of an array; it is written only if it is not there yet."""
        bytes_of = np.frombuffer(raw, dtype=np.uint8)
        key = (int(bytes_of.ctypes.data), raw.nbytes)
        if key not in self.objects:
            self.objects[key] = put(ray, bytes_of), raw
        return self.objects[key][0]


@dataclass(frozen=True)
class PackedProgram:
    """A program in Ray's store.

    Attributes:
        head: the pickled program and delays, without their large arrays.
        arrays: references of those.
    """

    head: bytes
    arrays: list[Any]

    def open(self, ray: Any) -> tuple[Program, Delays | None]:
        """Return the program and its delays, the large arrays as read-only views of this node's store."""
        return pickle.loads(self.head, buffers=ray.get(self.arrays))


def pack(ray: Any, program: Program, delays: Delays | None, store: Store) -> PackedProgram:
    """Put a program into Ray's store, with the delays that are injected into it.

    Arguments:
        ray: the library.
        program: what to pack. Its arrays must not be changed afterwards.
        delays: may be of a class of the user's own script, as the program may.
        store: what is there already; an array that several programs hold is written once, and crosses to each node
            once.
    """
    arrays: list[Any] = []

    def take(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes >= _LARGE:
            arrays.append(store.put(ray, raw))
        return raw.nbytes < _LARGE

    head: bytes = cast("Any", cloudpickle).dumps((program, delays), protocol=5, buffer_callback=take)
    return PackedProgram(head, arrays)


def put(ray: Any, value: Any) -> Any:
    """Return the reference of an object that is now in Ray's store.

    Raises:
        EngineError: if there is no room for it.
    """
    try:
        return ray.put(value)
    except ray.exceptions.RayError as error:
        raise EngineError(
            f"Ray's object store has no room, in memory or on disk ({told(error)}); start the cluster with a larger "
            "one (ray start --object-store-memory), or let workers read their data themselves."
        ) from error

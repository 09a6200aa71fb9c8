"""A program on its way to its actor: its large arrays as objects of Ray's store, which all workers of a node share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from erasurehead.delays import Delays
from erasurehead.engines._base import Program, told
from erasurehead.engines._packed_program import ArrayCache, pack, unpack
from erasurehead.errors import EngineError

_SMALL = 100_000
"""Bytes up to which an array travels with the rest: Ray does not share objects of so few."""


@dataclass(frozen=True)
class ProgramInRayStore:
    """A program in Ray's store.

    Attributes:
        head: of the packed program.
        arrays: references of its large arrays.
    """

    head: bytes
    arrays: list[Any]

    def open(self, ray: Any) -> tuple[Program, Delays | None]:
        """Return the program and its delays, the large arrays as read-only views of this node's store."""
        return unpack(self.head, ray.get(self.arrays))


def share(ray: Any, program: Program, delays: Delays | None, store: ArrayCache[Any]) -> ProgramInRayStore:
    """Put a program into Ray's store, with the delays that are injected into it.

    Arguments:
        ray: the library.
        program: what to pack. Its arrays must not be changed afterwards.
        delays: may be of a class of the user's own script, as the program may.
        store: references of what is there already; an array that several programs hold is written once, and crosses
            to each node once.
    """
    packed = pack(program, delays, small=_SMALL)
    return ProgramInRayStore(packed.head, [store.get([array], partial(put, ray, array)) for array in packed.arrays])


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

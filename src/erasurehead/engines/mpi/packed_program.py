"""A program on its way to its rank: the large arrays as messages of their own, neither copied nor pickled."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

import cloudpickle  # pyright: ignore[reportMissingTypeStubs]  # ships none
import numpy as np

from erasurehead.delays.base import Delays
from erasurehead.engines.base import Program
from erasurehead.engines.mpi.transport import LINE, Frame

_SMALL = 4096  # bytes up to which an array travels with the rest


@dataclass(frozen=True, eq=False)
class PackedProgram:
    """A packed program.

    Attributes:
        head: the pickled program and delays, without their large arrays.
        tails: of each large array, the bytes after its last whole line.
        bodies: of each large array, its whole lines: a view, which keeps the array alive.
    """

    head: bytes
    tails: tuple[bytes, ...]
    bodies: tuple[Frame, ...]


def pack(program: Program, delays: Delays | None) -> PackedProgram:
    """Pack a program with the delays that are injected into it; both may be of classes of the user's own script."""
    buffers: list[Frame] = []

    def take(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes > _SMALL:
            buffers.append(np.frombuffer(raw, dtype=np.uint8))
        return raw.nbytes <= _SMALL

    head: bytes = cast("Any", cloudpickle).dumps((program, delays), protocol=5, buffer_callback=take)
    ends = [len(buffer) // LINE * LINE for buffer in buffers]
    tails = tuple(buffer[end:].tobytes() for buffer, end in zip(buffers, ends, strict=True))
    return PackedProgram(head, tails, tuple(buffer[:end] for buffer, end in zip(buffers, ends, strict=True)))


def unpack(head: bytes, arrays: list[Frame]) -> tuple[Program, Delays | None]:
    """Return a program and its delays, and import what the program wants imported.

    Arguments:
        head: of the packed.
        arrays: the large ones, whole; the program sees them as read-only views.
    """
    for array in arrays:
        array.flags.writeable = False
    program, delays = pickle.loads(head, buffers=arrays)
    for module in program.preload:
        import_module(module)
    return program, delays

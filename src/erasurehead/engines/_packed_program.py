"""A program on its way to its worker: large arrays apart from the rest, so that an engine can move them as it likes.

Workers of equal tasks hold the same arrays: an `ArrayCache` remembers what was sent or written already.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, TypeVar, cast

import cloudpickle  # pyright: ignore[reportMissingTypeStubs]  # ships none
import numpy as np

from erasurehead.delays import Delays
from erasurehead.engines._base import Program
from erasurehead.engines._encoded_order import Bytes
from erasurehead.errors import first_line, invalid

SMALL = 4096
"""Bytes up to which an array travels with the rest."""


@dataclass(frozen=True, eq=False)
class PackedProgram:
    """A program, with the delays that are injected into it.

    Attributes:
        head: both pickled, without the large arrays.
        arrays: these, as views of their bytes, which keep them alive.
    """

    head: bytes
    arrays: tuple[Bytes, ...]


def pack(program: Program, delays: Delays | None, small: int = SMALL) -> PackedProgram:
    """Pack a program with its delays; both may be of classes of the user's own script.

    Arguments:
        program: what to pack. Its arrays must not be changed afterwards.
        delays: that are injected into it.
        small: bytes up to which an array stays with the rest.

    Raises:
        InvalidArgument: if a part of them, such as an open file or a lock, cannot be pickled.
    """
    arrays: list[Bytes] = []

    def take(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes > small:
            arrays.append(np.frombuffer(raw, dtype=np.uint8))
        return raw.nbytes <= small

    try:
        head: bytes = cast("Any", cloudpickle).dumps((program, delays), protocol=5, buffer_callback=take)
    except Exception as error:  # of whatever the parts are
        rule, hint = "must not hold what pickle cannot copy", "let workers make it themselves when they first need it"
        raise invalid("what workers are sent, problem and delays,", rule, first_line(error), hint) from error
    return PackedProgram(head, tuple(arrays))


def unpack(head: bytes, arrays: Sequence[Any]) -> tuple[Program, Delays | None]:
    """Return a program and its delays, and import what the program wants imported.

    Arguments:
        head: of the packed program.
        arrays: the large ones, as buffers; the program sees them as read-only views.
    """
    program, delays = pickle.loads(head, buffers=[memoryview(array).toreadonly() for array in arrays])
    for module in program.preload:
        import_module(module)
    return program, delays


Kept = TypeVar("Kept")


class ArrayCache(Generic[Kept]):
    """What was made of arrays, by where these lie in our memory, and how large they are.

    The arrays are kept alive beside it, so that no other array can have their address.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[tuple[int, int], ...], tuple[Kept, Sequence[Bytes]]] = {}

    def __len__(self) -> int:
        return len(self._made)

    def get(self, arrays: Sequence[Bytes], make: Callable[[], Kept]) -> Kept:
        """Return what was made of these arrays; it is made if it was not."""
        key = tuple((int(array.ctypes.data), array.nbytes) for array in arrays)
        if key not in self._made:
            self._made[key] = make(), arrays
        return self._made[key][0]

    def clear(self) -> list[Kept]:
        """Forget all; return what was made."""
        made = [kept for kept, _ in self._made.values()]
        self._made.clear()
        return made

"""A program on its way to its worker: its large arrays in shared memory, from where the worker maps them.

Workers of equal tasks hold the same arrays, and so the same pages: on one machine a replica costs no memory.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, cast

import cloudpickle  # pyright: ignore[reportMissingTypeStubs]  # ships none
import numpy as np

from erasurehead.delays.base import Delays
from erasurehead.engines.base import Program
from erasurehead.engines.shared_memory import Block, align

_SMALL = 4096  # bytes up to which an array travels with the rest

Contents = tuple[tuple[int, int], ...]
"""Which arrays a block holds: the address and size of each."""

Store = dict[Contents, tuple[Block, list[memoryview]]]
"""Blocks by what they hold. The arrays are kept alive beside them, so that no other array can have their address."""


@dataclass(frozen=True)
class PackedProgram:
    """A program in shared memory. Its large arrays are neither copied when it is opened nor writable.

    Attributes:
        head: the pickled program and delays, without their large arrays.
        spans: first byte and end of each array in the block.
        block: the arrays.
    """

    head: bytes
    spans: tuple[tuple[int, int], ...]
    block: Block

    def open(self) -> tuple[Program, Delays | None]:
        """Return the program and its delays, the arrays as views of the shared memory."""
        whole = self.block.buffer.toreadonly()
        return pickle.loads(self.head, buffers=[whole[low:high] for low, high in self.spans])


def pack(program: Program, delays: Delays | None, store: Store) -> PackedProgram:
    """Put a program into shared memory, with the delays that are injected into it.

    Arguments:
        program: what to pack. Its arrays must not be changed afterwards.
        delays: may be of a class of the user's own script, as the program may.
        store: what is packed already; the arrays of a program that holds the same ones are not written again.
    """
    buffers: list[memoryview] = []

    def take(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes > _SMALL:
            buffers.append(raw)
        return raw.nbytes <= _SMALL

    head: bytes = cast("Any", cloudpickle).dumps((program, delays), protocol=5, buffer_callback=take)
    spans: list[tuple[int, int]] = []
    end = 0
    for buffer in buffers:
        begin = align(end)
        end = begin + buffer.nbytes
        spans.append((begin, end))
    contents = tuple((_address(buffer), buffer.nbytes) for buffer in buffers)
    if contents not in store:
        block = Block(end)
        for (low, high), buffer in zip(spans, buffers, strict=True):
            block.buffer[low:high] = buffer
        store[contents] = block, buffers
    return PackedProgram(head, tuple(spans), store[contents][0])


def _address(buffer: memoryview) -> int:
    return int(np.frombuffer(buffer, dtype=np.uint8).ctypes.data)

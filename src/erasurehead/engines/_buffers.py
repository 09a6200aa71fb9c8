"""What coordinator and workers share: room for orders, and each worker's slots for its messages.

An order buffer holds the two newest orders, for all workers. Orders to only some workers go through it as well; a
worker whose newest order would be overwritten before it has read it is given a copy in memory of its own, so that no
order is ever lost. Slots are double: while the coordinator still reads a message, the worker writes the next one beside
it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from erasurehead._internal.arrays import Array
from erasurehead.engines._base import MessageSpec, Order, Program
from erasurehead.engines._encoded_order import Bytes, EncodedOrder, head_in, read_order
from erasurehead.engines._shared_memory import SharedBlock, align
from erasurehead.engines._worker_loop import Room
from erasurehead.errors import EngineError

_HEADER = 64  # bytes before an order: its round
_HEAD = 65_536  # bytes for all of an order but its points
_SIDES = 2
_FREE, _TAKEN = 0, 1
_MARKS = 3  # numbers that a worker's memory begins with: its newest order, the one it has read, where to next
_WHERE = 2**32  # above all that a worker is told of messages, half of which is negative


def _room_nbytes(points_nbytes: int) -> int:
    """Return the bytes that room for an order takes."""
    return align(_HEADER + _HEAD + points_nbytes)


class OrderRoom:
    """Room for one order, written by the coordinator and read by workers, who see by its round what they have read.

    Arguments:
        block: shared memory.
        offset: where the room begins there.
        n_bytes: of the room.
    """

    def __init__(self, block: SharedBlock, offset: int, n_bytes: int) -> None:
        self._round = block.numbers(offset, 1)
        self._memory = cast("Bytes", block.view(offset + _HEADER, n_bytes - _HEADER, "uint8"))

    def write(self, order: EncodedOrder) -> None:
        """Write an order over the one before."""
        self.clear()  # whoever reads the old one now will see that it was overwritten
        order.write(self._memory)
        self._round[0] = order.round

    def clear(self) -> None:
        """Hold no order."""
        self._round[0] = -1

    @property
    def round(self) -> int:
        """Of the order that is here; -1 for none."""
        return self._round[0]

    def read(self, order_round: int) -> Order | None:
        """Return an order, its points as read-only views, or None if it is not here (any more)."""
        if self.round != order_round:
            return None
        head = head_in(self._memory)
        return read_order(self._memory, head) if self.round == order_round else None


class OrderBuffer:
    """The two newest orders, written by the coordinator and read by every worker.

    Arguments:
        points_nbytes: bytes of all points of an order together, at most.
    """

    def __init__(self, points_nbytes: int) -> None:
        self._n_bytes = _room_nbytes(points_nbytes)
        self._block = SharedBlock(_SIDES * self._n_bytes)
        self._map()
        self._orders: list[EncodedOrder | None] = [None] * _SIDES
        for room in self._rooms:
            room.clear()

    def _map(self) -> None:
        """Make the views that every order needs; a process makes its own."""
        self._rooms = [OrderRoom(self._block, side * self._n_bytes, self._n_bytes) for side in range(_SIDES)]

    def __getstate__(self) -> SharedBlock:
        return self._block

    def __setstate__(self, state: SharedBlock) -> None:
        self._block = state
        self._n_bytes = self._block.size // _SIDES
        self._map()

    def touch(self) -> None:
        """Have the memory that orders come in mapped here before the first one comes."""
        self._block.touch()

    def write(self, order: EncodedOrder, others: Iterable[MessageSlots] = ()) -> None:
        """Put up an order in place of the one before the last, unless it is up, or a newer one in its place.

        Arguments:
            order: for some workers, or all.
            others: the slots of the workers that it is not for: who has not read the order that is overwritten, and
                was sent none since, is given a copy.

        Raises:
            EngineError: if it is larger than programs said.
        """
        side = order.round % _SIDES
        if self._rooms[side].round >= order.round:
            return
        if len(order.head) > _HEAD:
            raise EngineError(f"an order's note takes {len(order.head)} bytes; at most {_HEAD} fit.")
        if _HEADER + _HEAD + order.points_nbytes > self._n_bytes:
            raise EngineError(
                f"an order's points take {order.points_nbytes} bytes, more than programs asked room for: let their "
                "input_size be the greatest number of elements of all points of an order together, of input_dtype."
            )
        old = self._orders[side]
        if old is not None:
            for slots in others:
                if slots.newest == old.round + 1:
                    slots.keep(old)
        self._rooms[side].write(order)
        self._orders[side] = order

    def read(self, order_round: int) -> Order | None:
        """Return an order whose points are views of this buffer, or None if it was overwritten."""
        return self._rooms[order_round % _SIDES].read(order_round)

    def holds(self, order_round: int) -> bool:
        """Whether an order is still there; what was read of it before a True is sound."""
        return self._rooms[order_round % _SIDES].round == order_round

    def close(self) -> None:
        """Give back the file descriptor."""
        self._block.close()


class OrderBuffers:
    """The coordinator's order buffers, by the bytes that fit: programs with equal inputs see the same one."""

    def __init__(self) -> None:
        self._buffers: dict[int, OrderBuffer] = {}

    def of(self, program: Program) -> OrderBuffer:
        """Return the buffer through which a program gets its orders.

        Raises:
            NoRoom: if there is no memory, or no file, for it.
        """
        n_bytes = program.input_nbytes
        if n_bytes not in self._buffers:
            self._buffers[n_bytes] = OrderBuffer(n_bytes)
        return self._buffers[n_bytes]

    def close(self) -> None:
        """Keep the buffers open no longer."""
        for buffer in self._buffers.values():
            buffer.close()
        self._buffers.clear()


class MessageSlots:
    """One worker's memory: two slots for each of its messages, which order is its newest, and room for that one.

    Arguments:
        program: of the worker.
    """

    def __init__(self, program: Program) -> None:
        self._specs = tuple(program.message_specs)
        self._order_nbytes = _room_nbytes(program.input_nbytes)
        self._block = SharedBlock(self._lay_out())
        self._map()
        self._own.clear()

    def _lay_out(self) -> int:
        """Find a place for every message, and return the bytes that all takes."""
        self._index = {spec.message: index for index, spec in enumerate(self._specs)}
        self._offsets: list[tuple[int, int]] = []
        offset = align(8 * (_MARKS + _SIDES * len(self._specs)))
        for spec in self._specs:
            size = align(spec.nbytes)
            self._offsets.append((offset, offset + size))
            offset += _SIDES * size
        self._order_offset = offset  # never touched, and so no memory, as long as orders are read in time
        return offset + self._order_nbytes

    def _map(self) -> None:
        """Make the views that every order needs; a process makes its own."""
        self._marks = self._block.numbers(0, _MARKS)
        self._states = self._block.numbers(8 * _MARKS, _SIDES * len(self._specs))
        self._own = OrderRoom(self._block, self._order_offset, self._order_nbytes)

    def __getstate__(self) -> tuple[tuple[MessageSpec, ...], int, SharedBlock]:
        return self._specs, self._order_nbytes, self._block

    def __setstate__(self, state: tuple[tuple[MessageSpec, ...], int, SharedBlock]) -> None:
        self._specs, self._order_nbytes, self._block = state
        self._lay_out()
        self._map()

    def touch(self) -> int:
        """Have the memory that the first message goes to mapped here before it is computed; return its bytes."""
        if not self._specs:
            return 0
        begin, end = self._offsets[0]
        self._block.touch(end)
        return end - begin

    @property
    def newest(self) -> int:
        """Round of the newest order that is meant for this worker; 0 before the first, counted from 1."""
        return self._marks[0]

    @newest.setter
    def newest(self, value: int) -> None:
        self._marks[0] = value

    def redirect(self, order_round: int, message: int) -> int | None:
        """Say, as the coordinator, what to take next for a round; return what was said for it before."""
        before = self.redirected(order_round)
        both = (order_round + 1) * _WHERE + message + _WHERE // 2  # one number, so that it is never half written
        self._marks[2] = both
        return before

    def redirected(self, order_round: int) -> int | None:
        """Return what was said last, if it was for this round."""
        number, message = divmod(self._marks[2], _WHERE)
        return message - _WHERE // 2 if number == order_round + 1 else None

    def has_read(self, order_round: int) -> None:
        """Say, as the worker, that an order need not be kept any more."""
        self._marks[1] = order_round + 1

    def keep(self, order: EncodedOrder) -> None:
        """Keep an order for the worker, as the coordinator, unless the worker has read it."""
        if self._marks[1] <= order.round:
            self._own.write(order)

    def read(self, order_round: int) -> Order | None:
        """Return an order that was kept for this worker, its points as views; None if it was not."""
        return self._own.read(order_round)

    def holds(self, order_round: int) -> bool:
        """Whether an order is kept here; what was read of it before a True is sound."""
        return self._own.round == order_round

    def spec(self, message: int) -> MessageSpec:
        """Return a message as the program announced it."""
        return self._specs[self._index[message]]

    def claim(self, message: int) -> int | None:
        """Return a free slot of a message, now taken, or None if the coordinator still reads both."""
        first = _SIDES * self._index[message]
        for side in range(_SIDES):
            if self._states[first + side] == _FREE:
                self._states[first + side] = _TAKEN
                return side
        return None

    def free(self, message: int, side: int) -> None:
        """Give back a slot."""
        self._states[_SIDES * self._index[message] + side] = _FREE

    def vector(self, spec: MessageSpec, side: int) -> Array:
        """Return the room of a message in a slot, shape (spec.length,)."""
        index = self._index[spec.message]
        announced = self._specs[index]
        if spec.nbytes > announced.nbytes:
            raise EngineError(
                f"message {spec.message} has {spec.length} elements ({spec.dtype}), and was announced with at most "
                f"{announced.length} ({announced.dtype}); announce its greatest length in the program's message_specs."
            )
        return self._block.view(self._offsets[index][side], spec.length, spec.dtype)

    def room(self, spec: MessageSpec) -> Room | None:
        """Claim a slot for a message, as `Transport.claim` does; `Room.where` is its number."""
        side = self.claim(spec.message)
        if side is None:
            return None
        try:
            return Room(spec, self.vector(spec, side), side)
        except EngineError:
            self.free(spec.message, side)
            raise

    def close(self) -> None:
        """Give back the file descriptor."""
        self._block.close()


class OrderReader:
    """Where a worker finds its orders: in the buffer that all see, or kept for it in its own slots.

    Arguments:
        order_buffer: of all workers.
        slots: the worker's own.
    """

    def __init__(self, order_buffer: OrderBuffer, slots: MessageSlots) -> None:
        self._buffer, self._slots = order_buffer, slots
        self._holder: OrderBuffer | MessageSlots = order_buffer
        self._round = -1

    def read(self, order_round: int) -> Order | None:
        """Return an order, its points as views; None if it is nowhere: a newer one was sent to this worker then."""
        self._round = order_round
        for holder in (self._buffer, self._slots):
            self._holder = holder
            order = holder.read(order_round)
            if order is not None:
                return order
        return None

    def copied(self) -> bool:
        """Take note that the order read last has been copied; return whether it was whole until now."""
        whole = self._holder.holds(self._round)
        if whole:
            self._slots.has_read(self._round)
        return whole

"""The worker loop's way to its coordinator where a worker is a rank of an MPI job."""

from __future__ import annotations

from erasurehead.engines._base import MessageSpec, Order, Program
from erasurehead.engines._buffers import OrderReader
from erasurehead.engines._encoded_order import read_order
from erasurehead.engines._mpi.buffers import FrameSendBuffers, SendBuffers, SlotBuffers
from erasurehead.engines._mpi.command_channel import CommandChannel, Recalled
from erasurehead.engines._mpi.transport import Frame, Gone, Tag, read_head
from erasurehead.engines._way import Shared
from erasurehead.engines._worker_loop import Answer, OutgoingMessage, Room, Transport


class ChannelTransport(Transport):
    """Orders come by MPI, or MPI says where they are up; messages likewise.

    It ends with `Recalled`, or with `Gone` if the coordinator is no more.

    Arguments:
        channel: what the coordinator asks.
        program: what the worker runs.
        shared: the memory that the coordinator sees too; None if models and vectors are to travel.
    """

    ends = (Recalled, Gone)

    def __init__(self, channel: CommandChannel, program: Program, shared: Shared | None) -> None:
        self._channel = channel
        self._announced = {spec.message: spec for spec in program.message_specs}
        self._orders = None if shared is None else OrderReader(shared.order_buffer, shared.slots)
        self._buffers: SendBuffers = (
            FrameSendBuffers(program.message_specs) if shared is None else SlotBuffers(shared.slots)
        )
        self._frame: Frame | None = None  # of the order that was taken last, if it is in there
        self._round = -1
        self._torn = False  # it was overwritten while it was copied

    def newer(self) -> bool:
        self._channel.look()
        return self._torn or self._channel.newer

    def behind(self) -> float:
        return self._channel.behind

    def wait(self, until: float | None, welcome: bool) -> None:
        if welcome:
            self._channel.listen()
        self._channel.sleep(until)

    def take(self) -> Order | None:
        again, self._torn = self._torn and not self._channel.newer, False
        if again and self._orders is not None:
            return self._orders.read(self._round)
        tag, frame = self._channel.take_order()
        if tag == Tag.ORDER:
            self._frame = frame
            return read_order(frame)
        assert self._orders is not None  # or nobody would say that something is up there
        (self._round,), _ = read_head(frame)
        self._channel.give_back(frame)
        return self._orders.read(self._round)

    def copied(self) -> bool:
        if self._frame is not None:
            self._channel.give_back(self._frame)
            self._frame = None
            return True
        assert self._orders is not None
        self._torn = not self._orders.copied()
        return not self._torn

    def claim(self, spec: MessageSpec) -> Room | None:
        return self._buffers.claim(spec)

    def free(self, room: Room) -> None:
        self._buffers.free(room)

    def send(self, answer: Answer) -> None:
        """Send what an order brings; with its last message, that the next may come."""
        if not isinstance(answer, OutgoingMessage):
            self._channel.report("failed", answer.order_round, answer.reason)
            return
        order, spec = answer.order, answer.room.spec
        which = spec.message if spec == self._announced.get(spec.message) else spec
        listens = answer.last and self._channel.now_listening()
        self._buffers.send(self._channel, answer.room, (order.round, order.step, which, answer.started, listens))

"""The worker loop's way to its coordinator where a worker is a rank of an MPI job on another machine."""

from __future__ import annotations

from erasurehead.engines._base import MessageSpec, Order, Program
from erasurehead.engines._encoded_order import read_order
from erasurehead.engines._mpi.command_channel import CommandChannel, Recalled
from erasurehead.engines._mpi.transport import HEAD, Frame, Gone, Sending, new_frame, vector_in, whole, write_head
from erasurehead.engines._worker_loop import Answer, OutgoingMessage, Room, Transport

_FRAMES = 2  # one is computed while the other is on its way


class ChannelTransport(Transport):
    """Orders come by MPI; messages go out in frames of this rank's own memory, which travel whole.

    It ends with `Recalled`, or with `Gone` if the coordinator is no more.

    Arguments:
        channel: what the coordinator asks.
        program: what the worker runs.
    """

    ends = (Recalled, Gone)

    def __init__(self, channel: CommandChannel, program: Program) -> None:
        self._channel = channel
        self._announced = {spec.message: spec for spec in program.message_specs}
        size = HEAD + max((whole(spec.nbytes) for spec in self._announced.values()), default=0)
        self._frames: list[Frame] = [new_frame(size) for _ in range(_FRAMES)]
        self._sendings: list[Sending | None] = [None] * _FRAMES
        self._order: Frame | None = None  # that was taken last

    def newer(self) -> bool:
        self._channel.look()
        return self._channel.newer

    def behind(self) -> float:
        return self._channel.behind

    def wait(self, until: float | None, welcome: bool) -> None:
        if welcome:
            self._channel.listen()
        self._channel.sleep(until)

    def take(self) -> Order | None:
        self._order = self._channel.take_order()
        return read_order(self._order)

    def copied(self) -> bool:
        if self._order is not None:
            self._channel.give_back(self._order)
            self._order = None
        return True

    def redirected(self, order_round: int) -> int | None:
        self._channel.look()
        told = self._channel.redirected
        return told[1] if told is not None and told[0] == order_round else None

    def claim(self, spec: MessageSpec) -> Room | None:
        for number, sending in enumerate(self._sendings):
            if sending is None or sending.done():
                return Room(spec, vector_in(self._frames[number], spec), number)
        return None

    def free(self, room: Room) -> None:
        return

    def send(self, answer: Answer) -> None:
        """Send what an order brings; with its last message, that the next may come."""
        if not isinstance(answer, OutgoingMessage):
            self._channel.report("failed", answer.order_round, answer.reason)
            return
        order, spec = answer.order, answer.room.spec
        which = spec.message if spec == self._announced.get(spec.message) else spec
        listens = answer.last and self._channel.now_listening()
        number: int = answer.room.where
        frame = self._frames[number]
        said = order.round, order.step, which, answer.started, answer.worked, listens
        write_head(frame, self._channel.words("arrived", *said))
        self._sendings[number] = self._channel.send(frame[: HEAD + whole(spec.nbytes)])

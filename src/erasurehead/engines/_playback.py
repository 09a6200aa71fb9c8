"""The virtual engine's part in a replay: what was recorded comes again, each in the round in which it came."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from erasurehead._internal.arrays import Tree
from erasurehead.delays._script import Script, ScriptedEvent, ScriptedMessage, ScriptedRound, moment
from erasurehead.engines._virtual_state import Flight, OrderTable, rounds_from, whole
from erasurehead.errors import DataError, counted


class Playback:
    """A recorded run under way again.

    Arguments:
        script: what came in each round, and when.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self._flights: dict[int, Flight] = {}
        self._due = deque[ScriptedMessage]()
        self._failing = deque[int]()
        self._upcoming = deque(script.start)
        self._given = 0  # messages of this round
        self._round = -1

    @property
    def done(self) -> bool:
        """Whether nothing more happens in this round."""
        return not (self._due or self._upcoming)

    @property
    def tells_of_workers(self) -> bool:
        """Whether it says who joins: once a first order is out, and before, if not all of them just came up."""
        return self._round >= 0 or bool(self._script.start)

    def submit(self, flight: Flight) -> None:
        """Take note of an order. Those to which nothing comes any more are forgotten."""
        number = flight.order.round
        if number <= self._round:  # the same, to one more worker
            return
        self.check_over()
        self._round = number
        self._flights[number] = flight
        last_use = self._script.last_use
        self._flights = {old: one for old, one in self._flights.items() if last_use.get(old, -1) >= number}
        recorded = self._recorded()
        self._due = deque(recorded.messages)
        self._failing = deque(recorded.failed)
        self._upcoming, self._given = deque(recorded.events), 0

    def _recorded(self) -> ScriptedRound:
        recorded = self._script.rounds.get(self._round)
        if recorded is None:
            first, last = min(self._script.rounds), max(self._script.rounds)
            raise DataError(
                f"the recorded run has no round {self._round}, and nothing to replay in it: it has rounds {first} to "
                f"{last}. A replay needs the scheme, the optimizer and the steps of that run."
            )
        return recorded

    def check_over(self) -> None:
        """Raise if waiting has stopped before everything came that came in the recorded round.

        Raises:
            DataError: if so.
        """
        if self._due:
            raise DataError(
                f"{counted('message', self._given + len(self._due))} came in round {self._round} of the recorded run "
                f"before it stopped waiting; this one stopped after {self._given}. A replay needs the scheme, the "
                "optimizer and the steps of that run."
            )

    def nothing_more(self) -> DataError | None:
        """Return the error for waiting on when a recorded round is over; None before the first round."""
        if self._round < 0:
            return None
        return DataError(
            f"{counted('message', self._given)} came in round {self._round} of the recorded run, and then it stopped "
            "waiting; this one waits for more. A replay needs the scheme, the optimizer and the steps of that run."
        )

    def begin(self, number: int) -> float | None:
        """Return when a round began; None if nothing is known of it."""
        recorded = self._script.rounds.get(number)
        return None if recorded is None else recorded.begin

    @property
    def end(self) -> float:
        """When the model had moved after the round."""
        return self._recorded().end

    @property
    def stop(self) -> float:
        """When the waiting of the round stopped."""
        if self._round < 0:
            return 0.0
        recorded = self._recorded()
        return moment(recorded.begin, recorded.waited)

    def time_of(self, message: ScriptedMessage) -> float:
        """Return when a message came."""
        begun = self._script.rounds.get(message.order_round)
        return moment(begun.begin if begun is not None else 0.0, message.seconds)

    def started(self, message: ScriptedMessage) -> float:
        """Return when its worker began on it."""
        begun = self._script.rounds.get(message.order_round)
        return moment(begun.begin if begun is not None else 0.0, message.started)

    def peek(self) -> ScriptedMessage | None:
        """Return the next message of this round; None if no more came."""
        return self._due[0] if self._due else None

    def peek_event(self) -> ScriptedEvent | None:
        """Return what happens to a worker before the next message; None if nothing does."""
        event = self._upcoming[0] if self._upcoming else None
        return event if event is not None and (event.place <= self._given or not self._due) else None

    def take_event(self) -> None:
        """Take note that what `peek_event` returned has happened."""
        self._upcoming.popleft()

    def take(self) -> tuple[ScriptedMessage, Flight | None]:
        """Return the next message of this round, and the order that it answers."""
        message = self._due.popleft()
        self._given += 1
        return message, self._flights.get(message.order_round)

    def take_failure(self) -> int | None:
        """Return a worker whose message could not be used in this round, each once; None if there are no more."""
        return self._failing.popleft() if self._failing else None

    def state(self) -> Tree:
        """Return everything that `restore` needs, between two rounds: the orders that something will still come to."""
        orders = OrderTable()
        for flight in self._flights.values():
            orders.number(flight.order)
        return {"round": self._round, "orders": orders.to_tree()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self._round = whole(state["round"])
        self._flights = {flight.order.round: flight for flight in rounds_from(state["orders"])}
        self._due.clear()
        self._failing.clear()
        self._upcoming.clear()

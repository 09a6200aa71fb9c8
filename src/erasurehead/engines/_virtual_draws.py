"""What the virtual engine draws for a round, for all workers at once: delays, and the order of equal arrivals."""

from __future__ import annotations

from collections.abc import Iterable

from erasurehead.delays import Delays
from erasurehead.delays._ties import precedence
from erasurehead.engines._base import Order


class RoundDraws:
    """The draws of one round, each for all workers at once, when the first of them is needed.

    Arguments:
        delays: delays of the workers; None for none.
        seed: seed of the order of messages that arrive at the same moment.
    """

    def __init__(self, delays: Delays | None, seed: int) -> None:
        self._delays = delays
        self._seed = seed
        self._delay_rows: dict[tuple[int, float, int, float], list[float]] = {}
        self._precedence_rows: dict[tuple[int, int], list[float]] = {}
        # What was asked for last, and the row: workers that are given an order one by one ask for the same.
        self._delays_of: tuple[Order | None, int, float, list[float]] = (None, 0, 0.0, [])
        self._precedence_of: tuple[Order | None, int, list[float]] = (None, 0, [])

    def forget(self) -> None:
        """Begin a new round."""
        self._delay_rows.clear()
        self._precedence_rows.clear()
        self._delays_of, self._precedence_of = (None, 0, 0.0, []), (None, 0, [])

    def delay(self, order: Order, worker: int, workers: Iterable[int], unit: int, work: float) -> float:
        """Return what is added to a message's computing time, in seconds.

        Arguments:
            order: the order that the message answers.
            worker: the worker that sends it.
            workers: all workers.
            unit: 0 for the worker's first message, 1 for the second, and so on.
            work: work that it takes, in tasks.
        """
        if self._delays is None:
            return 0.0
        drawn_for, its_unit, its_work, row = self._delays_of
        if drawn_for is order and its_unit == unit and its_work == work and worker < len(row):
            return row[worker]
        key = (order.step, order.posted, unit, work)
        row = self._delay_rows.get(key)
        if row is None or len(row) <= worker:
            try:
                drawn = self._delays.row(order.step, max(workers) + 1, unit=unit, work=work, posted=order.posted)
            except Exception:  # fails for some worker: then draw for each worker alone, as real workers do
                return self._delays.seconds(worker, order.step, unit, work, order.posted)
            row = self._delay_rows[key] = drawn.tolist()
        self._delays_of = order, unit, work, row
        return row[worker]

    def precedence(self, order: Order, worker: int, workers: Iterable[int], unit: int) -> float:
        """Return the rank of a message among those of its round that arrive simultaneously: the least is first.

        Arguments:
            order, worker, workers, unit: as for `delay`.
        """
        drawn_for, its_unit, row = self._precedence_of
        if drawn_for is order and its_unit == unit and worker < len(row):
            return row[worker]
        key = (order.step, unit)
        row = self._precedence_rows.get(key)
        if row is None or len(row) <= worker:
            drawn = precedence(self._delays, self._seed, order.step, 1, max(workers) + 1, unit=unit)
            row = self._precedence_rows[key] = drawn[0].tolist()
        self._precedence_of = order, unit, row
        return row[worker]

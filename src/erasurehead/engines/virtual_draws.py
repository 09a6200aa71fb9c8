"""What the virtual engine draws for a round: delays, and who is first of equals; of all workers at once."""

from __future__ import annotations

from collections.abc import Iterable

from erasurehead.delays.base import Delays
from erasurehead.delays.ties import precedence
from erasurehead.engines.base import Order


class RoundDraws:
    """The draws of one round, each a row of all workers: drawn when the first of them is asked for.

    Arguments:
        delays: of the workers; None for none.
        seed: of the order in which messages come that arrive at the same moment.
    """

    def __init__(self, delays: Delays | None, seed: int) -> None:
        self._delays = delays
        self._seed = seed
        self._delay_rows: dict[tuple[int, float, int, float], list[float]] = {}
        self._precedence_rows: dict[tuple[int, int], list[float]] = {}

    def forget(self) -> None:
        """Begin a new round."""
        self._delay_rows.clear()
        self._precedence_rows.clear()

    def delay(self, order: Order, worker: int, workers: Iterable[int], unit: int, work: float) -> float:
        """Return what is added to a message's computing time, in seconds.

        Arguments:
            order: that it answers.
            worker: that sends it.
            workers: all that there are.
            unit: 0 for the worker's first message, 1 for the second, and so on.
            work: that it takes, in tasks.
        """
        if self._delays is None:
            return 0.0
        key = (order.step, order.posted, unit, work)
        row = self._delay_rows.get(key)
        if row is None or len(row) <= worker:
            try:
                drawn = self._delays.row(order.step, max(workers) + 1, unit=unit, work=work, posted=order.posted)
            except Exception:  # for some worker: each is asked for alone then, as elsewhere it asks for itself
                return self._delays.seconds(worker, order.step, unit, work, order.posted)
            row = self._delay_rows[key] = drawn.tolist()
        return row[worker]

    def precedence(self, order: Order, worker: int, workers: Iterable[int], unit: int) -> float:
        """Return where a message stands among those of its round that arrive at the same moment: the least is first.

        Arguments:
            order, worker, workers, unit: as for `delay`.
        """
        key = (order.step, unit)
        row = self._precedence_rows.get(key)
        if row is None or len(row) <= worker:
            drawn = precedence(self._delays, self._seed, order.step, 1, max(workers) + 1, unit=unit)
            row = self._precedence_rows[key] = drawn[0].tolist()
        return row[worker]

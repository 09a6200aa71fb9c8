"""One gradient a step by a scheme of the library: that of the same batch, whichever ranks it comes from."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.schemes import wait_rules  # whose names load SciPy: half a second that ranks without a scheme spare
from erasurehead.torch._ways._base import Way

if TYPE_CHECKING:
    from erasurehead.decoding._base import Decoding
    from erasurehead.schemes import Scheme

TAIL = 3
"""Elements that end what a rank sends: by what its loss is divided, by which worker of the code, at which step."""


def workers_of(ranks: Collection[int], n_workers: int) -> dict[int, int]:
    """Return which worker of the code each rank is: its number, or for one that came later the first that is free."""
    free = sorted(set(range(n_workers)).difference(ranks))
    late = sorted(rank for rank in ranks if rank >= n_workers)
    found = {rank: rank for rank in ranks if rank < n_workers}
    return found | {rank: free[place] if place < len(free) else rank % n_workers for place, rank in enumerate(late)}


def lost(scheme: Scheme, ranks: Collection[int]) -> bool:
    """Return whether a scheme waits for the whole gradient, and some ranks do not hold all tasks."""
    able = workers_of(ranks, scheme.code.n_workers).values()
    return (
        isinstance(scheme.rule, wait_rules.decodable)
        and scheme.rule.verdict(wait_rules.View(scheme.decoder, able=able)) is wait_rules.Verdict.UNREACHABLE
    )


class _Weights:
    """Stands for the layout of vectors: an aggregation then returns by what it multiplies each of them."""

    @staticmethod
    def decode(decoding: Decoding, _: object) -> Array:
        return decoding.weights[0]


@final
class Coded(Way):
    """Decodes the gradient of a batch from the sums that ranks send.

    Arguments:
        scheme: code, decoder and wait rule.
        sums: elements of a vector that are sums over samples; the others are counts, or means.
        like: a vector as ranks send them, of which nothing is kept.
    """

    name = "gradient"
    waits = True
    replaces = True

    def __init__(self, scheme: Scheme, sums: int, like: Array) -> None:
        self.steps = {}
        self._scheme, self._sums = scheme, sums
        self._now = float(like[-1])  # the step that is gathered
        self._opened: float | None = None
        self._open(None)

    def fold(self, rank: int, vector: Array, steps: int, samples: float, seconds: float) -> None:
        if vector[-1] == self._now:  # else it is of another batch
            self._came[int(vector[-2])] = vector
            self.steps[rank] = steps

    def closes(self, members: Collection[int], now: float) -> bool:
        if self._opened is None:
            self._opened = now
        able = set(workers_of(members, self._scheme.code.n_workers).values())
        view = wait_rules.View(self._scheme.decoder, able=able)
        view.pass_time(now - self._opened)
        for worker in self._came:
            view.add(int(self._scheme.code.messages_of(worker)[0]))
        verdict = self._scheme.rule.verdict(view)
        if verdict is wait_rules.Verdict.WAIT:
            wake = self._scheme.rule.wake(view)
            self.asks_at = math.inf if wake is None else self._opened + wake
        if verdict is wait_rules.Verdict.UNREACHABLE:  # with fewer ranks than it counts; but never a part for the whole
            return able <= self._came.keys() and not isinstance(self._scheme.rule, wait_rules.decodable)
        return verdict is wait_rules.Verdict.STOP

    def close(self, members: Collection[int], now: float, out: Array) -> None:
        """Write the gradient of the mean loss, rescaled as the scheme does, and what follows it.

        What came has the weights of its tasks' losses as a further coordinate, and is divided by what that comes to. No
        number is written where nothing is known.
        """
        code = self._scheme.code
        messages = {int(code.messages_of(worker)[0]): vector for worker, vector in self._came.items()}
        session = self._scheme.decoder.begin()
        session.extend(sorted(messages))
        decoded, end = session.decoding(), self._sums
        self.residual = decoded.residual
        weights: Array = decoded.weights[0]
        rescaled = self._scheme.aggregation.estimate(decoded, (), cast("Any", _Weights), cast("Any", None))
        out[:] = 0.0
        for message, weight, scaled in zip(
            decoded.messages.tolist(), weights, weights if rescaled is None else rescaled, strict=True
        ):
            if weight:
                vector = messages[message]
                out[:end] += float(scaled) * vector[:end]
                out[-TAIL] += float(weight) * vector[-TAIL]
                out[end:-TAIL] += vector[end:-TAIL] / np.count_nonzero(weights)
        known = rescaled is not None and out[-TAIL] > 0.0
        out[:end] /= float(out[-TAIL]) / decoded.coverage if known else math.nan
        out[-2:] = 0.0, self._now + 1.0
        self._open(now)
        self._now = float(out[-1])

    def restart(self, newest: Array) -> None:
        self._now = float(newest[-1])
        self._open(None)

    def _open(self, now: float | None) -> None:
        self._opened = now
        self._came: dict[int, Array] = {}
        self.steps, self.asks_at = {}, math.inf

"""Which ranks of a synchronous training loop are late for good, from the seconds that each needs for its own part."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_low

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.errors import invalid

STAGES = ("data", "forward", "backward")
"""The parts of a step that can be told apart; without marks all of it is the last one's."""

WINDOW = 64
"""Number of steps that are remembered."""

IN_A_ROW = 3
"""Number of steps after which a rank that has become slow is named."""

LEAST_RATIO = 1.2
"""How many times as long as the others' median a rank must take to be called late, however steady all are."""

_DEVIATIONS = 6.0  # of the noise by which a rank's mean over the last steps must stand out
_STEADY = 0.05  # the least noise that is assumed, as a fraction of a step: of few steps little is known
_ENOUGH = 8  # steps from which a rank's own noise is taken for more than chance
_STANDS_OUT = 3.0  # typical changes of a rank from step to step, for its times to be told soon
_SPARE = 4  # times at which they are told in time that let as many others be told sooner
_SHORTEST = 1e-6  # seconds: nothing shorter can be measured


@dataclass(frozen=True)
class LateRank:
    """A rank that all others wait for.

    Attributes:
        rank: its number.
        host: name of its host.
        times: how many times as long it takes for its own part of a step as the median of the others.
        share: fraction of a step, in (0, 1), that the next slowest rank waits for it.
        stage: where it loses most: `"data"`, `"forward"` or `"backward"`; "" if the stages are not told apart.
    """

    rank: int
    host: str
    times: float
    share: float
    stage: str = ""

    def __str__(self) -> str:
        where = f", most of it in its {self.stage} stage" if self.stage else ""
        return (
            f"Rank {self.rank} on {self.host} takes {self.times:.2g} times as long as the others{where}: they wait for "
            f"it during {self.share:.0%} of each step."
        )


class LateRanks:
    """Judges, step by step, which ranks are late: persistently, and beyond what their times vary by themselves.

    A rank is late when it took 1.2 times as long as the median of the others in each of the last 3 steps, and stands
    out by 6 standard errors in their mean. The noise is estimated from how much the ratios change from one step to the
    next, so that ranks that are late in turn, or of which each step takes another time, are not named: nothing is wrong
    with them.

    Arguments:
        hosts: the name of each rank's host; as many as there are ranks, at least 2.
    """

    def __init__(self, hosts: Sequence[str]) -> None:
        if len(hosts) < 2:
            raise invalid("hosts", "must name the hosts of at least 2 ranks", hosts)
        self.hosts = tuple(hosts)
        self._steps: deque[Array] = deque(maxlen=WINDOW)
        self._ratios: deque[Array] = deque(maxlen=WINDOW)
        self._spare = 1  # how many times they may yet do it sooner

    def observe(self, seconds: Array) -> None:
        """Take the times of one step.

        Arguments:
            seconds: what each rank needed by itself in each stage, without waiting for others, shape (n_ranks, 3); a
                rank that does not tell stages apart has all in the last one.
        """
        if seconds.shape != (len(self.hosts), len(STAGES)):
            raise invalid("seconds", f"must have the shape {(len(self.hosts), len(STAGES))}", seconds.shape)
        if not (np.isfinite(seconds).all() and (seconds >= 0.0).all()):
            raise invalid("seconds", "must be finite and not negative", seconds)
        self._steps.append(np.array(seconds))
        self._ratios.append(_ratios(seconds.sum(axis=1)))

    @property
    def late(self) -> tuple[LateRank, ...]:
        """The ranks that are late now, the slowest first."""
        if len(self._steps) < IN_A_ROW:
            return ()
        last = np.array(list(self._ratios)[-IN_A_ROW:])
        slow = (last > math.log(LEAST_RATIO)).all(axis=0)
        if not slow.any():
            return ()
        clear = last.mean(axis=0) > _DEVIATIONS * _noise(np.array(self._ratios)) / math.sqrt(IN_A_ROW)
        named: list[int] = np.flatnonzero(slow & clear).tolist()
        ranks = [self._described(rank, float(last[:, rank].mean())) for rank in named]
        return tuple(sorted(ranks, key=lambda one: -one.times))

    def due(self, between: float) -> int:
        """Return after how many more steps the ranks should next tell each other their times, at least 1.

        Ranks that know the same times find the same number, whatever their processors: there are no logarithms in it.

        Arguments:
            between: the least seconds of training between two times at which they do, if that is more than 3 steps;
                fewer where a rank took long in the newest ones, to name it after its third, in at most half of all
                times.
        """
        newest: list[list[float]] = [seconds.sum(axis=1).tolist() for seconds in list(self._steps)[-_ENOUGH:]]
        ratios = [[one / max(median_low(own), _SHORTEST) for one in own] for own in newest]
        changes = [abs(now - before) for pair in pairwise(ratios) for now, before in zip(*pair, strict=True)]
        least = max(LEAST_RATIO, 1.0 + _STANDS_OUT * median_low(changes or [0.0]))
        slow = [{rank for rank, one in enumerate(own) if one > least} for own in ratios]
        if self._spare and slow and slow[-1]:
            twice = len(slow) > 1 and slow[-1] & slow[-2]
            if not twice or len(slow) < IN_A_ROW or not twice & slow[-3]:
                self._spare -= 1
                return IN_A_ROW - 2 if twice else IN_A_ROW - 1
        self._spare = min(self._spare + 1, _SPARE)
        step = median_low([max(own) for own in newest[-IN_A_ROW:]]) if newest else between
        return max(IN_A_ROW, math.ceil(between / max(step, _SHORTEST)))

    def _described(self, rank: int, log_ratio: float) -> LateRank:
        steps = np.array(list(self._steps)[-IN_A_ROW:])
        seconds = steps.sum(axis=2)
        others: Array = np.delete(seconds, rank, axis=1).max(axis=1)
        share = float((np.maximum(seconds[:, rank] - others, 0.0) / seconds.max(axis=1)).mean())
        excess: Array = (steps[:, rank] - np.median(np.delete(steps, rank, axis=1), axis=1)).mean(axis=0)
        marked = (steps[:, :, :-1] > 0.0).any()
        return LateRank(
            rank, self.hosts[rank], math.exp(log_ratio), share, STAGES[int(excess.argmax())] if marked else ""
        )

    def table(self) -> str:
        """Return the ranks with their median milliseconds in the steps remembered, one a line."""
        if not self._steps:
            return "No step has been measured yet."
        medians = 1e3 * np.median(np.array(self._steps), axis=0)
        late = {one.rank: one for one in self.late}
        wide = max(4, *map(len, self.hosts))
        lines = [f"rank  {'host':{wide}}  {'data ms':>9}  {'forward ms':>10}  {'backward ms':>11}  {'all ms':>9}"]
        for rank, (host, row) in enumerate(zip(self.hosts, medians, strict=True)):
            data, forward, backward = row
            note = f"  late: {late[rank].times:.2g} times the others" if rank in late else ""
            lines.append(
                f"{rank:4}  {host:{wide}}  {data:9.1f}  {forward:10.1f}  {backward:11.1f}  {row.sum():9.1f}{note}"
            )
        return "\n".join(lines)


def _ratios(seconds: Array) -> Array:
    """Return the logarithm of each rank's seconds over the median of the others' in one step, shape (n_ranks,)."""
    logs: Array = np.log(np.maximum(seconds, _SHORTEST))
    order = np.argsort(logs)
    ascending, places = logs[order], np.argsort(order)
    middle = [(len(logs) - 2) // 2, (len(logs) - 1) // 2]  # of those that are left without the rank itself
    others: Array = np.mean([ascending[place + (places <= place)] for place in middle], axis=0)
    return logs - others


def _noise(ratios: Array) -> Array:
    """Return by how much a rank's log ratio varies from step to step: a standard deviation, shape (n_ranks,).

    It is what all ranks together say, or more if a rank's own steps say so, once there are enough of them. Medians, as
    the step in which a rank becomes slow is no noise.
    """
    changes: Array = 1.4826 / math.sqrt(2.0) * np.abs(np.diff(ratios, axis=0))
    shared = max(float(np.median(changes)), _STEADY)
    own: Array = np.median(changes, axis=0)
    return np.maximum(own, shared) if len(changes) >= _ENOUGH else np.full(len(own), shared)

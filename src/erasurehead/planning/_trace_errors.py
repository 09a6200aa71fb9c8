"""The standard error of the mean step time that is estimated from a trace, from the rounds of the trace in order."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property

import numpy as np
from scipy import special

from erasurehead._internal.arrays import Array
from erasurehead.delays import Bootstrap, Delays
from erasurehead.planning._simulation import Timing, stop_times
from erasurehead.schemes import Scheme
from erasurehead.schemes.wait_rules._residual import Decodable

_BLOCKS = (2, 4)  # blocks of the trace in a stretch
_FEWEST = 4  # least number of stretches to estimate a variance from
_SURE = 0.975
_RECOMBINED = 800  # approximate number of rounds made by recombining those of a trace
_MANY = 16_000  # likewise, for settings whose steps are long only if all workers of a group are late at once
_MOST_DRAWN = 8_000_000  # delays of these, at most


class TraceErrors:
    """The errors of settings that are planned with the same delays, whose rounds are drawn once for all of them.

    Arguments:
        delays: the delays; only those drawn from a trace by whole rounds have such errors.
    """

    def __init__(self, delays: Delays) -> None:
        self._rounds: _Rounds | None = None
        if isinstance(delays, Bootstrap) and delays.keep == "rounds" and len(delays.table) >= 2 * _FEWEST:
            self._rounds = _Rounds(delays)

    def of(self, scheme: Scheme, seconds_per_task: float) -> float | None:
        """Return the relative standard error of the mean step time that is due to the limited length of a trace.

        The rounds of the trace are simulated once, in order. If successive rounds are correlated, the means of
        stretches of rounds vary more than independent rounds would. The error is estimated from stretches of several
        lengths, each widened by Student's t, as their number is small, and the largest of these errors is taken.

        A further term stands for a kind of round that the trace does not contain, which is expected to occur once in
        as many rounds as the trace has. If rounds are independent, what workers did in different rounds could have
        coincided: recombined rounds show such rare coincidences, and a step of an unseen kind is taken to be as long
        as the longest one seen. Where a step is long only if all workers of a group are late at once, coincidences are
        so rare that many more rounds are recombined. If rounds are correlated, there are too few stretches to
        recombine, and a step of an unseen kind is taken to be as long as waiting for all workers takes.

        Arguments:
            scheme: the scheme whose steps are simulated, with all workers idle at each order.
            seconds_per_task: computing time of a task.

        Returns:
            The standard error divided by the mean; None if it cannot be estimated: for another kind of delays, fewer
            than eight rounds, or steps that never end.
        """
        rounds = self._rounds
        if rounds is None or scheme.rule.remembers:
            return None
        seconds = _simulated(scheme, rounds.in_order, seconds_per_task)
        mean = float(seconds.mean())
        if not math.isfinite(mean) or mean <= 0.0:
            return None
        block = rounds.delays.block
        blocks = _BLOCKS if block > 1 else _BLOCKS[:1]  # correlations may last longer than the estimated block
        lengths = {1, *(min(count * block, len(seconds) // _FEWEST) for count in blocks)}
        error = max(_of_stretches(seconds, length) for length in lengths)
        if block == 1:
            error = max(error, _of_what_might_come(scheme, rounds, seconds_per_task, lengths))
            longest = float(seconds.max())
        else:
            longest = rounds.longest + seconds_per_task * scheme.code.load
        unseen = max(0.0, longest - mean) / max(1.0, rounds.delays.effective_rounds)
        return math.hypot(error, unseen) / mean


class _Rounds:
    """The rounds of a trace, as they were and as they might have been; of many workers, they take long to draw."""

    def __init__(self, delays: Bootstrap) -> None:
        self.delays = delays

    @cached_property
    def in_order(self) -> Bootstrap:
        """The rounds of the trace, each used once, in order."""
        return self._once(self.delays.table)

    @cached_property
    def recombined(self) -> Bootstrap:
        return self._recombined(_RECOMBINED)

    @cached_property
    def many_recombined(self) -> Bootstrap:
        most = min(_MANY, _MOST_DRAWN // self.delays.table.shape[1])
        return self._recombined(most) if most > _RECOMBINED else self.recombined

    def _recombined(self, count: int) -> Bootstrap:
        """Return about so many rounds: each worker's own stay in order, but begin at a random one (cyclically)."""
        rounds, workers = self.delays.table.shape
        random = np.random.default_rng(self.delays.seed)
        starts = random.integers(rounds, size=(max(1, count // rounds), 1, workers))
        anew = self.delays.table[(np.arange(rounds)[:, None] + starts) % rounds, np.arange(workers)]
        return self._once(anew.reshape(-1, workers))

    @cached_property
    def longest(self) -> float:
        """Mean seconds of the longest delay of a round."""
        finite = np.where(np.isfinite(self.delays.table), self.delays.table, 0.0)
        return float(finite.max(axis=1).mean())

    def _once(self, table: Array) -> Bootstrap:
        return Bootstrap(table, block=len(table), seed=self.delays.seed, scale_with_load=self.delays.scale_with_load)


def _simulated(scheme: Scheme, delays: Bootstrap, seconds_per_task: float) -> Array:
    """Return the step times of all rounds of a table."""
    return stop_times(Timing.of(scheme, delays, seconds_per_task), len(delays.table))


def _of_what_might_come(scheme: Scheme, rounds: _Rounds, seconds_per_task: float, lengths: Iterable[int]) -> float:
    """Return the largest error of the mean, estimated from stretches of recombined rounds.

    0 if some recombined step never ends, as so few rounds do not show how often that happens.
    """
    rare = scheme.code.replicas and scheme.code.load > 1 and isinstance(scheme.rule, Decodable)
    seconds = _simulated(scheme, rounds.many_recombined if rare else rounds.recombined, seconds_per_task)
    if not np.isfinite(seconds).all():
        return 0.0
    anew = seconds.reshape(-1, len(rounds.delays.table))
    return max(math.sqrt(float(np.mean([_variance(row, length) for row in anew]))) for length in lengths)


def _variance(seconds: Array, length: int) -> float:
    """Return the variance of the mean, estimated from stretches of `length` steps."""
    count = len(seconds) // length
    means = seconds[: count * length].reshape(count, length).mean(axis=1)
    return float(means.var(ddof=1)) / count


def _of_stretches(seconds: Array, length: int) -> float:
    """Return the error of the mean, estimated from stretches, scaled so that 1.96 times it is Student's 95% bound."""
    student = float(special.stdtrit(len(seconds) // length - 1, _SURE)) / float(special.ndtri(_SURE))
    return student * math.sqrt(_variance(seconds, length))

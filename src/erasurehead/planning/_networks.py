"""Which way to meet ranks that train a network should take: what it takes them to get as far as waiting for all does.

That is the time of as many samples as a whole batch has, which follows from the delays, the computing and the lines,
times how many more samples the way needs, which depends on the network and cannot be foreseen: there are ranges of what
was measured (`benchmarks/networks.py`, `networks_outer.py`, `plan_networks.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.delays import Delays
from erasurehead.errors import check_count, check_not_negative, counted, invalid, real
from erasurehead.reports._units import seconds_text

NetworkOptimizer: TypeAlias = Literal["momentum", "adamw"]
"""What trains the network: SGD with momentum, or Adam and its kin."""

OPTIMIZERS: tuple[NetworkOptimizer, ...] = ("momentum", "adamw")

_STEPS = 400  # that are simulated
_PERIODS = (20, 50)  # of outer steps; the latter where sending takes longer than the former
_LOADS = (2, 3, 4, 5)
_MOST = 10_000  # ranks
_COUNTS = 32  # numbers of gradients that are tried at most
_DDP = "DistributedDataParallel"
_TIE = 1.05  # times as long as with fewer gradients, up to which more are waited for
_NEVER = math.inf
_ALIKE = 1.1  # times as fast as the slowest rank, up to which ranks are equally fast
_UNEQUAL = 1.5  # times as many steps as the slowest rank, from which on samples of one kind count too much
_WORTH = 0.95  # of the time of waiting for all, from which on another way is not worth a change

Needs: TypeAlias = tuple[float, float, float]
"""Samples over those that waiting for all needs to get as far: as a rule, at least, at most."""

_SAME: Needs = (1.0, 1.0, 1.0)
_BUSY: dict[NetworkOptimizer, Needs] = {"momentum": (1.0, 0.7, 1.5), "adamw": (1.1, 0.6, 1.4)}
_FIRST: dict[NetworkOptimizer, Needs] = {"momentum": (1.0, 0.6, _NEVER), "adamw": (1.1, 0.8, 1.6)}
_OUTER: dict[NetworkOptimizer, Needs] = {"momentum": (1.2, 0.9, 1.7), "adamw": (1.2, 0.8, 1.7)}
_OUTER_SORTED: Needs = (3.0, 1.0, 6.0)


@final
@dataclass(frozen=True)
class WayToMeet:
    """One way to meet, and what it is expected to take.

    Attributes:
        name: what ranks do.
        call: how a script asks for it.
        seconds: until the model is as far as after one step that waits for all; inf for never.
        band: from and to, by what networks need and how far the delays are known.
        samples: seconds of as many samples as a whole batch has.
        needs: samples over those that waiting for all needs: as a rule, at least, at most.
        reason: a sentence on why it takes so long.
    """

    name: str
    call: str
    seconds: float
    band: tuple[float, float]
    samples: float
    needs: Needs
    reason: str


@final
@dataclass(frozen=True)
class NetworkPlan:
    """Ways to meet, the quickest first.

    Attributes:
        ways: the ways. One that is hardly quicker than waiting for all stands behind it.
        remarks: sentences on what else there is to know.
    """

    ways: tuple[WayToMeet, ...]
    remarks: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        return f"NetworkPlan({counted('way', len(self.ways))} to meet, the quickest {self.best.name})"

    @property
    def best(self) -> WayToMeet:
        """The first choice."""
        return self.ways[0]

    @property
    def waiting(self) -> WayToMeet:
        """Waiting for all."""
        return next(way for way in self.ways if way.call == _DDP)


def plan_network(
    delays: Delays,
    ranks: int,
    seconds_per_sample: float | Sequence[float],
    batch: int,
    model_bytes: float = 0.0,
    mbit: float = math.inf,
    optimizer: NetworkOptimizer = "momentum",
    mixed: bool = True,
) -> NetworkPlan:
    """Rank the ways in which ranks that train a network can meet.

    Arguments:
        delays: how much longer than its computing a rank's step takes.
        ranks: number of ranks, at least 2.
        seconds_per_sample: what a rank computes on a sample, forward and backward; one number, or one for each rank.
        batch: samples of a whole batch, of all ranks together.
        model_bytes: size of the parameters, as float32.
        mbit: million bits a second of each rank's line, each way; inf if sending takes no time.
        optimizer: `"momentum"` for SGD with momentum, `"adamw"` for Adam and its kin.
        mixed: whether every rank has samples of all kinds. If not, a rank that makes more steps than others counts too
            much.

    Raises:
        InvalidArgument: if an argument breaks a rule.
    """
    check_count("ranks", ranks, at_least=2, at_most=_MOST)
    check_count("batch", batch, at_least=ranks)
    given = [seconds_per_sample] * ranks if isinstance(seconds_per_sample, int | float) else [*seconds_per_sample]
    if len(given) != ranks:
        raise invalid("seconds_per_sample", f"must be one number, or one for each of {ranks} ranks", len(given))
    for each in given:
        check_not_negative("seconds_per_sample", each, "must be a number of seconds of at least 0")
    check_not_negative("model_bytes", model_bytes, "must be a number of bytes of at least 0")
    if not real(mbit) > 0.0:
        raise invalid("mbit", "must be a number of million bits a second above 0", mbit, "leave it out for no limit")
    if mbit < math.inf and not model_bytes:
        raise invalid("model_bytes", "must be given where lines are slow", model_bytes, "4 bytes a parameter")
    if optimizer not in OPTIMIZERS:
        raise invalid("optimizer", "must be 'momentum' or 'adamw'", optimizer)
    delays.check_workers(ranks)
    if delays.follows_clock:
        raise invalid("delays", "must be drawn by the step", str(delays), "these follow the clock; give their trace")
    compute = np.array(given, dtype=float) * batch / ranks
    line = 0.0 if mbit == math.inf else 8e-6 * model_bytes / mbit
    late = delays.rows(0, _STEPS, ranks)
    if not np.isfinite(late).any():
        raise invalid("delays", "must have a rank that answers", str(delays))
    plan = _Ranks(late, compute, line, optimizer, mixed, delays.rounds_known).plan()
    if any(way.seconds == 0.0 for way in plan.ways):
        rule = "must be greater than 0 where delays and sending take no time, either"
        raise invalid("seconds_per_sample", rule, seconds_per_sample)
    return plan


@dataclass(frozen=True, eq=False)
class _Ranks:
    """Ranks, and all that is known of them.

    Arguments:
        late: drawn delays, shape (steps, ranks).
        compute: seconds of each rank's equal share of a batch.
        line: seconds that a model takes on a rank's line.
        optimizer, mixed: as of `plan_network`.
        rounds: from how many the delays are drawn; None if they are a law.
    """

    late: Array
    compute: Array
    line: float
    optimizer: NetworkOptimizer
    mixed: bool
    rounds: int | None

    @property
    def n(self) -> int:
        """Number of ranks."""
        return len(self.compute)

    def plan(self) -> NetworkPlan:
        """Return all ways, ranked."""
        whole = self._waiting()
        ways = [whole, self._busy(), self._first(), *self._by_speed(), self._code(), self._outer()]
        ways.sort(key=lambda way: way.seconds * (_WORTH if way is whole else 1.0))
        return NetworkPlan(tuple(ways), tuple(self._remarks(ways)))

    def _way(self, name: str, call: str, samples: float, needs: Needs, reason: str) -> WayToMeet:
        """Return a way whose ranks take so many seconds for the samples of a batch."""
        spread = float(self._known.std() / max(self._known.mean() + self.compute.mean(), 1e-12))
        apart = 0.0 if self.rounds is None else 2.0 * spread / math.sqrt(self.rounds)
        usual, least, most = (samples * each for each in needs)
        band = least / (1.0 + apart), most * (1.0 + apart)
        return WayToMeet(name, call, usual, band, samples, needs, reason)

    @property
    def _known(self) -> Array:
        """Delays of steps that ended."""
        return self.late[np.isfinite(self.late)]

    @property
    def _paces(self) -> Array:
        """Steps a second of ranks that wait for nobody."""
        return 1.0 / np.clip((self.compute + self.late).mean(axis=0), 1e-12, 1e300)

    @property
    def _one_sided(self) -> bool:
        """Whether some ranks' samples would count too much where ranks do not wait."""
        return not self.mixed and float(self._paces.max()) > _UNEQUAL * float(self._paces.min())

    def _waiting(self) -> WayToMeet:
        step = float((self.compute + self.late).max(axis=1).mean())
        ring = 2.0 * (self.n - 1) / self.n * self.line
        computing = float(self.compute.max())
        if step == math.inf:
            return self._way("wait for all", _DDP, step, _SAME, "Some rank never answers, and a step never ends.")
        reason = (
            f"A step takes as long as the slowest rank: {seconds_text(step)}, {seconds_text(computing)} of it computing"
        )
        reason += f", and {seconds_text(ring)} of sending." if ring else "."
        return self._way("wait for all", _DDP, step + ring, _SAME, reason)

    def _busy(self) -> WayToMeet:
        samples = 1.0 / float(self._paces.mean())
        usual, least, most = _BUSY[self.optimizer]
        reason = "Nobody waits, so a step takes what the mean rank takes."
        apart = self.n * self.line / samples
        if apart > 1.0:  # between no harm, and a rank that might as well be alone
            usual, most = usual * min(apart, self.n) ** 0.5, _NEVER
            reason = f"Lines carry models only every {math.ceil(apart)} steps, and ranks that go apart may be like one."
        elif self._one_sided:  # between no harm, and kinds of slow ranks that are learnt as slowly as if all waited
            usual, most = usual * float(self._paces.mean() / self._paces.min()) ** 0.5, _NEVER
            reason = "Nobody waits, but fast ranks' samples, which are of their own kinds, count more than others."
        return self._way("busy", "as it is (SGD, Adam and their kin)", samples, (usual, least, most), reason)

    def _first(self) -> WayToMeet:
        k, samples = _quickest(self.compute + self.late)
        needs = _FIRST[self.optimizer]
        reason = f"A step closes with about {k} of {self.n} gradients, which is noisier than a whole batch."
        if self._one_sided and k < self.n:
            needs, reason = (_NEVER, needs[1], _NEVER), "What slow ranks have is of their own kinds, and would be lost."
        call = 'way="first-gradients"'
        return self._way("first gradients", call, samples + self.n * self.line, needs, reason)

    def _by_speed(self) -> list[WayToMeet]:
        if not self.mixed or not 0.0 < _ALIKE * self.compute.min() < self.compute.max():
            return []
        shares = (1.0 / self.compute) / (1.0 / self.compute).mean()
        k, samples = _quickest(shares * self.compute + self.late, shares)
        reason = f"Shares from {shares.min():.2g} to {shares.max():.2g} times an equal one end at about the same time."
        needs = _SAME if k == self.n else _FIRST[self.optimizer]
        call = 'way="first-gradients", team.batches(..., speeds="measured")'
        return [self._way("shares by speed", call, samples + self.n * self.line, needs, reason)]

    def _code(self) -> WayToMeet:
        """Return the quickest exact code whose groups are equal."""
        n, steps = self.n, dict[int, float]()
        for load in {*_LOADS, n}:
            if n % load == 0:
                ends = (load * self.compute + self.late).reshape(-1, n // load, load)
                steps[load] = float(ends.min(axis=2).max(axis=1).mean())
        load = min(steps, key=lambda load: steps[load])
        extra = (load - 1) * float(self.compute.mean())
        reason = (
            f"{load} ranks have the same shares, {seconds_text(extra)} more computing a step; "
            f"{'all but ' * (load > 2)}one of them may be late."
        )
        scheme = f'every="gradient", scheme="exact(load={load})", and team.backward'
        return self._way(f"exact(load={load})", scheme, steps[load] + n * self.line, _SAME, reason)

    def _outer(self) -> WayToMeet:
        """Return outer steps, whose changes go in half the bytes if lines are slow."""
        paces, sending = float(self._paces.mean()), 0.5 * self.n * self.line
        every = _PERIODS[sending * paces > _PERIODS[0]]
        call = f"every={every}" + ", bfloat16=True" * (self.line > 0.0)
        call += ", outer_rate=1, outer_momentum=0" * (self.optimizer == "momentum")
        reason = f"Ranks make {every} steps before they meet, and late ones send what they have."
        needs = _OUTER[self.optimizer] if self.mixed else _OUTER_SORTED
        return self._way(f"every={every}", call, 1.0 / paces + sending / every, needs, reason)

    def _remarks(self, ways: Sequence[WayToMeet]) -> list[str]:
        ratio = float(self._known.mean()) / max(float(self.compute.mean()), 1e-12)
        sentences = [
            f"The mean delay is {ratio:.2g} times the computing of a share; from about a half on, a code can pay. No "
            "other way has the gradient of the whole batch whoever is late or dies."
        ]
        alone = float(self.compute.min()) * self.n
        if alone < ways[0].seconds:
            sentences.append(
                f"One process alone, with no delays, would have computed a whole batch in {seconds_text(alone)}: where "
                "computing is cheap beside delays and lines, more ranks are slower than one."
            )
        return sentences


def _quickest(takes: Array, shares: Array | None = None) -> tuple[int, float]:
    """Return with how many gradients a step closes, and the seconds of as many samples as a whole batch has.

    Arguments:
        takes: seconds of ranks' steps, shape (steps, ranks).
        shares: of each rank, over an equal one.
    """
    n = takes.shape[1]
    weights = np.ones(n) if shares is None else shares
    counts = np.linspace(math.ceil(n / 2), n, min(n, _COUNTS), dtype=int).tolist()
    seconds = {k: _first_of(takes, k, weights) for k in counts}
    k = max(k for k in seconds if seconds[k] <= _TIE * min(seconds.values()))
    return k, seconds[k]


def _first_of(takes: Array, k: int, weights: Array) -> float:
    """Return the seconds of a whole batch's samples with steps of k gradients, of which late ones count in a later one.

    Teams drop those that are late by more than one, which are few.
    """
    ends: Array = takes[0]
    now = samples = 0.0
    for row in takes[1:]:
        now = float(np.partition(ends, k - 1)[k - 1])
        came = ends <= now
        samples += float(weights[came].sum())
        ends = np.where(came, now + row, ends)
    return now * len(weights) / samples

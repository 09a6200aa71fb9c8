"""Rules joined by | (stop when any of them would) and & (stop when all of them would)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import ClassVar, final

import numpy as np

from erasurehead.arrays import Array
from erasurehead.decoding.base import Decoder
from erasurehead.errors import invalid
from erasurehead.waiting.base import NeverMet, Verdict, View, WaitRule


@dataclass(frozen=True)
class _Joined(WaitRule):
    rules: tuple[WaitRule, ...]
    sign: ClassVar[str]

    def __post_init__(self) -> None:
        flat: list[WaitRule] = []
        for rule in self.rules:
            parts = rule.rules if isinstance(rule, _Joined) and type(rule) is type(self) else (rule,)
            flat.extend(part for part in parts if part not in flat)
        if len(flat) < 2:
            raise invalid("rules", f"must be at least two different rules to join by {self.sign}", tuple(self.rules))
        object.__setattr__(self, "rules", tuple(flat))

    @property
    def lasting(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return all(rule.lasting for rule in self.rules)

    def wake(self, view: View) -> float | None:
        return min((time for rule in self.rules if (time := rule.wake(view)) is not None), default=None)

    def for_workers(self, before: int, after: int) -> WaitRule:
        scaled = tuple(dict.fromkeys(rule.for_workers(before, after) for rule in self.rules))
        return scaled[0] if len(scaled) == 1 else type(self)(scaled)


@final
@dataclass(frozen=True)
class AnyOf(_Joined):
    """Stop as soon as one of several rules would: the ErasureHead paper's Algorithm 1 is `fraction(d) | decodable()`.

    Arguments:
        rules: at least two; nested `AnyOf` are flattened, and equal rules kept once.
    """

    sign: ClassVar[str] = "|"

    def verdict(self, view: View) -> Verdict:
        never = True
        for rule in self.rules:
            verdict = rule.verdict(view)
            if verdict is Verdict.STOP:
                return Verdict.STOP
            never &= verdict is Verdict.NEVER
        return Verdict.NEVER if never else Verdict.WAIT

    def stop_times(self, times: Array, decoder: Decoder) -> Array:
        return reduce(np.minimum, (rule.stop_times(times, decoder) for rule in self.rules))

    def stop_times_since(self, times: Array, decoder: Decoder, since: Array) -> Array:
        return reduce(np.minimum, (rule.stop_times_since(times, decoder, since) for rule in self.rules))

    def check(self, decoder: Decoder) -> None:
        unmet: list[NeverMet] = []
        for rule in self.rules:
            try:
                rule.check(decoder)
            except NeverMet as error:
                unmet.append(error)
        if len(unmet) == len(self.rules):
            raise unmet[0]

    def __str__(self) -> str:
        return " | ".join(str(rule) for rule in self.rules)


@final
@dataclass(frozen=True)
class AllOf(_Joined):
    """Stop once all of several rules would: `first(11) & deadline(0.5)` takes whoever comes in the first half second.

    Arguments:
        rules: at least two; nested `AllOf` are flattened, and equal rules kept once.
    """

    sign: ClassVar[str] = "&"

    def verdict(self, view: View) -> Verdict:
        verdicts = [rule.verdict(view) for rule in self.rules]
        if Verdict.NEVER in verdicts:
            return Verdict.NEVER
        return Verdict.WAIT if Verdict.WAIT in verdicts else Verdict.STOP

    def stop_times(self, times: Array, decoder: Decoder) -> Array:
        return self.stop_times_since(times, decoder, np.zeros(len(times)))

    def stop_times_since(self, times: Array, decoder: Decoder, since: Array) -> Array:
        lasting = [rule.stop_times(times, decoder) for rule in self.rules if rule.lasting]
        stop = reduce(np.maximum, lasting, since)
        passing = [rule for rule in self.rules if not rule.lasting]
        while passing:  # while one of them is waited for, another may be met no longer
            later = reduce(np.maximum, (rule.stop_times_since(times, decoder, stop) for rule in passing), stop)
            if (later == stop).all():
                break
            stop = later
        return stop

    def check(self, decoder: Decoder) -> None:
        for rule in self.rules:
            rule.check(decoder)

    def __str__(self) -> str:
        return " & ".join(f"({rule})" if isinstance(rule, AnyOf) else str(rule) for rule in self.rules)

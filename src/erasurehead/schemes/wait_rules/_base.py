"""The interface of wait rules, and rules joined by | and &."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import reduce
from typing import Any, ClassVar, Self, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.resumable import Resumable
from erasurehead.decoding import Decoder
from erasurehead.errors import InvalidArgument, invalid
from erasurehead.schemes._recorded import RecordedArrival, RecordedStep
from erasurehead.schemes.wait_rules._view import View


class Verdict(Enum):
    """What a rule says about the arrivals so far."""

    WAIT = "wait"
    """More is needed."""

    STOP = "stop"
    """What is there is enough."""

    UNREACHABLE = "never"
    """The rule cannot be met any more, whoever still answers."""


class RuleUnreachable(InvalidArgument):
    """A rule that a code cannot meet even when all messages have arrived. Joined to another by |, it is allowed."""


def scaled_count(count: int, before: int, after: int) -> int:
    """Return the number that is to `after` workers as `count` is to `before`, rounded up.

    >>> scaled_count(11, 30, 20)
    8
    """
    return -(-count * after // before)


class WaitRule(Resumable, ABC):
    """Decides, from the arrivals so far, when to stop waiting (the ErasureHead paper's delta). Combine with | and &.

    Attributes:
        lasting: whether the rule stays met, once it is, when more messages arrive.
        remembers: whether it learns from earlier steps, or reads what is late (`View.late`, `View.ages`): rounds are
            then not independent of each other, and planners simulate them one after the other.
    """

    lasting: ClassVar[bool] = True
    remembers: ClassVar[bool] = False

    @property
    def agreeing(self) -> int:
        """From how many workers each content has come when it stops, at least, unless no more can send it."""
        return 1

    def begin(self) -> WaitRule:
        """Return a fresh rule for a new run: itself, if it learns nothing.

        A rule that learns returns a new one that has learnt nothing yet, so that two runs of one scheme do not
        influence each other. When the code is resized, a new one takes over what this one has learnt, through `state`
        and `restore`: key the state by worker, content or task, as the rows of the code may change.
        """
        return self

    def learn(self, step: RecordedStep, arrivals: Sequence[RecordedArrival]) -> None:
        """Learn from a finished step. Only its records may be read, so that a replay learns the same.

        Arguments:
            step: its row.
            arrivals: the rows of all of its messages: those that arrived in time, those that did not (censored), and
                those of earlier rounds that arrived meanwhile (late).
        """
        return

    @abstractmethod
    def verdict(self, view: View) -> Verdict:
        """Return whether to stop now, to wait, or that the rule is out of reach."""

    def wake(self, view: View) -> float | None:
        """Return the elapsed seconds at which to ask again even if nothing has arrived; None for never.

        When that time has come, `view.elapsed` is at least what was returned here, so that a rule may compare the two.
        A time in the past, at which the rule was already asked, counts as None.
        """
        return None

    @abstractmethod
    def stop_times(self, times: Array, decoder: Decoder) -> Array:
        """Apply the same rule to many rounds at once, for the planner.

        Arguments:
            times: when each message arrives, in seconds since the order; inf if never. Shape (rounds, n_messages).
            decoder: the decoder of the code in question.

        Returns:
            When the rule stops, shape (rounds,); inf where it never does. Rounds are taken as independent.
        """

    def stop_times_since(self, times: Array, decoder: Decoder, since: Array) -> Array:
        """Return the first time, not before `since`, at which the rule is met, shape (rounds,).

        Arguments:
            times, decoder: as for `stop_times`.
            since: in seconds since the order, shape (rounds,).
        """
        return np.maximum(self.stop_times(times, decoder), since)

    def check(self, decoder: Decoder) -> None:
        """Raise `InvalidArgument` if this rule asks for what the code does not have.

        Raises:
            InvalidArgument: if it can never be met, even when everybody answers; `RuleUnreachable` where the code's
                residual is the reason.
        """
        return

    def for_workers(self, before: int, after: int) -> WaitRule:
        """Return the rule for another number of workers after one before: it waits for the same fraction of them."""
        return self

    @abstractmethod
    def __str__(self) -> str:
        """Return the rule as it is written in a run file: `"first(11) | decodable()"`."""

    def __or__(self, other: WaitRule) -> WaitRule:

        return self if self == other else AnyOf((self, other))

    def __and__(self, other: WaitRule) -> WaitRule:

        return self if self == other else AllOf((self, other))


class WrittenRule(WaitRule):
    """A rule that is written as a call: its name, with its fields."""

    name: ClassVar[str]

    def __str__(self) -> str:
        declared = fields(self) if is_dataclass(self) else ()
        return f"{self.name}({', '.join(str(getattr(self, item.name)) for item in declared)})"

    def __repr__(self) -> str:
        return f"wait_rules.parse({str(self)!r})"


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

    @property
    def remembers(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return any(rule.remembers for rule in self.rules)

    def begin(self) -> WaitRule:
        begun = tuple(rule.begin() for rule in self.rules)
        return self if all(one is rule for one, rule in zip(begun, self.rules, strict=True)) else self._of(begun)

    def _of(self, rules: tuple[WaitRule, ...]) -> Self:
        """Return the same combination of other rules, without merging equal ones: they may learn different things."""
        joined = object.__new__(type(self))
        object.__setattr__(joined, "rules", rules)
        return joined

    def learn(self, step: RecordedStep, arrivals: Sequence[RecordedArrival]) -> None:
        for rule in self.rules:
            rule.learn(step, arrivals)

    def state(self) -> dict[str, Any]:
        return {"rules": [rule.state() for rule in self.rules]}

    def restore(self, state: Mapping[str, Any]) -> None:
        for rule, own in zip(self.rules, state["rules"], strict=True):
            rule.restore(own)

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
        rules: at least two; nested `AnyOf` are flattened, and duplicates removed.
    """

    sign: ClassVar[str] = "|"

    @property
    def agreeing(self) -> int:
        return min(rule.agreeing for rule in self.rules)

    def verdict(self, view: View) -> Verdict:
        never = True
        for rule in self.rules:
            verdict = rule.verdict(view)
            if verdict is Verdict.STOP:
                return Verdict.STOP
            never &= verdict is Verdict.UNREACHABLE
        return Verdict.UNREACHABLE if never else Verdict.WAIT

    def stop_times(self, times: Array, decoder: Decoder) -> Array:
        return reduce(np.minimum, (rule.stop_times(times, decoder) for rule in self.rules))

    def stop_times_since(self, times: Array, decoder: Decoder, since: Array) -> Array:
        return reduce(np.minimum, (rule.stop_times_since(times, decoder, since) for rule in self.rules))

    def check(self, decoder: Decoder) -> None:
        unmet: list[RuleUnreachable] = []
        for rule in self.rules:
            try:
                rule.check(decoder)
            except RuleUnreachable as error:
                unmet.append(error)
        if len(unmet) == len(self.rules):
            raise unmet[0]

    def __str__(self) -> str:
        return " | ".join(str(rule) for rule in self.rules)

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.rules))


@final
@dataclass(frozen=True)
class AllOf(_Joined):
    """Stop once all of several rules would: `first(11) & deadline(0.5)` takes whoever comes in the first half second.

    Arguments:
        rules: at least two; nested `AllOf` are flattened, and duplicates removed.
    """

    sign: ClassVar[str] = "&"

    @property
    def agreeing(self) -> int:
        return max(rule.agreeing for rule in self.rules)

    def verdict(self, view: View) -> Verdict:
        verdicts = [rule.verdict(view) for rule in self.rules]
        if Verdict.UNREACHABLE in verdicts:
            return Verdict.UNREACHABLE
        return Verdict.WAIT if Verdict.WAIT in verdicts else Verdict.STOP

    def stop_times(self, times: Array, decoder: Decoder) -> Array:
        return self.stop_times_since(times, decoder, np.zeros(len(times)))

    def stop_times_since(self, times: Array, decoder: Decoder, since: Array) -> Array:
        lasting = [rule.stop_times(times, decoder) for rule in self.rules if rule.lasting]
        stop = reduce(np.maximum, lasting, since)
        passing = [rule for rule in self.rules if not rule.lasting]
        while passing:  # while the round waits for one rule, another may cease to be met
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

    def __repr__(self) -> str:
        return " & ".join(f"({rule!r})" if isinstance(rule, AnyOf) else repr(rule) for rule in self.rules)


def carry_over(before: WaitRule, after: WaitRule) -> None:
    """Let a rule continue from what another has learnt: the same rule for another number of workers.

    Joined rules pass it on part by part, in order, to parts of the same kind.

    Arguments:
        before: the old rule.
        after: the new rule.
    """
    sources = _parts(before)
    for part in _parts(after):
        source = next((one for one in sources if type(one) is type(part)), None)
        if source is not None:
            sources.remove(source)
            if part.remembers:
                part.restore(source.state())


def _parts(rule: WaitRule) -> list[WaitRule]:
    if isinstance(rule, _Joined):
        return [part for joined in rule.rules for part in _parts(joined)]
    return [rule]

"""What a scheme is: a code with its decoder, wait rules, and an aggregation; and how one is made of any of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias, TypeVar

from erasurehead import decoding
from erasurehead._internal.late_work import LateWork, rounds_kept
from erasurehead._internal.resumable import checkpointed_names
from erasurehead.codes import GradientCode
from erasurehead.codes._transforms import resized
from erasurehead.decoding import Decoder
from erasurehead.decoding._alternatives import Alternatives
from erasurehead.errors import InvalidArgument, check_size, check_type, counted, invalid
from erasurehead.optimizers._base import Early
from erasurehead.optimizers._order_kinds import CURVATURE, EARLY
from erasurehead.schemes import wait_rules
from erasurehead.schemes._aggregation import Aggregation, ByExpectation, Plain
from erasurehead.schemes.wait_rules._base import WaitRule, carry_over

_Part = TypeVar("_Part", WaitRule, Aggregation)

Reform: TypeAlias = "Callable[[int, Sequence[int] | None], Scheme]"
"""Makes a scheme again for so many workers, of which so many hold each task."""


@dataclass(frozen=True, eq=False)
class Scheme:
    """Everything that decides how a gradient is gathered: a code, its decoder, wait rules and an aggregation.

    Arguments:
        name: shown in tables and figures.
        decoder: the decoder; it holds the code.
        rules: the wait rule for each kind of order; there must be one for `"gradient"`.
        aggregation: what the optimizer sees.
        reform: returns the same scheme for another number of workers over the same tasks, given how many of the
            remaining workers hold each task; called when workers have left for good or joined. None if the scheme
            cannot be resized.
        late: what late workers must do with old work for this scheme; None if anything will do.
        by_task: decoder of the same tasks on the same workers, sent one by one, to which training changes where that
            pays, and back; None if it never does.
        finer: returns the same scheme with each task cut into so many, all of which one worker computes before others
            help, where workers are asked for a message per task; None if it never asks for these.
        around: returns the same scheme with a message per task alone, and the data around a circle, where any neighbour
            can help who is slow, to which training moves where that pays; None if it never does.
        until_newer: whether a worker that has sent one of its messages sends the next one only if no newer order is
            out, whatever late workers do.
        by_speed: returns the same scheme, over the same tasks, for as many workers as it is given speeds, by which the
            tasks are dealt out; None if they are not.
        measured: whether training measures the speeds, and deals the tasks out anew when a change has lasted.
        turns: whether training finds out with which messages workers should begin, and who repeats which, where each
            is the gradient of a task that others hold as well.
        sums: whether workers report the tasks that they have finished, each a message of one task in the code, and send
            one vector when all are: the sum over those that they are named for.
    """

    name: str
    decoder: Decoder
    rules: Mapping[str, WaitRule]
    aggregation: Aggregation
    reform: Reform | None = None
    late: LateWork | None = None
    by_task: Decoder | None = None
    finer: Callable[[int], Scheme] | None = None
    around: Callable[[], Scheme] | None = None
    until_newer: bool = False
    by_speed: Callable[[Sequence[float]], Scheme] | None = None
    measured: bool = False
    turns: bool = False
    sums: bool = False

    def __post_init__(self) -> None:
        if "gradient" not in self.rules:
            raise invalid("rules", "must have a wait rule for orders of kind 'gradient'", ", ".join(self.rules))
        for rule in self.rules.values():
            rule.check(self.decoder)

    @property
    def code(self) -> GradientCode:
        """Who computes what."""
        return self.decoder.code

    @property
    def levels(self) -> Sequence[Decoder]:
        """Decoders of the levels of a nested code that are only decoded one by one; none of other codes.

        Workers then report how far they have come, and are asked for their messages of the first level that decodes.
        """
        decoder = self.decoder
        return decoder.decoders if isinstance(decoder, Alternatives) and decoder.inner is None else ()

    @property
    def rule(self) -> WaitRule:
        """The wait rule of gradient orders."""
        return self.rules["gradient"]

    def check_late(self, late: LateWork) -> None:
        """Raise if this scheme cannot work with what late workers are to do with old work.

        Raises:
            InvalidArgument: if it cannot; the error says what they must do instead.
        """
        if self.late == "carry" and not rounds_kept(late):
            raise invalid(
                "late",
                f"must be 'carry', or 'drop(R)' of 1 round at least, for the scheme {self.name}, which needs late work",
                late,
                "say late='carry' to the engine, or --late carry",
            )

    def early(self, late: LateWork, verified: bool = False) -> Early:
        """Return whether an optimizer may ask for orders that few arrivals answer: see `Optimizer.begin`.

        Arguments:
            late: what late workers do with old work.
            verified: whether messages are compared with each other: late ones that answer such orders are not.
        """
        if EARLY not in self.rules:
            return ""
        if late == "carry":
            return "" if verified or self.aggregation.wants_late else "carry"
        return "preempt" if late == "preempt" else ""

    def begin(self, before: Scheme | None = None) -> Scheme:
        """Return a fresh scheme for a new run: what its rules and its aggregation learn belongs to that run alone.

        Arguments:
            before: when the code is resized during a run, the scheme so far; what it has learnt is taken over.
        """
        rules = {kind: _begun(rule) for kind, rule in self.rules.items()}
        aggregation = _begun(self.aggregation)
        if before is not None:
            for kind, rule in rules.items():
                if kind in before.rules:
                    carry_over(before.rules[kind], rule)
            if aggregation.remembers and type(before.aggregation) is type(aggregation):
                aggregation.restore(before.aggregation.state())
        if aggregation is self.aggregation and all(rule is self.rules[kind] for kind, rule in rules.items()):
            return self
        return replace(self, rules=rules, aggregation=aggregation)

    def resized(self, n_workers: int, held: Sequence[int] | None = None) -> Scheme:
        """Return the same scheme for another number of workers over the same tasks.

        Arguments:
            n_workers: the new number.
            held: how many of the workers that stay hold each task; few tasks move then, where the code allows.

        Raises:
            InvalidArgument: if the scheme does not exist for that number.
        """
        if self.by_speed is not None:  # they begin alike
            return replace(self.by_speed([1.0] * check_size("n_workers", n_workers)), name=self.name)
        if self.reform is None:
            sentence = f"the scheme {self.name} cannot be resized for {counted('worker', n_workers)}."
            raise InvalidArgument("n_workers", "must stay what it is", n_workers, sentence=sentence)
        return replace(self.reform(n_workers, held), name=self.name, reform=self.reform)

    def __repr__(self) -> str:
        return f"<Scheme {self}>"

    def __str__(self) -> str:
        others = "".join(f" ({kind}: {rule})" for kind, rule in self.rules.items() if rule != self.rule)
        return f"{self.name}: {self.code!r}, stop at {self.rule}{others}, {type(self.aggregation).__name__}"


def custom(
    code: GradientCode,
    rule: WaitRule | str,
    aggregation: Aggregation | None = None,
    name: str = "",
    decoder: Decoder | None = None,
) -> Scheme:
    """Return a scheme made of any code and wait rule.

    Arguments:
        code: any code.
        rule: a wait rule, or its text, such as `"first(11) | decodable()"`.
        aggregation: by default `Plain`, the decoded sum as it is.
        name: shown in tables and figures; by default the code's name.
        decoder: by default the fastest optimal decoder for the code.
    """
    check_type("code", code, GradientCode, "must be a code", "such as codes.uncoded(30)")
    rule = wait_rules.parse(rule) if isinstance(rule, str) else rule
    check_type("rule", rule, WaitRule, "must be a wait rule, or the text of one", "such as 'first(11) | decodable()'")
    check_type(
        "aggregation", aggregation, Aggregation | None, "must be an aggregation, or None", "such as ByCoverage()"
    )
    if decoder is not None and not (isinstance(decoder, Decoder) and decoder.code is code):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise invalid("decoder", "must be one of this code", decoder, "such as decoding.make_decoder(code)")
    fixed = decoder is not None or isinstance(aggregation, ByExpectation)
    again = None if fixed else partial(_custom_again, code, rule, aggregation)
    chosen = decoder or decoding.make_decoder(code)
    aggregation = aggregation or Plain()
    kinds = ("gradient",) if aggregation.remembers else ("gradient", CURVATURE)  # memory would mix the two
    return Scheme(name or code.name, chosen, dict.fromkeys(kinds, rule), aggregation, again)


def _custom_again(
    code: GradientCode, rule: WaitRule, aggregation: Aggregation | None, n_workers: int, held: Sequence[int] | None
) -> Scheme:
    return custom(resized(code, n_workers, held), rule.for_workers(code.n_workers, n_workers), aggregation)


def _begun(part: _Part) -> _Part:
    """Return a fresh rule or aggregation for a new run."""
    begun = part.begin()
    if not isinstance(begun, type(part)) or (begun is part and checkpointed_names(type(part))):
        rule = "must return a new one, as what it has learnt would go on into other runs"
        raise invalid(f"begin() of {type(part).__name__}", rule, begun, "such as return type(self)(...)")
    return begun

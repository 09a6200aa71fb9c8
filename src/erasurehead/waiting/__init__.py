"""When to stop: wait rules, written in Python as in configuration files.

>>> from erasurehead import waiting
>>> rule = waiting.first(11) | waiting.decodable()
>>> str(rule)
'first(11) | decodable()'
>>> waiting.parse("first(11) | decodable()") == rule
True
"""

from erasurehead.specs import read
from erasurehead.waiting.arrivals import First as first
from erasurehead.waiting.arrivals import Fraction as fraction
from erasurehead.waiting.base import NeverMet, Verdict, View, WaitRule
from erasurehead.waiting.combined import AllOf, AnyOf
from erasurehead.waiting.copies import Confirmed as confirmed
from erasurehead.waiting.deadline import Deadline as deadline
from erasurehead.waiting.residual import Decodable as decodable
from erasurehead.waiting.residual import ResidualBelow as residual_below

__all__ = [
    "AllOf",
    "AnyOf",
    "NeverMet",
    "Verdict",
    "View",
    "WaitRule",
    "confirmed",
    "deadline",
    "decodable",
    "first",
    "fraction",
    "parse",
    "residual_below",
]


def parse(text: str) -> WaitRule:
    """Return the rule that a text stands for, as a configuration file writes it; the inverse of `str(rule)`.

    Arguments:
        text: calls of `first(workers)`, `fraction(share)`, `decodable()`, `residual_below(tasks)`,
            `deadline(seconds)` and `confirmed(copies)`, joined by `|` and `&` (which binds tighter), with brackets.

    Raises:
        InvalidArgument: the text is of another form, or a number in it is out of its range.
    """
    makers = {
        "first": first,
        "fraction": fraction,
        "decodable": decodable,
        "residual_below": residual_below,
        "deadline": deadline,
        "confirmed": confirmed,
    }
    return read(text, "wait", WaitRule, makers, {"|": WaitRule.__or__, "&": WaitRule.__and__})

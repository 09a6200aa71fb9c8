"""When to stop: wait rules, written in Python as in configuration files.

>>> from erasurehead.schemes import wait_rules
>>> rule = wait_rules.first(11) | wait_rules.decodable()
>>> str(rule)
'first(11) | decodable()'
>>> wait_rules.parse("first(11) | decodable()") == rule
True
"""

from erasurehead._internal.text_parser import read
from erasurehead.schemes.wait_rules.base import AllOf, AnyOf, RuleUnreachable, Verdict, WaitRule
from erasurehead.schemes.wait_rules.confirmed import Confirmed as confirmed
from erasurehead.schemes.wait_rules.counts import First as first
from erasurehead.schemes.wait_rules.counts import Fraction as fraction
from erasurehead.schemes.wait_rules.deadline import Deadline as deadline
from erasurehead.schemes.wait_rules.early import Early as early
from erasurehead.schemes.wait_rules.few import Few as few
from erasurehead.schemes.wait_rules.lateness import Aged as aged
from erasurehead.schemes.wait_rules.lateness import Arrivals as arrivals
from erasurehead.schemes.wait_rules.lateness import Heard as heard
from erasurehead.schemes.wait_rules.residual import Decodable as decodable
from erasurehead.schemes.wait_rules.residual import ResidualBelow as residual_below
from erasurehead.schemes.wait_rules.view import LateArrival, View

__all__ = [
    "AllOf",
    "AnyOf",
    "LateArrival",
    "RuleUnreachable",
    "Verdict",
    "View",
    "WaitRule",
    "aged",
    "arrivals",
    "confirmed",
    "deadline",
    "decodable",
    "early",
    "few",
    "first",
    "fraction",
    "heard",
    "parse",
    "residual_below",
]


def parse(text: str) -> WaitRule:
    """Return the rule that a text stands for, as a configuration file writes it; the inverse of `str(rule)`.

    Arguments:
        text: calls of `first(workers)`, `fraction(share)`, `decodable()`, `residual_below(tasks)`,
            `deadline(seconds)`, `confirmed(copies)`, `arrivals(count)`, `aged(most)` and `heard()`, joined by `|` and
            `&` (which binds tighter), with brackets.

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
        "arrivals": arrivals,
        "aged": aged,
        "heard": heard,
    }
    return read(text, "wait", WaitRule, makers, {"|": WaitRule.__or__, "&": WaitRule.__and__})

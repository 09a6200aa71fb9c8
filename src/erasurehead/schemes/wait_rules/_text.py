"""What a text of `erasurehead.schemes.wait_rules` stands for."""

from erasurehead._internal.text_parser import read
from erasurehead.schemes.wait_rules._base import WaitRule
from erasurehead.schemes.wait_rules._confirmed import Confirmed as confirmed
from erasurehead.schemes.wait_rules._deadline import Deadline as deadline
from erasurehead.schemes.wait_rules._lateness import Aged as aged, Arrivals as arrivals, Heard as heard
from erasurehead.schemes.wait_rules._residual import Decodable as decodable, ResidualBelow as residual_below
from erasurehead.schemes.wait_rules._worker_counts import First as first, Fraction as fraction


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

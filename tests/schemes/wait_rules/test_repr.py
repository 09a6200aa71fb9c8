"""How rules show themselves: as expressions that give them back."""

from __future__ import annotations

import pytest

from erasurehead import codes, schemes
from erasurehead.schemes import wait_rules
from erasurehead.schemes._asynchronous import Asynchronous


@pytest.mark.parametrize(
    "text",
    [
        "first(11)",
        "fraction(0.5)",
        "decodable()",
        "residual_below(0.25)",
        "deadline(0.5)",
        "confirmed(2)",
        "arrivals(3)",
        "aged(4)",
        "first(11) | decodable()",
        "(first(2) | decodable()) & deadline(1.5) & aged(3)",
        "first(2) & deadline(1.5) | decodable()",
    ],
)
def test_the_repr_of_a_rule_evaluates_to_it(text: str) -> None:
    rule = wait_rules.parse(text)
    assert eval(repr(rule), {"wait_rules": wait_rules}) == rule
    assert wait_rules.parse(str(rule)) == rule


def test_schemes_and_aggregations_show_themselves_without_internal_names() -> None:
    scheme = schemes.custom(codes.uncoded(3), "first(2) | decodable()")
    assert repr(scheme) == ("<Scheme uncoded: uncoded(n_workers=3, n_tasks=3), stop at first(2) | decodable(), Plain>")
    shown = repr(Asynchronous(adapt=False, greatest_age=3))
    assert shown == "Asynchronous(adapt=False, greatest_age=3)"
    assert repr(eval(shown, {"Asynchronous": Asynchronous})) == shown

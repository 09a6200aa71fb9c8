"""Schemes and step sizes as texts."""

from __future__ import annotations

import pytest

from erasurehead import schemes
from erasurehead.errors import InvalidArgument
from erasurehead.schemes import ByCoverage, parse_scheme
from erasurehead.schemes._aggregation import ByExpectation, Plain
from erasurehead.schemes._text import default_scheme, paper_schemes, parse_rate


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("uncoded", schemes.uncoded(6)),
        ("uncoded(n_tasks=12)", schemes.uncoded(6, 12)),
        ("ignore_stragglers(wait_for=4)", schemes.ignore_stragglers(6, 4)),
        ("exact(load=3)", schemes.exact(6, 3)),
        ("exact(load=3, code='cyclic', seed=4)", schemes.exact(6, 3, "cyclic", 4)),
        ("erasurehead(load=2, wait_for=3)", schemes.erasurehead(6, 2, 3)),
        ("erasurehead(2, 0.5, rescale='expectation')", schemes.erasurehead(6, 2, 3, "expectation")),
    ],
)
def test_a_text_stands_for_the_scheme_of_that_call(text: str, scheme: schemes.Scheme) -> None:
    parsed = parse_scheme(text, 6)
    assert str(parsed) == str(scheme)
    assert (parsed.code.encoding != scheme.code.encoding).nnz == 0
    assert type(parsed.aggregation) is type(scheme.aggregation)


def test_any_code_goes_with_any_rule() -> None:
    text = (
        "custom(code='fractional_repetition(load=2)', wait='first(4) | decodable()', rescale='coverage', name='mine')"
    )
    scheme = parse_scheme(text, 6)
    assert (scheme.name, scheme.code.name, str(scheme.rule)) == (
        "mine",
        "fractional_repetition",
        "first(4) | decodable()",
    )
    assert isinstance(scheme.aggregation, ByCoverage)
    assert isinstance(parse_scheme("custom('uncoded', 'first(3)')", 6).aggregation, Plain)


@pytest.mark.parametrize(
    ("text", "n_workers"),
    [
        ("cyclic_mds(3)", 6),
        ("cyclic_mds(stragglers=3, n_workers=6)", 6),
        ("projective_plane(2)", 7),
        ("refine(cyclic_mds(stragglers=3), n_tasks=12)", 6),
        ("kronecker(uncoded(n_workers=2), fractional_repetition(3, n_workers=3))", 6),
    ],
)
def test_every_code_of_the_catalogue_can_be_named(text: str, n_workers: int) -> None:
    scheme = parse_scheme(f"custom(code='{text}', wait='decodable()')", n_workers)
    assert scheme.code.n_workers == n_workers


def test_expectation_knows_how_many_are_waited_for() -> None:
    aggregation = parse_scheme("ignore_stragglers(wait_for=4, rescale='expectation')", 6).aggregation
    assert isinstance(aggregation, ByExpectation)
    assert aggregation.presence == pytest.approx([4 / 6] * 6)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("exact(load=7)", r"scheme 'exact\(load=7\)': load must be at most the number of tasks, 6, but it is 7"),
        ("erasurehead(load=3, wait_for=7)", "wait_for must be at most 6, but it is 7"),
        ("erasurehead(load=3, wait_for=0)", "wait_for must be at least 1, but it is 0"),
        ("custom('uncoded', 'first(0)')", r"first\(workers\) must be at least 1, but it is 0"),
        ("custom('uncoded', 'first(7)')", r"first\(workers\) must be at most the 6 workers"),
        ("custom('cyclic_repetition(stragglers=6)', 'decodable()')", "custom.*but it is 6"),
        ("custom('uncoded', 'first(3)', rescale='expectation')", "must be 'none' or 'coverage' in a custom scheme"),
        ("custom('nothing', 'first(3)')", "must be a code of the catalogue, but it is 'nothing'"),
        ("custom('cyclic_mds(straglers=2)', 'first(3)')", "must be written cyclic_mds.stragglers"),
        (
            "custom('projective_plane(2)', 'first(3)')",
            "must have the 6 workers of the run, got .* take 7 workers",
        ),
        ("magic(3)", r"scheme must use known names, got 'magic\(3\)'; 'magic' is unknown; known are adaptive"),
        ("exact", r"scheme must be written exact\(load, code=repetition"),
        ("__import__('os')", "scheme must use known names"),
        (
            "placed([[0], [0]], 1)",
            r"must be a scheme, not a code, but .*; write custom\(code='placed\(\[\[0\], \[0\]\], 1",
        ),
        ("compute_once(sums='no')", "scheme must give compute_once True or False for sums, got"),
        ("asynchronous(rescaled=3)", "scheme must give asynchronous True or False for rescaled, got"),
        ("cyclic_mds", r"not a code, .*; write custom\(code='cyclic_mds', wait='decodable\(\)'\) or another wait rule"),
        ("3 + 4", "scheme must not use +"),
        ("", "scheme must be calls"),
    ],
)
def test_a_text_that_stands_for_no_scheme_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        parse_scheme(text, 6)


@pytest.mark.parametrize("n_workers", [1, 2, 3, 4, 7, 30, 100])
def test_the_default_schemes_suit_any_number_of_workers(n_workers: int) -> None:
    for text in paper_schemes(n_workers):
        assert parse_scheme(text, n_workers).code.n_workers == n_workers


def test_the_default_schemes_are_the_papers_for_thirty_workers() -> None:
    assert default_scheme(30) == "erasurehead(load=3, wait_for=11)"
    assert paper_schemes(30) == ("uncoded()", "exact(load=3)", "erasurehead(load=3, wait_for=11)")


def test_step_sizes() -> None:
    assert repr(parse_rate(10)) == "Constant(rate=10.0)"
    assert repr(parse_rate("geometric(0.1, factor=0.99)")) == "Geometric(rate=0.1, factor=0.99)"
    assert repr(parse_rate("inverse_time(1.0, half_life=5)")) == "InverseTime(rate=1.0, half_life=5)"
    assert repr(parse_rate("10")) == "Constant(rate=10.0)"
    for wrong, said in [
        ("quick", "rate must use known names"),
        ("nan", "must be a positive finite number"),
        ("geometric(0.1, 2)", "factor must lie"),
        (-1.0, "rate must be"),
    ]:
        with pytest.raises(InvalidArgument, match=said):
            parse_rate(wrong)

"""The papers' schemes: what they wait for, and that rescaling makes them unbiased."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import codes, schemes
from erasurehead.codes import GradientCode
from erasurehead.decoding import make_decoder
from erasurehead.decoding._layout import Layout
from erasurehead.engines import Order
from erasurehead.errors import InvalidArgument
from erasurehead.schemes import ByCoverage, wait_rules
from erasurehead.schemes._aggregation import ByExpectation, ByPresence, Plain, presence_among_first, rescaling
from erasurehead.testing._problems import Quadratic
from erasurehead.training._programs import build_programs

from ..arrays import Array


@pytest.mark.parametrize(("n", "load", "first"), [(12, 2, 6), (12, 3, 5), (6, 2, 3), (7, 3, 4)])
def test_presence_is_lemma_2(n: int, load: int, first: int) -> None:
    code = codes.fractional_repetition(n, load)
    found = np.zeros(code.n_messages)
    draws = list(itertools.combinations(range(n), first))
    for alive in draws:
        present = set(code.groups[list(alive)].tolist())
        found += [group in present for group in code.groups]
    assert presence_among_first(code, first) == pytest.approx(found / len(draws))


def test_presence_at_the_vector_of_the_published_setting() -> None:
    # n = 30, c = 3, r = 15: a group is missing with probability .1120690 (SCHEMES 13).
    assert 1 - presence_among_first(codes.fractional_repetition(30, 3), 15)[0] == pytest.approx(0.1120690, abs=1e-7)


@pytest.mark.parametrize("rescale", ["expectation", "coverage"])
@pytest.mark.parametrize(("n", "load"), [(6, 2), (6, 1)])
def test_rescaled_estimates_are_unbiased_over_all_sets_of_stragglers(n: int, load: int, rescale: str) -> None:
    problem = Quadratic.random(13, 4, seed=1)
    x = np.ones(4)
    code = codes.fractional_repetition(n, load) if load > 1 else codes.uncoded(n)
    programs, layout = build_programs(code, problem)
    order = Order(0, (x,), round=0)
    vectors = []
    for program in programs:
        vectors.append(np.empty(program.message_specs[0].length))
        program.compute(program.message_specs[0], program.take(order), vectors[-1])
    aggregation = rescaling(rescale, code, 3)
    total, ignored = np.zeros(5), 0
    draws = list(itertools.combinations(range(n), 3))
    for alive in draws:
        decoded = make_decoder(code).decode(alive)
        estimate = aggregation.estimate(decoded, [vectors[m] for m in decoded.messages], layout, order)
        ignored += estimate is None
        total += estimate
    assert ignored == 0
    expected = np.append(problem.gradient(x), problem.loss(x))
    if rescale == "expectation" or load == 1:
        np.testing.assert_allclose(total / len(draws), expected, rtol=1e-12)
    else:  # given Y groups present each is present with probability Y / B, so that B / Y undoes it
        np.testing.assert_allclose(total / len(draws), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("code", "first"),
    [
        (codes.fractional_repetition(10, load=3), 3),
        (codes.fractional_repetition(11, load=3), 4),
        (codes.fractional_repetition(9, load=3, n_tasks=8), 4),  # groups of 3, 3 and 2 tasks
        (codes.fractional_repetition(12, load=3, sizes=[5, 4, 2, 1]), 5),
        (codes.uncoded(5, n_tasks=7), 3),
    ],
    ids=str,
)
def test_coverage_is_unbiased_for_unequal_groups_given_how_many_are_there(code: GradientCode, first: int) -> None:
    aggregation, decoder = rescaling("coverage", code, first), make_decoder(code)
    assert isinstance(aggregation, ByPresence)
    layout = Layout(code.n_tasks, [None] * code.n_messages)
    said, order = code.encoding.toarray(), Order(0, (np.zeros(1),))
    counted: dict[tuple[float, ...], list[Array]] = {}
    for alive in itertools.combinations(range(code.n_workers), first):
        decoding = decoder.decode(alive)
        estimate = aggregation.estimate(decoding, [said[message] for message in decoding.messages], layout, order)
        assert estimate is not None
        counted.setdefault(tuple(aggregation.presence[len(decoding.used)]), []).append(estimate)
    for times in counted.values():
        np.testing.assert_allclose(np.mean(times, axis=0), 1.0, rtol=1e-9)


def test_coverage_of_equal_groups_is_what_it_was_and_so_is_what_is_known_of_no_count() -> None:
    assert isinstance(schemes.erasurehead(30, 3, 11).aggregation, ByCoverage)
    assert isinstance(schemes.ignore_stragglers(7, 3).aggregation, ByCoverage)
    unequal = codes.fractional_repetition(10, load=3)
    assert isinstance(rescaling("coverage", unequal, None), ByCoverage)
    assert isinstance(rescaling("coverage", codes.build("cyclic_mds", n_workers=7, stragglers=2), 4), ByCoverage)
    assert isinstance(rescaling("coverage", codes.uncoded(4_001, n_tasks=4_002), 100), ByExpectation)
    assert isinstance(schemes.erasurehead(30, 3, 11).resized(29).aggregation, ByPresence)


@given(st.lists(st.integers(1, 4), min_size=2, max_size=4), st.data())
@settings(max_examples=25)
def test_presence_given_how_many_groups_are_there_is_counted(sizes: list[int], data: st.DataObject) -> None:
    first = data.draw(st.integers(1, sum(sizes)))
    code = codes.fractional_repetition(sum(sizes), load=2, n_tasks=2 * len(sizes), sizes=sizes)
    found = np.zeros((len(sizes) + 1, len(sizes)))
    draws = np.zeros(len(sizes) + 1)
    for alive in itertools.combinations(range(code.n_workers), first):
        present = np.unique(code.groups[list(alive)])
        found[len(present), present] += 1
        draws[len(present)] += 1
    every = int(np.argmax((np.cumsum(found, axis=0) > 0).all(axis=1)))  # so few that some cannot be there: together
    together = found[: every + 1].sum(axis=0) / draws[: every + 1].sum()
    for count in np.flatnonzero(draws).tolist():
        expected = together if count <= every else found[count] / draws[count]
        np.testing.assert_allclose(ByPresence(code, first).presence[count], expected, atol=1e-12)


def test_erasurehead_takes_workers_or_a_fraction() -> None:
    assert str(schemes.erasurehead(30, 3, 11).rule) == "first(11) | decodable()"
    assert str(schemes.erasurehead(30, 3, 11 / 30).rule) == "first(11) | decodable()"
    assert isinstance(schemes.erasurehead(30, 3, 11, rescale="expectation").aggregation, ByExpectation)


def test_what_the_other_schemes_wait_for() -> None:
    assert str(schemes.uncoded(4).rule) == "decodable()"
    assert str(schemes.ignore_stragglers(4, 3).rule) == "first(3) | decodable()"
    assert schemes.exact(12, 3).code.tolerance == 2
    assert schemes.exact(12, 3, code="cyclic").code.tolerance == 2


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: schemes.erasurehead(30, 3, 0), "wait_for must be at least 1, but it is 0"),
        (lambda: schemes.erasurehead(30, 3, 31), "wait_for must be at most 30, but it is 31"),
        (lambda: schemes.erasurehead(30, 3, 2.5), "wait_for must be a whole number, but it is 2.5"),
        (lambda: schemes.erasurehead(30, 3, 11, rescale="up"), "rescale must be one of 'none', 'expectation'"),
        (lambda: schemes.erasurehead(30, 31, 11), "load must be at most"),
        (lambda: schemes.adaptive("30"), "n_workers must be a whole number, but it is '30'"),
        (lambda: schemes.compute_once(None), "n_workers must be a whole number"),
        (lambda: schemes.nested([30]), r"n_workers must be a whole number, but it is \[30\]"),
        (lambda: schemes.uncoded(3, speeds=np.array(3.0)), "speeds must be one number for each of 3"),
        (lambda: schemes.parse_scheme(None, 30), "scheme must be a text; such as 'exact"),
        (lambda: schemes.exact(30, 3, code="magic"), "code must be 'repetition' or 'cyclic', but it is 'magic'"),
        (lambda: schemes.ignore_stragglers(4, 5), "wait_for must be at most 4, but it is 5"),
        (lambda: schemes.custom(codes.uncoded(4), "first(5)"), "must be at most the 4 workers"),
        (lambda: schemes.custom(codes.uncoded(4), "firs(5)"), "Known are first"),
        (lambda: schemes.custom(codes.uncoded(4), None), "rule must be a wait rule, or the text of one; such as"),
        (
            lambda: schemes.custom(codes.uncoded(4), "first(2)", ByCoverage),
            "aggregation must be an aggregation, or None",
        ),
        (
            lambda: schemes.custom(
                codes.fractional_repetition(4, 2), "first(2)", decoder=make_decoder(codes.uncoded(4))
            ),
            "decoder must be one of this code",
        ),
        (lambda: rescaling("expectation", codes.cyclic_repetition(6, 2), 3), "whose groups are not replicas"),
        (
            lambda: schemes.Scheme("s", make_decoder(codes.uncoded(2)), {"other": wait_rules.decodable()}, Plain()),
            "rules must have a wait rule for orders of kind 'gradient'",
        ),
    ],
)
def test_bad_values_are_refused_in_a_sentence(make: object, sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        make()  # type: ignore[operator]


@pytest.mark.parametrize(
    "scheme",
    [
        schemes.uncoded(6),
        schemes.erasurehead(6, load=2, wait_for=3),
        schemes.exact(6, load=3, code="cyclic"),
        schemes.ignore_stragglers(6, wait_for=4),
        schemes.adaptive(6),
        schemes.asynchronous(6),
        schemes.custom(codes.fractional_repetition(6, load=2), "deadline(0.5) & first(2) | decodable()"),
    ],
    ids=lambda scheme: scheme.name,
)
def test_a_scheme_can_be_pickled_and_resized_afterwards(scheme: schemes.Scheme) -> None:
    again = pickle.loads(pickle.dumps(scheme))
    assert str(again) == str(scheme)
    assert str(again.resized(5)) == str(scheme.resized(5))
    assert again.resized(5).resized(6).code.n_workers == 6

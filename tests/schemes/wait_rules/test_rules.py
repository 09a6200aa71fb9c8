"""What every wait rule must do, one arrival at a time and over whole rounds at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import codes
from erasurehead.codes import GradientCode, cyclic_repetition, fractional_repetition
from erasurehead.decoding import Decoder, make_decoder
from erasurehead.errors import InvalidArgument
from erasurehead.schemes import wait_rules
from erasurehead.schemes.wait_rules import (
    Verdict,
    View,
    WaitRule,
    _base,
    _confirmed,
    _deadline,
    _residual,
    _worker_counts,
)

from ...arrays import Array


def two_message_code() -> GradientCode:
    """Three workers; each sends its own task alone, then the sum of its own and the next one's."""
    encoding = np.zeros((6, 3))
    for worker in range(3):
        encoding[2 * worker, worker] = 1.0
        encoding[2 * worker + 1, [worker, (worker + 1) % 3]] = 1.0
    return GradientCode(
        name="two", parameters={}, encoding=encoding, owner=np.repeat(np.arange(3), 2), n_workers=3, n_tasks=3
    )  # pyright: ignore


REPETITION = make_decoder(fractional_repetition(12, 3))
CYCLIC = make_decoder(cyclic_repetition(8, 2))
TWO = make_decoder(two_message_code())
DECODERS = {"repetition": REPETITION, "cyclic": CYCLIC, "two": TWO}


def walk(rule: WaitRule, times: Array, decoder: Decoder) -> float:
    """Apply a rule one event at a time, as the training loop does: the meaning that `stop_times` must agree with."""
    view = View(decoder)
    order = [int(message) for message in np.argsort(times, kind="stable") if np.isfinite(times[message])]
    while True:
        if rule.verdict(view) is Verdict.STOP:
            return view.elapsed
        wake = rule.wake(view)
        assert wake is None or wake > view.elapsed
        if wake is not None and (not order or wake < times[order[0]]):
            view.elapsed = wake
        elif order:
            view.elapsed = float(times[order[0]])
            view.add(order.pop(0))
        else:
            return np.inf


RULES = st.recursive(
    st.one_of(
        st.integers(1, 3).map(wait_rules.first),
        st.sampled_from([0.2, 0.5, 1.0]).map(_worker_counts.Fraction),
        st.just(wait_rules.decodable()),
        st.sampled_from([0.0, 0.5, 1.0, 2.0]).map(_residual.ResidualBelow),
        st.sampled_from([0.3, 1.5]).map(_deadline.Deadline),
        st.integers(1, 4).map(_confirmed.Confirmed),
    ),
    lambda inner: st.builds(lambda a, b, both: a & b if both else a | b, inner, inner, st.booleans()),
    max_leaves=4,
)


@given(rule=RULES, name=st.sampled_from(sorted(DECODERS)), seed=st.integers(0, 10_000), lost=st.floats(0.0, 0.6))
def test_stop_times_are_what_the_rule_does_one_arrival_at_a_time(
    rule: WaitRule, name: str, seed: int, lost: float
) -> None:
    decoder = DECODERS[name]
    rng = np.random.default_rng(seed)
    times = rng.exponential(size=(4, decoder.code.n_messages))
    times[rng.random(times.shape) < lost] = np.inf
    expected = [walk(rule, row, decoder) for row in times]
    np.testing.assert_allclose(rule.stop_times(times, decoder), expected, rtol=0, atol=2e-6)


OF_SHARES = {
    "one beyond what is tolerated is as good, half of the time": make_decoder(cyclic_repetition(30, 1)),
    "shifts of one row": make_decoder(codes.build("cyclic_mds", n_workers=20, stragglers=5)),
    "complex rows": make_decoder(codes.build("complex_cyclic_mds", n_workers=15, stragglers=3)),
    "nothing is promised": make_decoder(codes.build("bernoulli", n_workers=12, load=4, seed=1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_SHARES)
@given(
    rule=st.one_of(st.just(wait_rules.decodable()), st.floats(0.0, 4.0).map(_residual.ResidualBelow)),
    seed=st.integers(0, 10_000),
    lost=st.sampled_from([0.0, 0.1, 0.3]),
    clock=st.sampled_from([0.0, 0.25]),
)
@settings(max_examples=25)
def test_rounds_judged_together_stop_when_each_does_alone(
    name: str, rule: WaitRule, seed: int, lost: float, clock: float
) -> None:
    """Of codes that are not made of replicas, with messages that arrive at one moment of a coarse clock."""
    decoder = OF_SHARES[name]
    rng = np.random.default_rng(seed)
    times = rng.exponential(size=(6, decoder.code.n_messages))
    times = np.ceil(times / clock) * clock if clock else times
    times[rng.random(times.shape) < lost] = np.inf
    assert rule.stop_times(times, decoder).tolist() == [walk(rule, row, decoder) for row in times]


@given(rule=RULES)
def test_a_rule_is_read_back_from_what_it_prints(rule: WaitRule) -> None:
    assert wait_rules.parse(str(rule)) == rule


@given(
    rule=RULES,
    name=st.sampled_from(sorted(DECODERS)),
    seed=st.integers(0, 10_000),
    n_dead=st.integers(0, 3),
    n_arrived=st.integers(0, 8),
)
def test_never_means_that_even_all_who_can_still_answer_do_not_suffice(
    rule: WaitRule, name: str, seed: int, n_dead: int, n_arrived: int
) -> None:
    decoder = DECODERS[name]
    rng = np.random.default_rng(seed)
    messages = rng.permutation(decoder.code.n_messages)[:n_arrived]
    view, future = View(decoder), View(decoder)
    for message in messages:
        view.add(int(message))
        future.add(int(message))
    for worker in rng.permutation(decoder.code.n_workers)[:n_dead]:
        view.lose(int(worker))
        future.lose(int(worker))
    for message in view.pending:
        future.add(int(message))
    future.elapsed = 1e9
    met_in_the_end = rule.verdict(future) is Verdict.STOP
    if n_dead:
        assert (rule.verdict(view) is Verdict.UNREACHABLE) == (not met_in_the_end)


class TestNoRuleWaitsForTheDead:
    def test_first_counts_what_the_dead_have_sent(self) -> None:
        view = View(REPETITION)
        view.add(0)
        view.lose(0)
        assert wait_rules.first(12).verdict(view) is Verdict.WAIT
        view.lose(1)
        assert wait_rules.first(12).verdict(view) is Verdict.UNREACHABLE
        assert wait_rules.first(11).verdict(view) is Verdict.WAIT

    def test_decodable_gives_up_with_the_last_replica(self) -> None:
        view = View(REPETITION)
        for worker in (0, 1):
            view.lose(worker)
        assert wait_rules.decodable().verdict(view) is Verdict.WAIT
        view.lose(2)
        assert wait_rules.decodable().verdict(view) is Verdict.UNREACHABLE
        assert _residual.ResidualBelow(3).verdict(view) is Verdict.WAIT
        assert (wait_rules.decodable() | wait_rules.first(9)).verdict(view) is Verdict.WAIT
        assert (wait_rules.decodable() & wait_rules.first(1)).verdict(view) is Verdict.UNREACHABLE

    def test_a_replacement_is_waited_for(self) -> None:
        view = View(REPETITION)
        view.lose(0)
        assert wait_rules.first(12).verdict(view) is Verdict.UNREACHABLE
        view.regain(0)
        assert wait_rules.first(12).verdict(view) is Verdict.WAIT

    def test_refused_messages_are_erasures(self) -> None:
        view = View(REPETITION)
        for message in (0, 1, 3, 6, 9):
            view.add(message)
        assert wait_rules.decodable().verdict(view) is Verdict.STOP
        view.refuse([3])
        assert view.arrived == [0, 1, 6, 9]
        assert view.finished == 4
        assert wait_rules.decodable().verdict(view) is Verdict.WAIT
        view.refuse([4, 5])
        assert wait_rules.decodable().verdict(view) is Verdict.UNREACHABLE
        assert wait_rules.first(9).verdict(view) is Verdict.WAIT
        assert wait_rules.first(10).verdict(view) is Verdict.UNREACHABLE


def test_a_message_that_comes_twice_counts_once() -> None:
    view = View(TWO)
    view.add(0)
    view.add(0)
    assert view.finished == 0
    view.add(1)
    assert view.finished == 1


def test_a_worker_with_nothing_to_send_is_not_counted() -> None:
    code = GradientCode(name="idle", parameters={}, encoding=np.eye(2), owner=np.array([0, 2]), n_workers=3, n_tasks=2)  # pyright: ignore
    decoder = make_decoder(code)
    assert wait_rules.first(1).verdict(View(decoder)) is Verdict.WAIT
    assert wait_rules.first(2).stop_times(np.array([[1.0, 2.0]]), decoder).tolist() == [2.0]
    with pytest.raises(InvalidArgument, match="at most the 2 workers"):
        wait_rules.first(3).check(decoder)


def test_confirmed_asks_for_copies_of_what_has_arrived_and_of_nothing_else() -> None:
    view, rule = View(REPETITION), _confirmed.Confirmed(2)
    assert rule.verdict(view) is Verdict.WAIT
    view.add(0)
    assert rule.verdict(view) is Verdict.WAIT
    view.add(2)
    assert rule.verdict(view) is Verdict.STOP
    view.add(3)  # another content
    assert rule.verdict(view) is Verdict.WAIT
    view.lose(4)
    assert rule.verdict(view) is Verdict.WAIT
    view.lose(5)  # the last one who could confirm it
    assert rule.verdict(view) is Verdict.STOP
    assert _confirmed.Confirmed(3).verdict(view) is Verdict.WAIT
    joined = wait_rules.first(3) & rule
    times = np.array([[1.0, 9.0, 2.0, 3.0, 5.0, 9.0, 4.0, 6.0, 9.0, 9.0, 9.0, 9.0]])
    assert joined.stop_times(times, REPETITION).tolist() == [6.0]  # two contents are unconfirmed at 3 s, one at 5 s
    assert rule.stop_times(times, REPETITION).tolist() == [2.0]


def test_a_worker_confirms_nothing_that_it_said_itself() -> None:
    code = GradientCode(
        name="same", parameters={}, encoding=np.ones((3, 1)), owner=np.array([0, 0, 1]), n_workers=2, n_tasks=1
    )  # pyright: ignore
    decoder = make_decoder(code)
    view = View(decoder)
    view.add(0)
    view.add(1)
    assert _confirmed.Confirmed(2).verdict(view) is Verdict.WAIT
    assert _confirmed.Confirmed(2).stop_times(np.array([[1.0, 2.0, 3.0]]), decoder).tolist() == [3.0]


def test_a_deadline_stops_with_nothing_arrived() -> None:
    view = View(REPETITION)
    rule = _deadline.Deadline(0.5)
    assert rule.verdict(view) is Verdict.WAIT
    assert rule.wake(view) == 0.5
    view.elapsed = 0.5 - 1e-16
    assert rule.verdict(view) is Verdict.STOP
    assert rule.wake(view) is None


def test_fraction_rounds_up_but_not_over_its_own_rounding_error() -> None:
    assert [_worker_counts.Fraction(share).workers(REPETITION.code) for share in (0.01, 0.5, 0.51, 1.0)] == [
        1,
        6,
        7,
        12,
    ]
    hundred = make_decoder(fractional_repetition(100, 1)).code
    assert _worker_counts.Fraction(0.07).workers(hundred) == 7


class TestErrors:
    @pytest.mark.parametrize(
        ("make", "said"),
        [
            (lambda: wait_rules.first(0), "at least 1"),
            (lambda: wait_rules.first(13).check(REPETITION), r"first\(12\) waits for all"),
            (lambda: _worker_counts.Fraction(0.0), "greater than 0"),
            (lambda: _worker_counts.Fraction(1.5), "at most 1"),
            (lambda: _deadline.Deadline(float("inf")), "finite"),
            (lambda: _deadline.Deadline(-1.0), "greater than 0"),
            (lambda: _residual.ResidualBelow(-1.0), "at least 0"),
            (lambda: _confirmed.Confirmed(0), "at least 1"),
            (lambda: _confirmed.Confirmed(4).check(REPETITION), "at most 3, as no more messages"),
            (lambda: (wait_rules.first(3) & _confirmed.Confirmed(2)).check(CYCLIC), "at most 1, as no more messages"),
            (lambda: _residual.ResidualBelow(12).check(REPETITION), "number of tasks, 12"),
            (lambda: (wait_rules.first(13) | wait_rules.decodable()).check(REPETITION), "at most the 12"),
        ],
    )
    def test_each_names_its_rule(self, make: object, said: str) -> None:
        with pytest.raises(InvalidArgument, match=said):
            make()  # pyright: ignore

    def test_a_code_that_never_decodes_is_refused_unless_another_rule_helps(self) -> None:
        encoding = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
        code = GradientCode(name="holes", parameters={}, encoding=encoding, owner=np.arange(2), n_workers=2, n_tasks=3)  # pyright: ignore
        decoder = make_decoder(code)
        with pytest.raises(InvalidArgument, match="all messages of holes"):
            wait_rules.decodable().check(decoder)
        with pytest.raises(InvalidArgument, match=r"residual_below\(0.5\) asks for less than 1"):
            _residual.ResidualBelow(0.5).check(decoder)
        _residual.ResidualBelow(1).check(decoder)
        (wait_rules.decodable() | wait_rules.first(2)).check(decoder)
        with pytest.raises(InvalidArgument, match="decodable"):
            (wait_rules.decodable() & wait_rules.first(2)).check(decoder)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("", "calls joined by operators"),
            ("first(", "close its bracket"),
            ("first", r"must be written as a call, first\(workers\)"),
            ("last(3)", "must use known names.*known are first"),
            ("first()", "missing a required argument: 'workers'"),
            ("first(r=3)", "must be written first"),
            ("first(3) + decodable()", r"must not use \+"),
            ("first(3) | 4", r"both sides of \|"),
            ("__import__('os')", "must use known names"),
            ("first(3).check", "must not contain"),
            ("first('a')", "right types|whole number"),
            ("3", "must be a call"),
        ],
    )
    def test_a_text_that_is_no_rule_lists_the_rules(self, text: str, said: str) -> None:
        with pytest.raises(InvalidArgument, match=said) as caught:
            wait_rules.parse(text)
        assert "wait" in str(caught.value) or "first" in str(caught.value)


def test_and_binds_tighter_than_or_and_brackets_are_kept() -> None:
    rule = wait_rules.parse("first(3) | decodable() & deadline(2.0)")
    assert rule == wait_rules.first(3) | (wait_rules.decodable() & _deadline.Deadline(2.0))
    assert (
        str(wait_rules.parse("(first(3) | decodable()) & deadline(2.0)")) == "(first(3) | decodable()) & deadline(2.0)"
    )


def test_joined_rules_are_flat_and_hold_each_rule_once() -> None:
    rule = (wait_rules.first(3) | wait_rules.decodable()) | (wait_rules.first(3) | _deadline.Deadline(1.0))
    assert isinstance(rule, _base.AnyOf)
    assert len(rule.rules) == 3

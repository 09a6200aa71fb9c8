"""The rule of orders that few arrivals answer: how many they ask for, and when a probe finds that few are worth it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead import codes
from erasurehead.decoding import make_decoder
from erasurehead.errors import InvalidArgument
from erasurehead.schemes import wait_rules
from erasurehead.schemes.wait_rules import Verdict, View, _early
from erasurehead.schemes.wait_rules._view import LateArrival

from ...arrays import Array

WORKERS, LOAD = 30, 3
CODE = codes.fractional_repetition(WORKERS, LOAD)


def waited(times: Array, rule: wait_rules.WaitRule | None = None, step: int = 0, **note: Any) -> tuple[float, int]:
    """Return when a round stops that is asked at every arrival, and whenever the rule wants to be; and who is in."""
    rule, view = rule or _early.Early(), View(make_decoder(CODE), step, note=note)
    for message in np.argsort(times):
        while (wake := rule.wake(view)) is not None and wake < times[message]:
            view.elapsed = wake
            if rule.verdict(view) is Verdict.STOP:
                return view.elapsed, len(view.arrived)
        view.elapsed = float(times[message])
        view.add(int(message))
        if rule.verdict(view) is Verdict.STOP:
            break
    return view.elapsed, len(view.arrived)


def whole(times: Array) -> float:
    return float(times.reshape(-1, LOAD).min(axis=1).max())


@given(st.integers(0, 2**31), st.integers(1, 12))
def test_it_stops_after_as_many_as_are_asked_for_or_once_they_are_all_data(seed: int, arrivals: int) -> None:
    times = np.random.default_rng(seed).exponential(0.5, WORKERS)
    stop, _ = waited(times, arrivals=arrivals)
    assert stop == min(np.sort(times)[arrivals - 1], whole(times))


@given(st.integers(0, 2**31), st.floats(0.0, 0.02))
def test_a_probe_of_workers_that_are_alike_waits_for_all_data(seed: int, noise: float) -> None:
    times = 0.1 + np.random.default_rng(seed).exponential(noise, WORKERS)
    assert waited(times, arrivals=1, probing=True)[0] == whole(times)


@pytest.mark.parametrize(("last", "looks"), [(True, 4.0), (False, 2.0)])
def test_a_probe_of_exponential_delays_mostly_ends_soon_after_the_first(last: bool, looks: float) -> None:
    soon, total = 0, 0.0
    for seed in range(200):
        times = np.random.default_rng(seed).exponential(0.5, WORKERS)
        stop, _ = waited(times, arrivals=1, probing=True, while_it_pays=not last)
        assert stop >= min(looks * times.min(), whole(times))
        soon += stop < whole(times)
        total += stop / whole(times)
    assert soon >= 140
    assert total / 200 < 0.5


def test_what_takes_less_than_steps_cost_is_waited_for() -> None:
    """Workers that are woken one after the other: one at once, by chance, and the last after 20 ms."""
    times = np.linspace(1e-4, 0.02, WORKERS)
    assert waited(times, arrivals=1, probing=True)[0] == whole(times)
    times[:LOAD] = 100.0
    assert waited(times, arrivals=1, probing=True)[0] <= 0.1


def test_a_group_that_does_not_answer_is_given_up_where_all_others_did_at_once() -> None:
    times = np.full(WORKERS, 0.1) + 1e-3 * np.arange(WORKERS)
    times[:LOAD] = 100.0
    stop, came = waited(times, arrivals=1, probing=True)
    assert stop == pytest.approx(8.0 * times.min())
    assert came == WORKERS - LOAD


def test_workers_that_are_gone_are_not_waited_for() -> None:
    view = View(make_decoder(CODE), able=[0, 5], note={"arrivals": 4})
    rule = _early.Early()
    assert rule.verdict(view) is Verdict.UNREACHABLE  # whatever comes is never all of the data
    view = View(make_decoder(CODE), able=range(0, WORKERS, LOAD), note={"arrivals": 20})
    for message in range(0, WORKERS, LOAD):
        assert rule.verdict(view) is Verdict.WAIT
        view.add(message)
    assert rule.verdict(view) is Verdict.STOP


@pytest.mark.parametrize("wanted", [True, False])
def test_late_answers_count_where_they_are_wanted(wanted: bool) -> None:
    rule, view = _early.Early(), View(make_decoder(CODE), step=5, note={"arrivals": 2, "late_parts": wanted})
    view.late.append(LateArrival(0, 3, 3, 2))
    assert rule.verdict(view) is Verdict.WAIT
    view.late.append(LateArrival(LOAD, 4, 4, 1))
    assert rule.verdict(view) is (Verdict.STOP if wanted else Verdict.WAIT)
    view.add(0)
    view.add(LOAD)
    assert rule.verdict(view) is Verdict.STOP


def test_with_a_message_per_task_each_message_is_an_arrival() -> None:
    code = codes.build("multi_message", n_workers=6, load=2)
    rule, view = _early.Early(), View(make_decoder(code), note={"arrivals": 3})
    for message in (0, 2):  # the first messages of two workers
        view.add(message)
        assert rule.verdict(view) is Verdict.WAIT
    view.add(1)
    assert rule.verdict(view) is Verdict.STOP
    times = np.array([[0.3, 0.9, 0.2, 0.5, 0.4, 0.8, 0.6, 0.7, 1.0, 1.1, 1.2, 1.3]])
    assert rule.stop_times(times, make_decoder(code)).tolist() == [0.2]
    view = View(make_decoder(code), able=[0, 1], note={"arrivals": 9})  # nobody holds tasks 3 to 5 any more
    assert view.pending.tolist() == [0, 1, 2, 3]


def test_a_probe_expects_workers_to_send_their_messages_one_after_the_other() -> None:
    """Each worker has three messages: after the first of all, thirty are at risk, and not ninety."""
    soon = 0
    for seed in range(100):
        times = np.random.default_rng(seed).exponential(0.5, (WORKERS, LOAD)).cumsum(axis=1).ravel()
        code = codes.build("multi_message", WORKERS, LOAD)
        rule, view = _early.Early(), View(make_decoder(code), note={"arrivals": 1, "probing": True})
        for message in np.argsort(times):
            if (wake := rule.wake(view)) is not None and wake < times[message]:
                view.elapsed = wake
                if rule.verdict(view) is Verdict.STOP:
                    break
            view.elapsed = float(times[message])
            view.add(int(message))
            if rule.verdict(view) is Verdict.STOP:
                break
        soon += view.elapsed < 0.5
    assert soon > 70


def test_codes_whose_groups_are_no_replicas_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="equal messages"):
        _early.Early().check(make_decoder(codes.build("cyclic_mds", n_workers=7, stragglers=2)))


def test_later_arrivals_that_take_longer_than_was_to_be_expected_end_it() -> None:
    """The first of the probe was there at once, by chance; after three orders that took as long as all, it is known."""
    times = 1.0 + 0.05 * np.arange(WORKERS)
    rule = _early.Early().begin()

    def round_of(step: int, came: Array, **note: Any) -> int:
        return waited(came, rule, step, **note)[1]

    lucky = times.copy()
    lucky[0] = 1e-2
    assert round_of(0, lucky, arrivals=1, probing=True) < WORKERS - LOAD
    assert [round_of(step, times, arrivals=1) for step in (1, 2, 3)] == [1, 1, 1]
    again = _early.Early().begin()
    again.restore(rule.state())
    assert round_of(4, times, arrivals=1) == WORKERS - LOAD + 1
    rule = again
    assert round_of(4, times, arrivals=1) == WORKERS - LOAD + 1
    rule = _early.Early().begin()  # of another run
    assert round_of(4, times, arrivals=1) == 1


def test_a_probe_that_expected_too_little_is_corrected_without_waiting_for_all_data() -> None:
    """Half of the workers answered the first order at once. Then one answer takes 0.2 s, and all take 5 s."""
    rule = _early.Early().begin()
    lucky, slow = np.full(WORKERS, 9.0), np.linspace(0.2, 5.0, WORKERS)
    lucky[:15] = 0.04 + 0.002 * np.arange(15)
    assert waited(lucky, rule, 0, arrivals=1, probing=True)[0] < 1.0
    for step in (1, 2, 3):
        assert waited(slow, rule, step, arrivals=1) == (0.2, 1)
    stop, came = waited(slow, rule, 4, arrivals=1)
    assert 0.4 <= stop <= 0.8  # it looks again, for at most four times as long as an answer takes
    assert came > 1
    for step in range(5, 12):
        assert waited(slow, rule, step, arrivals=1) == (0.2, 1)

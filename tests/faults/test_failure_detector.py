"""Hung is not slow: false alarms are as rare as promised, and a worker that hangs is found."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead import delays
from erasurehead.delays import Delays, Trace
from erasurehead.errors import InvalidArgument
from erasurehead.faults import FailureDetector
from erasurehead.faults._failure_detector import Law
from erasurehead.faults._failure_detector.window import Window

from ..arrays import Array

with pytest.MonkeyPatch.context() as _patch:
    _patch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    simulate_rounds = importlib.import_module("simulated_rounds").simulate_rounds

Late = Literal["preempt", "carry"]


LAWS: dict[str, Delays] = {
    "exponential": delays.Exponential(0.5, seed=1),
    "shifted": delays.ShiftedExponential(1.0, 0.5, seed=1),
    "regular": delays.parse("weibull(1.0, 3.0, seed=1)"),
}
HEAVY: dict[str, Delays] = {
    "stretched": delays.parse("weibull(0.5, 0.7, seed=1)"),
    "lognormal": delays.parse("lognormal(0.5, 1.0, seed=1)"),
    "pareto": delays.parse("pareto(0.2, 3.0, seed=1)"),
    "pareto without variance": delays.parse("pareto(0.2, 1.5, seed=1)"),
}
WAYS: list[tuple[Late, int | None]] = [("preempt", None), ("preempt", 11), ("carry", None), ("carry", 11)]


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(("late", "first"), WAYS)
def test_false_alarms_are_no_more_likely_than_promised(name: str, late: Late, first: int | None) -> None:
    detector = FailureDetector(floor=0.0, chance=2e-3, late=late)
    assert (
        simulate_rounds(LAWS[name].rows(0, 500, 30), detector, first).rate <= 1.3 * 2e-3
    )  # 30 are expected, give or take 5.5


@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_an_order_for_more_work_may_take_so_many_times_as_long(late: Late) -> None:
    detector = FailureDetector(floor=0.0, late=late)
    now = 0.0
    for row in LAWS["regular"].rows(0, 60, 6):
        for worker, seconds in enumerate(row):
            detector.ordered(worker, now)
            detector.heard(worker, now + seconds)
        now += 10.0
    usual = detector.usual()
    assert usual is not None
    for worker in range(6):
        detector.ordered(worker, now, times=20.0)
    assert detector.check(now + 19.0 * usual) == []
    assert detector.deadline(0) == pytest.approx(20.0 * usual, rel=0.2)  # as fast as it has been itself
    assert f"less than {20.0 * usual:.3g} s" in (detector.check(now + 25.0 * usual) and detector.suspects[0])
    for worker in range(6):
        detector.heard(worker, now + 26.0 * usual)
        detector.ordered(worker, now + 30.0 * usual)
    assert detector.check(now + 36.0 * usual) == [0, 1, 2, 3, 4, 5]  # which waits for gradients no longer than before


@pytest.mark.slow
@pytest.mark.parametrize("name", HEAVY)
@pytest.mark.parametrize(("late", "first"), WAYS)
def test_heavy_tails_give_at_most_three_times_as_many(name: str, late: Late, first: int | None) -> None:
    detector = FailureDetector(floor=0.0, chance=2e-3, late=late)
    assert simulate_rounds(HEAVY[name].rows(0, 500, 30), detector, first).rate <= 3.0 * 2e-3


@pytest.mark.slow
@pytest.mark.parametrize(("late", "first", "workers"), [("preempt", None, 6), ("carry", 3, 6), ("carry", 40, 100)])
def test_few_answers_make_no_false_alarms(late: Late, first: int | None, workers: int) -> None:
    runs_of = 12 if workers == 100 else 50
    rows = LAWS["exponential"].rows(0, 30 * runs_of, workers).reshape(runs_of, 30, workers)
    runs = [simulate_rounds(run, FailureDetector(floor=0.0, chance=1e-2, late=late), first) for run in rows]
    assert np.mean([run.rate for run in runs]) <= 1e-2


@pytest.mark.parametrize("name", [*LAWS, *HEAVY])
@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_a_worker_that_hangs_is_found_by_the_deadline_for_it(name: str, late: Late) -> None:
    rows = {**LAWS, **HEAVY}[name].rows(0, 61, 30)
    detector = FailureDetector(floor=0.0, late=late)
    simulate_rounds(rows[:60], detector)
    detector.ordered(7, now := 1000.0)
    deadline = detector.deadline(7)
    assert deadline is not None
    assert deadline >= (detector.usual() or math.inf)  # longer only if its answers took longer than others'
    assert detector.check(now + 0.999 * deadline) == []
    assert detector.next_check() <= now + deadline + 1e-6
    assert detector.check(now + deadline) == [7]
    assert detector.check(now + 2.0 * deadline) == []  # said once
    assert detector.next_check() == math.inf


@pytest.mark.parametrize(("late", "rounds"), [("preempt", 45), ("carry", 45)])
def test_silence_is_added_up_over_rounds_that_are_shorter_than_the_deadline(late: Late, rounds: int) -> None:
    played = simulate_rounds(
        LAWS["exponential"].rows(0, 300, 30), FailureDetector(floor=0.0, late=late), 11, hung={3: 200}
    )
    assert list(played.detected) == [3]
    usual = played.detector.usual()
    assert usual is not None
    assert 0.9 * usual <= played.detected[3] <= 3.0 * usual
    assert "over" in played.detector.suspects[3] or late == "carry"
    assert played.detector.suspects.keys() == {3}
    assert played.rounds - 200 > rounds


def test_ten_of_thirty_that_hang_at_once_are_found() -> None:
    hung = dict.fromkeys(range(10), 100)
    played = simulate_rounds(LAWS["exponential"].rows(0, 300, 30), FailureDetector(), 11, hung)
    assert sorted(played.detected) == list(range(10))


def test_one_that_hangs_from_the_first_order_on_is_found() -> None:
    for late in ("preempt", "carry"):
        played = simulate_rounds(LAWS["shifted"].rows(0, 60, 30), FailureDetector(late=late), hung={3: 0})
        assert list(played.detected) == [3]
        assert not played.alarms


@pytest.mark.parametrize(("late", "first"), WAYS)
def test_a_worker_three_times_as_slow_is_taken_for_slow(late: Late, first: int | None) -> None:
    rows = LAWS["exponential"].rows(0, 500, 30)
    rows[:, 3] *= 3.0
    played = simulate_rounds(rows, FailureDetector(floor=0.0, chance=1e-3, late=late), first)
    assert sum(worker == 3 for _, worker in played.alarms) <= 0.02 * 500
    assert played.rate <= 1.3e-3


class TestBookKeeping:
    def taught(self, **settings: float) -> FailureDetector:
        """One that has seen 40 answers of 1.0 to 1.4 s from four workers."""
        detector = FailureDetector(**settings)  # pyright: ignore
        for number in range(10):
            for worker in range(4):
                detector.ordered(worker, 10.0 * number)
            for worker in range(4):
                detector.heard(worker, 10.0 * number + 1.0 + 0.01 * number + 0.1 * worker)
        return detector

    def test_the_fewer_answers_have_been_seen_the_longer_a_silence_is_allowed(self) -> None:
        detector = FailureDetector()
        for worker in range(31):
            detector.ordered(worker, 0.0)
        assert detector.deadline(30) is None
        assert detector.check(1e6) == []
        allowed = list[float]()
        for worker in range(30):
            detector.heard(worker, 1.0)
            if worker in (3, 15, 29):
                allowed.append(detector.deadline(30) or math.inf)
        assert allowed == sorted(allowed, reverse=True)
        assert allowed[0] > 100.0
        assert allowed[-1] < 3.0

    def test_a_worker_that_hangs_in_the_first_step_is_suspected(self) -> None:
        detector = FailureDetector()
        for worker in range(4):
            detector.ordered(worker, 0.0)
        for worker in range(3):
            detector.heard(worker, 0.1)
        assert detector.check(5.0) == []
        assert detector.check(100.0) == [3]

    def test_who_has_nothing_to_answer_is_not_silent(self) -> None:
        detector = self.taught()
        assert detector.deadline(0) is None
        assert detector.next_check() == math.inf
        assert detector.check(1e9) == []

    def test_a_suspect_that_answers_is_cleared(self) -> None:
        detector = self.taught()
        detector.ordered(2, 100.0)
        assert detector.check(110.0) == [2]
        assert detector.suspects[2].startswith("worker 2 is suspected to hang: silent for 10 s; an answer takes less ")
        assert detector.suspects[2].endswith(" s in 9,999 of 10,000 cases (by 40 arrivals)")
        assert detector.heard(2, 112.5) == "worker 2 does not hang: it answered after 12.5 s"
        assert detector.suspects == {}
        detector.ordered(2, 120.0)
        assert detector.heard(2, 121.0) == ""

    def test_a_fixed_time_needs_no_answers_and_knows_no_floor(self) -> None:
        detector = FailureDetector(after=0.5, floor=10.0)
        detector.ordered(0, 0.0)
        assert detector.deadline(0) == 0.5
        assert detector.next_check() == 0.5
        detector.ordered(0, 0.3)
        assert detector.deadline(0) == pytest.approx(0.2)
        assert detector.check(0.5) == [0]
        assert detector.suspects[0] == (
            "worker 0 is suspected to hang: silent for 0.5 s, over 2 orders; 0.5 s were allowed"
        )

    def test_never_below_the_floor(self) -> None:
        detector = self.taught(floor=60.0)
        detector.ordered(1, 100.0)
        assert detector.deadline(1) == 60.0
        assert detector.check(159.9) == []
        assert detector.check(160.0) == [1]

    def test_more_messages_to_come_are_waited_for_from_the_last_one(self) -> None:
        detector = self.taught()
        detector.ordered(0, 100.0)
        detector.heard(0, 101.0, done=False)
        deadline = detector.deadline(0)
        assert deadline is not None
        assert detector.check(101.0 + 0.99 * deadline) == []
        assert detector.check(101.0 + deadline) == [0]

    def test_an_answer_to_an_older_order_counts_from_when_it_was_begun(self) -> None:
        detector = self.taught()
        for worker in range(4):
            detector.ordered(worker, 200.0)
            detector.ordered(worker, 205.0)
            detector.heard(worker, 206.0, began=200.0, done=False)
        window = detector.state()["window"]
        assert isinstance(window, Mapping)
        assert np.asarray(window["samples"])[-1].tolist() == [6.0, 0.0, 3.0]

    def test_who_failed_left_or_was_let_go_is_not_suspected(self) -> None:
        detector = self.taught()
        for worker in range(4):
            detector.ordered(worker, 100.0)
        detector.failed(0)
        detector.left(1)
        detector.dropped(2, 100.5)
        assert detector.check(1e6) == [3]
        detector.left(3)
        assert detector.suspects == {}

    def test_under_carry_a_new_order_does_not_start_the_silence_anew(self) -> None:
        detector = self.taught(late="carry")  # pyright: ignore
        deadline = 0.0
        for number in range(4):
            detector.ordered(0, 100.0 + 0.2 * number)
            deadline = detector.deadline(0) or 0.0
        assert detector.check(100.0 + deadline) == [0]
        assert "over" not in detector.suspects[0]


@given(split=st.integers(1, 59), late=st.sampled_from(["preempt", "carry"]), seed=st.integers(0, 100))
def test_a_restored_one_goes_on_to_the_bit(split: int, late: Late, seed: int) -> None:
    rng = np.random.default_rng(seed)

    def step(detector: FailureDetector, number: int, rows: Array) -> list[object]:
        seen: list[object] = []
        for worker in range(5):
            detector.ordered(worker, float(number))
        for worker in range(5):
            if rows[number, worker] < 0.9:
                seen.append(detector.heard(worker, number + float(rows[number, worker])))
        seen.append(detector.check(number + 0.95))
        return [*seen, detector.next_check(), detector.usual(), detector.deadline(4), dict(detector.suspects)]

    rows = rng.exponential(0.3, (60, 5))
    rows[20:, 4] = 1.0
    whole, first, second = (FailureDetector(late=late, floor=0.5, window=120) for _ in range(3))
    expected = [step(whole, number, rows) for number in range(60)]
    for number in range(split):
        step(first, number, rows)
    second.restore(first.state())
    assert [step(second, number, rows) for number in range(split, 60)] == expected[split:]


class TestLaw:
    @given(seed=st.integers(0, 1000), share=st.floats(0.0, 0.6))
    def test_seconds_and_hazard_are_each_others_inverse(self, seed: int, share: float) -> None:
        rng = np.random.default_rng(seed)
        law = Law.of(rng.exponential(1.0, 200), rng.random(200) < share)
        for hazard in (1e-3, 0.1, 1.0, 3.0, 9.2, 20.0):
            seconds = law.seconds(hazard)
            reached = law.hazard(law.body(seconds), law.beyond(seconds))
            assert reached >= hazard * (1.0 - 1e-9)
            before = math.nextafter(seconds, 0.0) * (1.0 - 1e-9)
            assert law.hazard(law.body(before), law.beyond(before)) <= hazard * (1.0 + 1e-6)

    def test_the_hazard_of_an_exponential_is_its_time(self) -> None:
        rng = np.random.default_rng(0)
        times = rng.exponential(2.0, 4000)
        censored = times > (limits := rng.uniform(0.0, 6.0, 4000))
        law = Law.of(np.minimum(times, limits), censored)
        for seconds in (0.5, 2.0, 4.0, 8.0):
            assert law.hazard(law.body(seconds), law.beyond(seconds)) == pytest.approx(seconds / 2.0, rel=0.1)
        assert not law.pareto

    def test_a_pareto_tail_is_known_when_it_is_seen(self) -> None:
        rng = np.random.default_rng(0)
        law = Law.of(rng.pareto(1.5, 1000) + 1.0, np.zeros(1000, dtype=bool))
        assert law.pareto
        assert law.seconds(-math.log(1e-4)) == pytest.approx(1e4 ** (1 / 1.5), rel=0.5)

    def test_machines_as_regular_as_clocks_are_given_some_slack(self) -> None:
        law = Law.of(np.full(100, 2.0), np.zeros(100, dtype=bool))
        assert 2.5 < law.seconds(-math.log(1e-4)) < 4.0
        assert Law.of(np.zeros(100), np.zeros(100, dtype=bool)).seconds(9.2) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sam-gc-cnn_profile_est-mbp.csv.gz", "sam-gc-cnn_profile_est_desktop_long.csv.gz"])
def test_alarms_on_the_aws_traces_are_their_stalls(name: str, data_folder: Path) -> None:
    path = data_folder / "traces" / "aws_lambda" / name
    alarms, short, samples, stalls = 0, 0, 0, 0
    for region in ("Canada", "London") if "mbp" in name else ("Canada",):
        for load in (0.25, 0.5, 1.0):
            trace = Trace.read(path, {"step": "round", "seconds": "latency_s"}, {"region": region, "load": load})
            rows = trace.seconds[np.lexsort((trace.worker, trace.step))].reshape(trace.n_steps, trace.n_workers)
            played = simulate_rounds(rows, FailureDetector())
            alarms, samples, stalls = alarms + len(played.alarms), samples + rows.size, stalls + int((rows > 10).sum())
            short += sum(rows[number, worker] <= 10.0 for number, worker in played.alarms)
    assert alarms - short <= stalls  # every other alarm is for a worker that does stall for 10 s or more
    assert short <= 5e-4 * samples


@pytest.mark.parametrize(
    ("seconds", "first", "said"),
    [
        (np.ones(3), None, "seconds must be finite, at least 0, of shape"),
        (np.array([[1.0, math.nan]]), None, "seconds must be finite"),
        (np.ones((4, 3)), 3, "first must be at most 2"),
        (np.ones((4, 3)), 0, "first must be at least 1"),
    ],
)
def test_rounds_that_cannot_be_played_are_refused(seconds: Array, first: int | None, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        simulate_rounds(seconds, FailureDetector(), first, hung={0: 0})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"floor": -1.0}, "floor must be a finite number of seconds, at least 0"),
        ({"chance": 0.0}, "chance must be greater than 0"),
        ({"chance": 0.5}, "less than 0.5"),
        ({"after": 0.0}, "after must be a positive number of seconds"),
        ({"late": "never"}, "late must be 'preempt' or 'carry'"),
        ({"window": 10}, "window must be at least 30"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, float], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        FailureDetector(**settings)  # pyright: ignore


def test_a_worker_that_hung_for_long_and_answers_teaches_no_patience() -> None:
    detector = FailureDetector()
    rng = np.random.default_rng(3)
    now = 0.0
    for _ in range(40):
        for worker in range(6):
            detector.ordered(worker, now)
            detector.heard(worker, now + float(rng.exponential(0.5)))
        now += 5.0
    usual = detector.usual()
    assert usual is not None
    for _ in range(4):  # hangs that end
        detector.ordered(0, now)
        now += 100.0
        assert detector.check(now) == [0]
        assert detector.heard(0, now)
        for worker in range(1, 6):
            for _ in range(60):
                detector.ordered(worker, now)
                detector.heard(worker, now + float(rng.exponential(0.5)))
                now += 5.0
    after = detector.usual()
    assert after is not None
    assert after < 2.0 * usual


@given(
    st.lists(st.tuples(st.floats(0.0, 9.0), st.booleans(), st.integers(0, 3)), max_size=60),
    st.lists(st.integers(0, 3), max_size=2, unique=True),
)
def test_a_window_knows_how_many_answers_it_keeps_and_leaves_out_the_silence_of_suspects(
    taken: list[tuple[float, bool, int]], suspects: list[int]
) -> None:
    window, restored = Window(20), Window(20)
    for seconds, censored, worker in taken:
        window.add(seconds, censored, worker)
    restored.restore(window.state())
    latest = taken[-20:]
    kept = sorted((s, c) for s, c, worker in latest if not (c and worker in suspects))
    for one in (window, restored):
        assert one.kept_answers == sum(not censored for _, censored, _ in latest)
        assert sorted(zip(*(part.tolist() for part in one.samples(suspects)), strict=True)) == kept

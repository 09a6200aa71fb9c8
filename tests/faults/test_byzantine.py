"""Lies: a minority is caught whatever it sends, honest workers never are, and only what is sound is decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse

from erasurehead import codes, schemes
from erasurehead.codes import GradientCode
from erasurehead.decoding import make_decoder
from erasurehead.decoding._layout import Layout
from erasurehead.delays import Exponential
from erasurehead.engines import Arrived, Order, VirtualEngine
from erasurehead.engines._base import MessageLost
from erasurehead.errors import Diverged, InvalidArgument, Unreachable
from erasurehead.faults import FaultPolicy, Verifier
from erasurehead.faults._byzantine import Examination, check_comparable, unusable
from erasurehead.optimizers import GradientDescent
from erasurehead.problems import LeastSquares
from erasurehead.schemes import wait_rules
from erasurehead.schemes.wait_rules import View
from erasurehead.training import Run, train
from erasurehead.training._programs import build_programs

from ..arrays import Array

CATALOGUE = {family.name: family.example_code for family in codes.catalogue()}
GROUPS = codes.fractional_repetition(12, load=3)
FIVE = codes.build("draco_repetition", n_workers=10, corrupted=2)  # two groups of five
LOCATING = ("cyclic_mds", "cyclic_repetition", "draco_cyclic", "reed_solomon", "communication_efficient_groups")

LIES: dict[str, Callable[[Array, np.random.Generator], Array]] = {
    "inf": lambda honest, rng: np.full_like(honest, np.inf),
    "one nan": lambda honest, rng: np.where(np.arange(len(honest)) == 3, np.nan, honest),
    "huge": lambda honest, rng: rng.choice([-1.0, 1.0], len(honest)) * 1e308,
    "zero": lambda honest, rng: np.zeros_like(honest),
    "minus": lambda honest, rng: -honest,
    "noise": lambda honest, rng: rng.standard_normal(len(honest)),
    "tiny": lambda honest, rng: honest + 1e-6 * np.abs(honest).max() * (np.arange(len(honest)) == 5),
}


def honest(code: GradientCode, seed: int = 0, length: int = 20, rounding: float = 0.0) -> Array:
    """What all messages say, each with rounding errors of its own."""
    rng = np.random.default_rng(seed)
    said = code.encoding @ rng.standard_normal((code.n_tasks * code.n_pieces, length))
    return np.asarray(said * (1.0 + rounding * rng.uniform(-1.0, 1.0, said.shape)))


def examine(
    verifier: Verifier,
    said: Sequence[Array] | Array,
    messages: Iterable[int] | None = None,
    pending: Iterable[int] = (),
) -> Examination:
    verifier.begin()
    return verifier.examine(range(len(said)) if messages is None else messages, lambda m: said[m], pending)


def clean(found: Examination) -> bool:
    """Whether nothing is wrong."""
    return not (found.accused or found.refused or found.held)


@given(
    name=st.sampled_from(sorted(CATALOGUE)),
    seed=st.integers(0, 10_000),
    rounding=st.sampled_from([0.0, 1e-16, 1e-13]),
    size=st.sampled_from([1e-200, 1.0, 1e150]),
)
@settings(max_examples=40)
def test_honest_workers_are_never_accused(name: str, seed: int, rounding: float, size: float) -> None:
    code, rng = CATALOGUE[name], np.random.default_rng(seed)
    verifier = Verifier(code)
    for step in range(3):
        said = size * honest(code, seed + step, rounding=rounding)
        some = np.flatnonzero(rng.random(code.n_messages) < rng.random()).tolist()
        found = examine(verifier, said, some)
        assert clean(found), found
        assert found.sound == tuple(some)
        assert not found.reasons


@given(
    byzantine=st.lists(st.integers(0, 4), max_size=2, unique=True),
    others=st.lists(st.integers(5, 9), max_size=2, unique=True),
    lie=st.sampled_from(sorted(LIES)),
    together=st.booleans(),
    rounding=st.sampled_from([0.0, 1e-13]),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=40)
def test_any_minority_of_a_group_is_caught_whatever_it_sends(
    byzantine: list[int], others: list[int], lie: str, together: bool, rounding: float, seed: int
) -> None:
    said = honest(FIVE, seed, rounding=rounding)
    rng = np.random.default_rng(seed)
    for worker in [*byzantine, *others]:
        said[worker] = LIES[lie](said[worker], np.random.default_rng(worker // 5) if together else rng)
    found = examine(Verifier(FIVE), said, rng.permutation(10).tolist())
    assert sorted(found.accused) == sorted([*byzantine, *others])
    assert sorted(found.refused) == sorted([*byzantine, *others])
    assert not found.held


@given(lie=st.sampled_from(["huge", "zero", "minus", "noise", "tiny"]), size=st.sampled_from([1e-300, 1.0, 1e100]))
def test_of_two_that_differ_nobody_is_accused_and_neither_is_used(lie: str, size: float) -> None:
    said = size * honest(GROUPS)
    said[1] = LIES[lie](said[1], np.random.default_rng(0)) if lie != "noise" else size * np.arange(20.0)
    found = examine(Verifier(GROUPS), said, [0, 1, 3, 4], pending=[2, 5])
    assert not found.accused
    assert sorted(found.held) == [0, 1]
    assert found.sound == (3, 4)
    assert "workers 0, 1 differ" in found.reasons[0]
    assert found.remarks[0].kind == "held"
    alone = examine(Verifier(GROUPS), said, [0, 1, 3, 4], pending=[5])  # nobody is left who could tell
    assert sorted(alone.refused) == [0, 1]
    assert not alone.held


def test_the_third_tells_who_lies_and_the_doubt_is_lifted() -> None:
    said = honest(GROUPS)
    said[1] += 1.0
    view, verifier = View(make_decoder(GROUPS)), Verifier(GROUPS)
    verifier.begin()
    for message in (0, 1, 3):
        view.add(message)
    found = verifier.examine(view.arrived, lambda m: said[m], view.pending.tolist())
    assert found.settle(view)
    assert view.arrived == [3]
    assert {0, 1, 2} <= set(view.pending.tolist())
    view.add(2)
    found = verifier.examine({*view.arrived, *found.held}, lambda m: said[m], view.pending.tolist())
    assert found.settle(view)
    assert sorted(view.arrived) == [0, 2, 3]
    assert found.accused == {1: "its message 1 differs, and workers 0, 2 agree on another"}
    assert view.refused == {1}
    assert 1 not in view.able
    assert not verifier.examine(view.arrived, lambda m: said[m]).settle(view)


def test_a_worker_that_was_caught_is_not_believed_again_until_it_is_replaced() -> None:
    verifier, said = Verifier(GROUPS), honest(GROUPS)
    said[4] = 0.0
    assert list(examine(verifier, said).accused) == [4]
    right = honest(GROUPS, seed=1)
    found = examine(verifier, right)
    assert not found.accused
    assert sorted(found.refused) == [4]
    assert "put aside" in found.refused[4]
    other = Verifier(GROUPS)
    other.restore(verifier.state())
    assert sorted(examine(other, right).refused) == [4]
    other.joined(4)
    assert clean(examine(other, right))


class TestBits:
    def test_replicas_that_agree_to_the_bit_must_go_on_doing_so(self) -> None:
        verifier, said = Verifier(GROUPS), honest(GROUPS)
        assert clean(examine(verifier, said))
        said[5, 7] = np.nextafter(said[5, 7], np.inf)
        assert list(examine(verifier, said).accused) == [5]

    def test_machines_that_round_otherwise_are_found_out_and_borne(self) -> None:
        verifier = Verifier(GROUPS)
        for seed in range(3):
            assert clean(examine(verifier, honest(GROUPS, seed, rounding=1e-13)))

    def test_a_new_machine_may_round_otherwise(self) -> None:
        verifier, said = Verifier(GROUPS), honest(GROUPS)
        assert clean(examine(verifier, said))
        verifier.joined(5)
        said[5] *= 1.0 + 1e-15
        assert clean(examine(verifier, said))
        said[8] *= 1.0 + 1e-15
        assert clean(examine(verifier, said))

    @pytest.mark.parametrize(("difference", "caught"), [(1e-10, False), (1e-8, True)])
    def test_a_stated_tolerance_holds_from_the_first_to_the_last(self, difference: float, caught: bool) -> None:
        verifier, said = Verifier(GROUPS, tolerance=1e-9), honest(GROUPS)
        assert clean(examine(verifier, said))
        said[5] += difference * np.abs(said[5]).max()
        assert (5 in examine(verifier, said).accused) == caught

    def test_short_numbers_have_a_wider_tolerance(self) -> None:
        said = honest(GROUPS, rounding=1e-7).astype(np.float32)
        assert clean(examine(Verifier(GROUPS), said))
        said[3] *= 1.001
        assert list(examine(Verifier(GROUPS), said).accused) == [3]

    def test_the_first_comparison_allows_rounding_and_still_finds_who_is_beyond(self) -> None:
        rounded = honest(GROUPS, rounding=1e-14)
        rounded[7] *= 2.0
        assert list(examine(Verifier(GROUPS), rounded).accused) == [7]

    @given(spread=st.floats(1.0, 4.0), seed=st.integers(0, 1000))
    def test_a_lie_at_the_edge_of_the_tolerance_makes_nobody_honest_look_wrong(self, spread: float, seed: int) -> None:
        rng, tolerance = np.random.default_rng(seed), 1e-3
        said = np.ones((10, 20)) + tolerance * rng.uniform(-0.45, 0.45, (10, 1))
        said[0] += spread * tolerance
        said[9] -= spread * tolerance
        found = examine(Verifier(FIVE, tolerance=tolerance), said, rng.permutation(10).tolist())
        assert set(found.accused) <= {0, 9}
        if spread > 3.0:
            assert set(found.accused) == {0, 9}


class TestSeveralMessages:
    CODE = codes.build("multi_message", n_workers=6, load=3)

    @given(worker=st.integers(0, 5), which=st.integers(0, 2))
    def test_one_wrong_message_costs_a_worker_all_of_them(self, worker: int, which: int) -> None:
        said = honest(self.CODE)
        said[self.CODE.messages_of(worker)[which]] += 0.5
        found = examine(Verifier(self.CODE), said)
        assert list(found.accused) == [worker]
        assert sorted(found.refused) == self.CODE.messages_of(worker).tolist()

    def test_a_worker_has_one_vote_however_often_it_says_it(self) -> None:
        encoding = sparse.csr_array(np.ones((3, 1)))
        code = GradientCode("twice", {}, encoding, owner=np.array([0, 0, 1]), n_workers=2, n_tasks=1)
        said = np.ones((3, 4))
        said[2] = 2.0
        found = examine(Verifier(code), said)
        assert not found.accused
        assert sorted(found.refused) == [0, 1, 2]

    def test_in_more_liars_than_that_a_majority_is_not_enough(self) -> None:
        plain = codes.fractional_repetition(10, load=5)
        said = honest(FIVE)
        said[[0, 1]] += 1.0  # they and an honest one have answered
        assert list(examine(Verifier(plain), said, [0, 1, 2]).accused) == [2]
        for verifier in (Verifier(plain, corrupted=2), Verifier(FIVE)):  # which was built for two
            careful = examine(verifier, said, [0, 1, 2], pending=[3, 4])
            assert not careful.accused
            assert sorted(careful.held) == [0, 1, 2]
            assert sorted(examine(verifier, said).accused) == [0, 1]


class TestEquations:
    """Codes without equal messages: what is sent must fit together."""

    @pytest.mark.slow
    @given(
        name=st.sampled_from([*LOCATING, "binary_repetition", "complex_cyclic_mds", "communication_efficient_cyclic"]),
        lie=st.sampled_from(sorted(LIES)),
        seed=st.integers(0, 10_000),
        share=st.floats(0.6, 1.0),
    )
    @settings(max_examples=40)
    def test_one_liar_costs_no_honest_worker_its_name_and_corrupts_nothing(
        self, name: str, lie: str, seed: int, share: float
    ) -> None:
        code, rng = CATALOGUE[name], np.random.default_rng(seed)
        liar = int(rng.integers(code.n_workers))
        told = honest(code, seed)
        for message in code.messages_of(liar):
            told[message] = LIES[lie](told[message], rng)
        found = examine(Verifier(code), told, np.flatnonzero(rng.random(code.n_messages) < share).tolist())
        assert set(found.accused) <= {liar}
        mine = [message for message in found.sound if code.owner[message] == liar]
        if mine and len(found.sound) > len(mine):  # it may only have got through where nothing says anything of it
            others = [message for message in found.sound if code.owner[message] != liar]
            rank = np.linalg.matrix_rank
            rows = code.encoding.toarray()
            assert rank(rows[list(found.sound)]) == rank(rows[others]) + rank(rows[mine])

    def test_with_enough_redundancy_the_liar_is_named(self) -> None:
        for name in (
            "cyclic_mds",
            "cyclic_repetition",
            "draco_cyclic",
            "reed_solomon",
            "communication_efficient_groups",
        ):
            code = CATALOGUE[name]
            said = honest(code)
            said[code.messages_of(2)] += 1.0
            found = examine(Verifier(code), said)
            assert list(found.accused) == [2], name
            decoding = make_decoder(code).decode(found.sound)
            full = code.target @ np.linalg.lstsq(code.encoding.toarray(), honest(code), rcond=None)[0]
            np.testing.assert_allclose(decoding.weights @ said[decoding.messages], full, atol=1e-8)

    def test_two_liars_of_nine_who_say_the_same(self) -> None:
        code = CATALOGUE["draco_cyclic"]
        said = honest(code)
        said[code.messages_of(3)] += 1.0
        said[code.messages_of(7)] += 1.0
        assert sorted(examine(Verifier(code), said).accused) == [3, 7]

    def test_a_huge_lie_hides_no_other(self) -> None:
        code = CATALOGUE["draco_cyclic"]
        said = honest(code)
        said[code.messages_of(3)] = 1e300
        said[code.messages_of(7)] += 1e-3
        assert sorted(examine(Verifier(code), said).accused) == [3, 7]

    def test_with_one_equation_all_are_in_doubt_until_another_comes(self) -> None:
        code = codes.cyclic_repetition(12, stragglers=2)
        said = honest(code)
        said[0] += 1.0
        verifier = Verifier(code)
        found = examine(verifier, said, range(11), pending=[11])
        assert not found.accused
        assert sorted(found.held) == list(range(11))
        found = verifier.examine(range(12), lambda m: said[m])
        assert list(found.accused) == [0]
        assert found.sound == tuple(range(1, 12))
        assert len(examine(Verifier(code), said, range(11)).refused) == 11

    def test_more_liars_than_are_allowed_leave_nothing_to_trust(self) -> None:
        code = codes.build("cyclic_mds", n_workers=12, stragglers=3)
        said = honest(code)
        said[[0, 5]] += np.arange(40.0).reshape(2, 20)
        found = examine(Verifier(code), said)
        assert not found.accused
        assert "no 1 of their workers explain it" in found.reasons[0]
        assert len(found.refused) == 12


def test_vectors_that_hold_only_their_own_coordinates_are_compared_in_place() -> None:
    rng = np.random.default_rng(0)
    X = sparse.csr_array(sparse.random(60, 40, density=0.05, rng=rng))
    problem = LeastSquares(X, rng.standard_normal(60))
    for code in (
        codes.build("cyclic_mds", n_workers=6, stragglers=3),
        codes.build("communication_efficient_groups", n_workers=8, load=4, n_pieces=2),
        GROUPS,
    ):
        programs, layout = build_programs(code, problem)
        order = Order(0, (rng.standard_normal(40),))
        vectors: dict[int, Array] = {}
        for program in programs:
            for spec in program.message_specs:
                vectors[spec.message] = np.empty(spec.length)
                program.compute(spec, program.take(order), vectors[spec.message])
        verifier = Verifier(code, layout)
        assert clean(examine(verifier, [vectors[m] for m in range(code.n_messages)]))
        vectors[1] = vectors[1] + 0.1
        verifier.begin()
        assert list(verifier.examine(vectors, vectors.__getitem__).accused) == [int(code.owner[1])], code


def test_equal_rows_with_other_coordinates_are_compared_by_what_they_share() -> None:
    encoding = sparse.csr_array(np.ones((3, 1)))
    code = GradientCode("spread", {}, encoding, owner=np.arange(3), n_workers=3, n_tasks=1, tolerance=2)
    layout = Layout(6, [np.array([[0, 2, 5]]), np.array([[0, 1, 2, 5]]), np.array([[-1, 0, 2, 5]])])
    said = [np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.0, 2.0, 3.0]), np.array([7.0, 1.0, 2.0, 3.0])]
    assert clean(examine(Verifier(code, layout), said))
    said[1][1] = 0.5
    assert list(examine(Verifier(code, layout), said).accused) == [1]


def test_lost_and_infinite_messages_are_erasures_and_no_crime() -> None:
    said = honest(GROUPS)
    said[0, 3] = np.nan

    def read(message: int) -> Array:
        if message == 4:
            raise MessageLost("message 4: ValueError: no data")
        return said[message]

    found = Verifier(GROUPS).examine([0, 3, 4], read, pending=[1, 2])
    assert not found.accused
    assert found.refused == {0: "its vector is not finite", 4: "message 4: ValueError: no data"}
    assert found.sound == (3,)
    assert unusable([0, 3, 4], read) == found.refused
    alone = codes.uncoded(4)
    assert sorted(examine(Verifier(alone), np.full((4, 2), np.inf)).refused) == [0, 1, 2, 3]


def test_what_agrees_is_compared_once_a_round_and_the_cost_is_told() -> None:
    verifier, said = Verifier(GROUPS), honest(GROUPS)
    verifier.begin()
    assert verifier.examine(range(12), lambda m: said[m]).compared == 8
    assert verifier.examine(range(12), lambda m: said[m]).compared == 0
    rows = list(said[::3])
    shared = [rows[message // 3] for message in range(12)]
    assert examine(verifier, shared).compared == 0  # one and the same vector
    text = str(verifier.cost(seconds=10.0))
    assert text.startswith("verification cost ")
    assert "% of the step), with 4.0 comparisons a step" in text


def test_a_re_formed_code_keeps_what_is_known() -> None:
    verifier, said = Verifier(GROUPS), honest(GROUPS)
    said[4] += 1.0
    examine(verifier, said)
    again = verifier.resized(codes.fractional_repetition(12, load=4), None)
    assert list(again.accused) == [4]


def test_workers_have_their_own_numbers_whatever_place_they_take() -> None:
    said, worker_ids = honest(GROUPS), list(range(100, 112))
    said[[4, 7]] += 1.0
    verifier, view = Verifier(GROUPS, worker_ids=worker_ids), View(make_decoder(GROUPS))
    for message in (0, 3, 4, 5, 6, 7):
        view.add(message)
    found = verifier.examine(view.arrived, lambda m: said[m], view.pending.tolist())
    assert list(found.accused) == [104]
    assert "workers 106, 107 differ" in found.held[6]
    assert found.settle(view)
    assert view.able == set(range(12)) - {4}
    assert view.arrived == [0, 3, 5]
    again = verifier.resized(codes.fractional_repetition(6, load=2), None, worker_ids=[104, 1, 2, 3, 4, 5])
    assert sorted(examine(again, honest(again.code)).refused) == [0]


class LyingEngine(VirtualEngine):
    """Plays workers some of which add something to all that they send."""

    byzantine: Mapping[int, float] = {}

    def next_event(self, until: float | None = None) -> Any:
        event = super().next_event(until)
        if isinstance(event, Arrived) and event.worker in self.byzantine:
            return replace(event, read=lambda: event.read() + self.byzantine[event.worker])
        return event


def trained(byzantine: Mapping[int, float], code: GradientCode, rule: str, verify: bool = True) -> Run:
    rng = np.random.default_rng(0)
    problem = LeastSquares(rng.standard_normal((120, 5)), rng.standard_normal(120))
    engine = LyingEngine(Exponential(0.5, seed=0))
    engine.byzantine = byzantine
    optimizer = GradientDescent(problem.initial(), rate=0.1)
    return train(
        problem, schemes.custom(code, rule), optimizer, engine, 25, fault_policy=FaultPolicy("leave", verify=verify)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "rule", "byzantine", "ruinous"),
    [
        (FIVE, "decodable() & confirmed(2)", {0: 0.5, 3: -2.0, 7: 0.5}, False),
        (codes.cyclic_repetition(12, stragglers=4), "first(10)", {3: 0.5}, True),
    ],
    ids=["replicas", "equations"],
)
def test_training_with_liars_ends_where_honest_training_does(
    code: GradientCode, rule: str, byzantine: Mapping[int, float], ruinous: bool
) -> None:
    expected = trained({}, code, rule)
    run = trained(byzantine, code, rule)
    np.testing.assert_allclose(run.x, expected.x, rtol=1e-9)
    assert {notice.worker for notice in run.notices if notice.kind == "lied"} == set(byzantine)
    assert not any(notice.kind == "lied" for notice in expected.notices)
    if ruinous:
        with pytest.raises(Diverged, match="has made the model worse"):
            trained(byzantine, code, rule, verify=False)
    else:
        assert np.abs(trained(byzantine, code, rule, verify=False).x - expected.x).max() > 1e-3


def test_where_nobody_can_tell_training_ends_and_does_not_blame_the_step_size() -> None:
    with pytest.raises(Unreachable, match="messages were refused"):
        trained({0: 0.5}, codes.cyclic_repetition(6, stragglers=1), "first(6)")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"tolerance": -1e-9}, "at least 0"),
        ({"tolerance": float("nan")}, "less than 0.5"),
        ({"corrupted": 0}, "at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, float], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        Verifier(GROUPS, **arguments)  # pyright: ignore


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        (codes.build("cyclic_mds", n_workers=9, stragglers=4), "first(6)"),
        (codes.build("reed_solomon", n_workers=12, load=5), "first(12)"),
        (codes.fractional_repetition(12, load=3), "first(6) | decodable()"),
        (codes.fractional_repetition(12, load=3), "deadline(0.01)"),
        (codes.build("multi_message", n_workers=6, load=3), "first(2)"),
    ],
    ids=str,
)
def test_what_can_be_compared_is_not_refused(code: GradientCode, rule: str) -> None:
    check_comparable(make_decoder(code), wait_rules.parse(rule))

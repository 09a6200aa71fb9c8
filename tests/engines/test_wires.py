"""Messages in fewer bytes: what wires lose, and that nothing else is lost with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from erasurehead import FaultPolicy, codes, schemes, train
from erasurehead.delays import Exponential
from erasurehead.drills import Fault, FaultyEngine
from erasurehead.engines import Engine, Order, ProcessEngine, VirtualEngine, Wire
from erasurehead.engines._base import PRECISE, MessageLost
from erasurehead.engines._wired_engine import WiredEngine
from erasurehead.engines._wires import Bytes, Cast, Dithered, Key, parse_wire
from erasurehead.errors import InvalidArgument
from erasurehead.optimizers import Answer, GradientDescent, Nesterov, Optimizer
from erasurehead.problems import LeastSquares, Problem
from erasurehead.runs import Experiment
from erasurehead.testing._problems import Quadratic
from erasurehead.training import Callback, Resumption, Run

from ..arrays import Array

WIRES: list[Wire] = [
    Cast(),
    Cast("float16"),
    Cast("bfloat16"),
    Dithered(),
    Dithered(32_767),
    Dithered(1, seed=3),
]
vectors = arrays(np.float64, st.integers(2, 40), elements=st.integers(-(10**6), 10**6).map(lambda n: n / 997.0))


def crossed(wire: Wire, vector: Array, key: tuple[int, int] = (0, 0)) -> Array:
    out = np.full(wire.nbytes(len(vector)), 0xAB, dtype=np.uint8)
    wire.encode(vector, key, out)
    again = np.zeros_like(out)
    wire.encode(vector.copy(), key, again)
    assert out.tobytes() == again.tobytes()  # every byte is written, and is a matter of vector and key alone
    return wire.decode(out)


@pytest.mark.parametrize("wire", WIRES, ids=str)
@given(vectors)
@settings(max_examples=40)
def test_an_element_loses_no_more_than_the_wire_says_and_the_loss_nothing(wire: Wire, vector: Array) -> None:
    found = crossed(wire, vector)
    assert found[-1] == vector[-1]
    largest = np.abs(vector[:-1]).max()
    assert np.abs(found - vector)[:-1].max() <= wire.rounding * largest * (1 + 1e-9)


@pytest.mark.parametrize("wire", [Cast("float16"), Dithered(127)], ids=str)
@given(vectors, st.integers(-250, 250))
@settings(max_examples=40)
def test_it_loses_no_more_of_what_is_very_small_or_large(wire: Wire, vector: Array, power: int) -> None:
    vector = vector * 10.0**power
    largest = np.abs(vector[:-1]).max()
    assert np.abs(crossed(wire, vector) - vector)[:-1].max() <= wire.rounding * largest * (1 + 1e-9)


class Asking(Optimizer):
    """Stays where it is, and asks for everything, for a gradient as it comes, and for one in all its digits."""

    kinds = ("gradient", "curvature")

    def __init__(self, x: Array) -> None:
        super().__init__(x)
        self.told: list[tuple[Array, tuple[Array, float] | None]] = []

    def ask(self) -> Order:
        if self.step == 0:
            return Order(self.step, (self.x,), kind="curvature")
        return Order(self.step, (self.x,), note={PRECISE: self.step == 2})

    def begin(self, problem: Problem, early: Any = "", lossy: bool = False) -> None:
        super().begin(problem, early, lossy)
        self.lossy = lossy

    def tell(self, answer: Answer) -> None:
        assert answer.estimate is not None
        self.told.append((answer.estimate, answer.curvature))
        self.step += 1


@pytest.mark.parametrize("engine", [VirtualEngine, pytest.param(ProcessEngine, marks=pytest.mark.processes)])
@pytest.mark.parametrize("wire", WIRES, ids=str)
def test_an_order_may_ask_for_all_digits_and_each_curvature_keeps_its_own(
    wire: Wire, engine: type[VirtualEngine | ProcessEngine]
) -> None:
    X = np.random.default_rng(0).standard_normal((48, 5)) * 10.0 ** np.arange(-4, 6, 2)
    one = LeastSquares(X, X @ 10.0 ** -np.arange(-4.0, 6.0, 2.0) + 1.0, l2=0.0)
    whole, wired = Asking(np.ones(5)), Asking(np.ones(5))
    train(one, schemes.uncoded(2), whole, VirtualEngine(), 3, evaluate_every=0)
    run = train(one, schemes.uncoded(2), wired, engine(), 3, evaluate_every=0, wire=wire)
    assert wired.lossy
    assert not whole.lossy
    assert wired.told[2][0].tobytes() == whole.told[2][0].tobytes()
    (_, wanted), (_, found) = whole.told[0], wired.told[0]
    assert wanted is not None
    assert found is not None
    assert found[0] == pytest.approx(wanted[0], rel=2.0**-8)
    assert run.steps[2].received == 2 * 6 * 8


class Largest(Wire):
    """Sends the largest element of a gradient alone."""

    @property
    def error(self) -> float:
        return 1.0

    @property
    def rounding(self) -> float:
        return 1.0

    def nbytes(self, length: int) -> int:
        return 32

    def _encode(self, gradient: Array, key: Key, out: Bytes) -> None:
        place = int(np.abs(gradient).argmax())
        out.view(np.float64)[:] = place, gradient[place]

    def _decode(self, sent: Bytes, gradient: Array) -> None:
        gradient[:] = 0.0
        place, largest = sent.view(np.float64)
        gradient[int(place)] = largest

    def __str__(self) -> str:
        return "largest"


def test_no_run_has_converged_by_what_a_wire_has_left_out() -> None:
    """Two columns of four cross, so that the others are never learned, and the gradient that is heard of vanishes."""
    X = np.kron(np.eye(4), np.ones((3, 1)))
    one = LeastSquares(X, X @ np.array([100.0, 1.0, 10.0, 1.0]), l2=1e4)
    optimizer = GradientDescent(one.initial(), rate=0.9 / (2 * 1e4))
    run = train(one, schemes.uncoded(2), optimizer, VirtualEngine(), 200, evaluate_every=0, wire=Largest())
    assert run.steps[-1].gradient_norm == pytest.approx(0.0, abs=1e-12 * (run.steps[0].gradient_norm or 0.0))
    assert run.final is not None
    assert run.final.gradient_left > 1e-4
    assert run.ended == "steps"
    whole = train(one, schemes.uncoded(2), GradientDescent(one.initial(), 0.9 / 2e4), VirtualEngine(), 200)
    assert whole.ended == "converged"


@pytest.mark.parametrize("wire", WIRES, ids=str)
@given(vectors, st.integers(0, 9))
@settings(max_examples=40)
def test_vectors_that_differ_by_rounding_differ_by_no_more_than_the_wire_says(
    wire: Wire, vector: Array, seed: int
) -> None:
    other = vector * (1.0 + 1e-15 * np.random.default_rng(seed).integers(-3, 4, len(vector)))
    ours, theirs = crossed(wire, vector, (4, 5)), crossed(wire, other, (4, 5))
    assert np.abs(ours - theirs)[:-1].max() <= wire.error * np.abs(ours[:-1]).max() * (1 + 1e-9)


@pytest.mark.parametrize("wire", WIRES, ids=str)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_not_finite_on_arrival(wire: Wire, bad: float) -> None:
    vector = np.linspace(-1.0, 1.0, 12)
    vector[3] = bad
    assert not np.isfinite(crossed(wire, vector)).all()


@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES, ids=str)
@given(st.binary(min_size=16, max_size=200))
@settings(max_examples=60)
def test_bytes_that_no_program_wrote_are_a_lost_message_and_no_crash(wire: Wire, sent: bytes) -> None:
    bytes_of = np.frombuffer(sent, dtype=np.uint8).copy()
    length = int(bytes_of[:8].view(np.int64)[0])
    if 0 < length < 1000 and wire.nbytes(length) == len(sent):
        assert len(wire.decode(bytes_of)) == length
    else:
        with pytest.raises(MessageLost, match="is not one of"):
            wire.decode(bytes_of)


@pytest.mark.slow
def test_dither_is_right_in_the_mean_and_new_for_each_key() -> None:
    vector = np.append(np.random.default_rng(0).standard_normal(50), 0.0)
    wire = Dithered(2, seed=1)
    found = np.array([crossed(wire, vector, (step, 7)) for step in range(4000)])
    spread = wire.rounding * np.abs(vector).max() / np.sqrt(4000)
    assert np.abs(found.mean(axis=0) - vector).max() < 3 * spread
    assert len({row.tobytes() for row in found[:20]}) == 20
    assert crossed(wire, vector, (0, 7)).tobytes() != crossed(wire, vector, (0, 8)).tobytes()


def test_bfloat16_is_rounded_as_ml_dtypes_does() -> None:
    kinds = pytest.importorskip("ml_dtypes", reason="compares with the package ml_dtypes")
    rng = np.random.default_rng(0)
    vector = np.append(rng.standard_normal(5000) * 10.0 ** rng.integers(-30, 30, 5000), 0.0)
    expected = vector.astype(np.float32).astype(kinds.bfloat16).astype(np.float64)
    assert (crossed(Cast("bfloat16"), vector) == expected).all()


PROBLEM = Quadratic.random(48, 20, seed=4, density=0.5, l2=0.01, sparse=True)


def short(engine: Engine, wire: Wire | str | None, scheme: schemes.Scheme | None = None, verify: bool = False) -> Run:
    scheme = schemes.exact(6, 3) if scheme is None else scheme
    policy = FaultPolicy(verify=True) if verify else None
    return train(PROBLEM, scheme, Nesterov(np.ones(20), 0.05), engine, 12, fault_policy=policy, wire=wire)


@pytest.mark.parametrize("late", ["preempt", "carry"])
@pytest.mark.parametrize("wire", WIRES[:4], ids=str)
def test_training_on_a_wire_counts_fewer_bytes_and_comes_close(wire: Wire, late: str) -> None:
    delays = Exponential(0.5, seed=2)
    whole, wired, again = (
        short(VirtualEngine(delays, late), one)  # pyright: ignore[reportArgumentType]
        for one in (None, wire, wire)
    )
    assert wired.x.tobytes() == again.x.tobytes()
    assert wired.engine == "virtual"
    assert WiredEngine(VirtualEngine(), wire).virtual
    assert 0 < sum(row.received for row in wired.steps) < sum(row.received for row in whole.steps)
    assert np.abs(wired.x - whole.x).max() < 20 * wire.rounding * np.abs(whole.x).max()


TRIPLES = schemes.custom(codes.fractional_repetition(6, 3), "decodable() & confirmed(2)")


@pytest.mark.parametrize("wire", [Cast("bfloat16"), Dithered()], ids=str)
def test_honest_replicas_pass_verification_on_a_lossy_wire_and_a_liar_does_not(wire: Wire) -> None:
    honest = short(VirtualEngine(), wire, TRIPLES, verify=True)
    assert not any(row.noticed("lied", "refused", "held", "failed") for row in honest.steps)
    schedule = [Fault("corrupt", 0.0, 2, lie="flip")]
    run = short(FaultyEngine(VirtualEngine(), schedule), wire, TRIPLES, verify=True)
    assert [worker for row in run.steps for worker in row.workers_noticed("lied")] == [2]


@pytest.mark.parametrize(
    ("wire", "scheme", "verify", "rule"),
    [
        (Largest(), TRIPLES, True, "wire must lose less precision"),
        (Dithered(2), TRIPLES, True, "wire must lose less precision"),
        (Cast("bfloat16"), schemes.exact(30, 6, "cyclic"), False, "wire must be fine enough"),
        ("float32", schemes.exact(6, 3), False, "wire must use known names"),
        (3, schemes.exact(6, 3), False, "wire must be a wire"),
    ],
)
def test_wires_that_cannot_do_are_refused_before_the_start(
    wire: Wire, scheme: schemes.Scheme, verify: bool, rule: str
) -> None:
    with pytest.raises(InvalidArgument, match=rule):
        short(VirtualEngine(), wire, scheme, verify)


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: Cast("int8"), "dtype must be one of"),
        (lambda: Dithered(0), "levels must be at least 1"),
        (lambda: Dithered(32_768), "levels must be at most 32,?767|levels must be .*32,?767"),
    ],
)
def test_settings_that_make_no_wire_are_refused(make: object, rule: str) -> None:
    with pytest.raises(InvalidArgument, match=rule):
        make()  # pyright: ignore[reportCallIssue]  # type: ignore[operator]


@pytest.mark.processes
def test_processes_reach_the_same_bits_as_the_virtual_clock_on_a_wire() -> None:
    wire, scheme = Dithered(), schemes.uncoded(4)
    real, virtual = (short(engine, wire, scheme) for engine in (ProcessEngine(), VirtualEngine()))
    assert real.x.tobytes() == virtual.x.tobytes()


@given(wire=st.sampled_from(WIRES))
def test_a_wire_has_a_text_that_stands_for_it(wire: Wire) -> None:
    assert parse_wire(str(wire)) == wire


@pytest.mark.parametrize("text", ["none", "none()", " none() "])
def test_none_is_a_text_too(text: str) -> None:
    assert parse_wire(text) is None
    whole, plain = short(VirtualEngine(), text), short(VirtualEngine(), None)
    assert whole.x.tobytes() == plain.x.tobytes()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("castt", "wire must use known names.*did you mean cast"),
        ("cast('int8')", r"wire \"cast\('int8'\)\": dtype must be one of"),
        ("dithered(levels=0)", "levels must be at least 1"),
        ("3", "wire must be a call"),
        ("", "wire must be"),
    ],
)
def test_a_text_that_stands_for_no_wire_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        parse_wire(text)


@pytest.mark.parametrize("wire", [Cast("bfloat16"), Dithered(), Dithered(2)], ids=str)
def test_whatever_loses_more_than_the_code_can_bear_is_refused_before_the_start(wire: Wire) -> None:
    steep, flat = schemes.exact(30, 6, "cyclic"), schemes.exact(30, 6)
    with pytest.raises(InvalidArgument, match=r"wire must be fine enough for .* use float64 messages, or"):
        short(VirtualEngine(), wire, steep)
    with pytest.raises(InvalidArgument, match="wire must be fine enough"):
        short(FaultyEngine(WiredEngine(VirtualEngine(), wire), []), None, steep)
    assert len(short(VirtualEngine(), str(wire), flat).steps) == 12
    tables = {"scheme": "exact(load=6, code='cyclic')", "run": {"wire": str(wire), "workers": 30}}
    with pytest.raises(InvalidArgument, match=r"run\.wire must be fine enough"):
        Experiment.from_config(tables)  # and no data are read


class _States(Callback):
    def __init__(self) -> None:
        self.taken: list[Any] = []

    def on_state(self, step: int, state: Any) -> None:
        self.taken.append(state())


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    wire=st.sampled_from([Cast(), Dithered(seed=3)]),
    late=st.sampled_from(["preempt", "drop(1)", "carry"]),
    cut=st.integers(1, 11),
)
def test_a_run_on_a_wire_goes_on_from_any_step_to_the_bit(wire: Wire, late: str, cut: int) -> None:
    scheme, states = schemes.ignore_stragglers(6, 3), _States()

    def go(resume: Resumption | None = None) -> Run:
        engine = VirtualEngine(Exponential(0.5, seed=2), late)
        return train(PROBLEM, scheme, Nesterov(np.ones(20), 0.05), engine, 12, [states], resume=resume, wire=wire)

    whole = go()
    again = go(Resumption(states.taken[cut], whole.steps[:cut], []))
    assert again.x.tobytes() == whole.x.tobytes()
    assert list(again.steps) == list(whole.steps)  # bytes included


@pytest.mark.slow
def test_a_run_folder_keeps_the_wire_and_is_replayed_on_it(tmp_path: Path) -> None:
    tables: dict[str, Any] = {
        "scheme": "erasurehead(load=2, wait_for=2)",
        "data": {"source": "amazon", "synthetic": "always", "rows": 500},
        "run": {"engine": "virtual", "workers": 4, "steps": 4, "wire": "cast('bfloat16')", "out": str(tmp_path / "a")},
    }
    run = Experiment.from_config(tables).run()
    plain = Experiment.from_config(
        {**tables, "run": {**tables["run"], "wire": "none", "out": str(tmp_path / "b")}}
    ).run()
    assert 0 < sum(row.received for row in run.steps) < 0.3 * sum(row.received for row in plain.steps)
    recorded = {"model": f"recorded('{tmp_path}/a/arrivals.jsonl')"}
    again = Experiment.from_config(
        {**tables, "delays": recorded, "run": {**tables["run"], "out": str(tmp_path / "c")}}
    ).run()
    assert again.x.tobytes() == run.x.tobytes() != plain.x.tobytes()
    elsewhere = Experiment.from_config({**tables, "run": {**tables["run"], "out": str(tmp_path / "e")}})
    assert elsewhere.run(engine=VirtualEngine(elsewhere.delays)).x.tobytes() == run.x.tobytes()  # on no wire of its own
    with pytest.raises(InvalidArgument, match=r"run\.wire was .*bfloat16.* and is "):
        Experiment.resume(tmp_path / "a", {"run": {"steps": 9, "wire": "none"}})
    whole = Experiment.from_config({**tables, "run": {**tables["run"], "steps": 6, "out": str(tmp_path / "d")}}).run()
    longer = Experiment.resume(tmp_path / "a", {"run": {"steps": 6}}).run()
    assert longer.x.tobytes() == whole.x.tobytes()


def test_lies_of_a_drill_are_told_before_they_cross() -> None:
    schedule = [Fault("corrupt", 0.0, 2, lie="flip")]
    engine = FaultyEngine(WiredEngine(VirtualEngine(), Cast("bfloat16")), schedule)
    run = short(engine, None, TRIPLES, verify=True)
    assert [worker for row in run.steps for worker in row.workers_noticed("lied")] == [2]

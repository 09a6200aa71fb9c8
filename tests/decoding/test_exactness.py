"""What exact codes promise in float64: at any size, for the worst stragglers that can be found, and in one number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import codes, delays, engines, optimizers, schemes
from erasurehead.codes import GradientCode
from erasurehead.decoding import make_decoder
from erasurehead.decoding._rounding import conditioning
from erasurehead.errors import InvalidArgument, Unreachable
from erasurehead.faults import FaultPolicy
from erasurehead.testing._problems import Quadratic
from erasurehead.training import train

from ..arrays import IntArray
from .prescribed import FixedWeights, OneStep

ANY: dict[str, Callable[[int], GradientCode]] = {
    "draco_cyclic": lambda n: codes.build("draco_cyclic", n, min(2, n // 12)),
    "cyclic_mds": lambda n: codes.build("cyclic_mds", n, 7 - n % 2),
    "complex_cyclic_mds": lambda n: codes.build("complex_cyclic_mds", n, 6 - n % 2),
    "cyclic_repetition": lambda n: codes.cyclic_repetition(n, 5),
    "reed_solomon": lambda n: codes.build("reed_solomon", n, n // 8),
    "communication_efficient_cyclic": lambda n: codes.build("communication_efficient_cyclic", n, 2, stragglers=3),
    "communication_efficient_groups": lambda n: codes.build("communication_efficient_groups", n, load=7, n_pieces=3),
    "nested": lambda n: codes.build("nested", n, 2),
    "binary_repetition": lambda n: codes.build("binary_repetition", n, 4),
    "fractional_repetition": lambda n: codes.fractional_repetition(n, 3),
    "partial_stragglers": lambda n: codes.build(
        "partial_stragglers", code=codes.build("exact_cyclic", n, 3), slowness=2
    ),
    "refine": lambda n: codes.build("refine", codes.build("exact_cyclic", n, 4), 2 * n + 1),
    "kronecker": lambda n: codes.build(
        "kronecker",
        first=codes.build("exact_cyclic", n // 4, 2),
        second=codes.build("exact_cyclic", n_workers=4, stragglers=1),
    ),
    "regular": lambda n: codes.build("regular", n, 4),
    "graph_code": lambda n: codes.build("graph_code", 3 * (n // 2), 3),
    "bernoulli": lambda n: codes.build("bernoulli", n, 4, nobody_idle=False),
    "stochastic_block": lambda n: codes.build("stochastic_block", n, 6, 0.6, 0.02),
    "projective_plane": lambda n: codes.build("projective_plane", order=7),
    "soft_design": lambda n: codes.build("soft_design", n, 3, 0.2),
}
LARGE_SPARSE = {"bernoulli", "regular", "stochastic_block"}

one_compiles = pytest.mark.xdist_group("large sparse codes")
"""Of the first tests that large sparse codes are decoded in: beside each other, each would compile for seconds."""


@pytest.mark.slow
@pytest.mark.parametrize("family", ANY)
@settings(max_examples=4)
@given(n=st.sampled_from([30, 61, 100, 150]), seed=st.integers(0, 10_000))
def test_a_session_and_its_decoding_say_one_number(family, n, seed):
    code = ANY[family](n)
    session, order = make_decoder(code).begin(), np.random.default_rng(seed).permutation(code.n_messages)
    last = np.inf
    for part in np.array_split(order, 12):
        session.extend(part)
        now, decoding = session.residual(), session.decoding()
        assert abs(now - decoding.residual) <= 1e-9 * code.n_tasks
        assert session.exact() == decoding.exact
        assert now <= last
        last = now


@one_compiles
@pytest.mark.parametrize("family", sorted(LARGE_SPARSE))
@pytest.mark.slow
def test_so_do_large_sparse_codes_within_what_they_promise(family):
    code = ANY[family](400)
    decoder, order = make_decoder(code), np.random.default_rng(2).permutation(code.n_messages)
    session = decoder.begin()
    for part in np.array_split(order, 40):
        session.extend(part)
        best = session.decoding().residual
        assert session.residual() <= (1 + decoder.slack) * best + 1e-6 * code.n_tasks
        assert session.exact() == session.decoding().exact


@one_compiles
@pytest.mark.slow
def test_a_sparse_session_keeps_its_slack_when_nearly_all_have_arrived():
    code = codes.build("bernoulli", n_workers=600, load=6)
    rows, decoder = code.encoding.toarray(), make_decoder(code)
    order = np.random.default_rng(3).permutation(600)
    session = decoder.begin()
    for count, message in enumerate(order.tolist(), start=1):
        session.add(message)
        if count in (200, 400, 550, 590, 598):
            weights = np.linalg.lstsq(rows[order[:count]].T, np.ones(600))[0]
            best = float(((rows[order[:count]].T @ weights - 1) ** 2).sum())
            assert session.residual() == pytest.approx(best, rel=decoder.slack, abs=1e-9)


def test_prescribed_weights_speak_for_themselves_and_their_session_for_the_optimum():
    code = codes.build("cyclic_mds", n_workers=30, stragglers=5)
    for decoder in (OneStep(code), FixedWeights(code, np.full(30, 0.01))):
        session = decoder.begin()
        session.extend(range(30))
        assert session.exact()
        assert session.residual() == make_decoder(code).residual(range(30))
        assert session.decoding().exact == (session.decoding().residual <= 1e-12 * 30)
    assert not FixedWeights(code, np.full(30, 0.01)).decode(range(30)).exact


# --- the stated tolerance -------------------------------------------------------------------------------------------

STATED: dict[str, Callable[[int], GradientCode]] = {
    "cyclic_mds": lambda n: most(lambda s: codes.build("cyclic_mds", n, s), range((n - 1) % 2, n, 2)),
    "complex_cyclic_mds": lambda n: most(lambda s: codes.build("complex_cyclic_mds", n, s), range(n % 2, n, 2)),
    "draco_cyclic": lambda n: codes.build("draco_cyclic", n, min(2, n // 12)),
    "reed_solomon": lambda n: codes.build("reed_solomon", n, n // 5),
    "cyclic_repetition": lambda n: codes.cyclic_repetition(n, 10),
    "exact_cyclic": lambda n: codes.build("exact_cyclic", n, n // 7),
    "communication_efficient_cyclic": lambda n: codes.build("communication_efficient_cyclic", n, 2, stragglers=n // 20),
    "kronecker": lambda n: codes.build(
        "kronecker",
        first=codes.build("exact_cyclic", n // 5, 3),
        second=codes.build("exact_cyclic", n_workers=5, stragglers=2),
    ),
    "binary_repetition": lambda n: codes.build("binary_repetition", n, 7),
    "nested": lambda n: codes.build("nested", n, 3),
}


def most(build: Callable[[int], GradientCode], stragglers: range) -> GradientCode:
    """The code with the largest tolerance before the first that is refused."""
    built = build(stragglers[0])
    for s in stragglers[1:]:
        try:
            built = build(s)
        except InvalidArgument:
            return built
    return built


def hard_sets(code: GradientCode, seed: int) -> list[IntArray]:
    n, s = code.n_workers, code.tolerance
    assert s is not None
    random = np.random.default_rng(seed)
    found = [np.arange(s), (np.arange(s) + random.integers(n)) % n, np.unique(np.arange(s) * n // max(s, 1))]
    found += [random.permutation(n)[:s] for _ in range(2)]
    if code.structure.hardest is not None:
        found.append(np.asarray(code.structure.hardest))
    return found


def error_without(code: GradientCode, stragglers: IntArray) -> float:
    """The relative error of the gradient decoded from honest messages, in float64."""
    partial = np.random.default_rng(1).standard_normal((code.n_tasks * code.n_pieces, 3))
    decoding = make_decoder(code).decode(code.messages_without(stragglers))
    assert decoding.exact
    found = decoding.weights @ (code.encoding @ partial)[decoding.messages]
    full = code.target @ partial
    return float(np.linalg.norm(found - full) / np.linalg.norm(full))


@pytest.mark.slow
@pytest.mark.parametrize("family", STATED)
@pytest.mark.parametrize("n", [25, 60, pytest.param(120, marks=pytest.mark.slow)])
def test_the_stated_tolerance_holds_in_float64(family, n):
    code = STATED[family](n)
    stated = max(1.0, conditioning(code, samples=20).amplification)
    for stragglers in hard_sets(code, seed=n):
        assert error_without(code, stragglers) <= 1e-9 * stated


@pytest.mark.slow
@pytest.mark.parametrize("family", ["cyclic_mds", "cyclic_repetition", "reed_solomon", "exact_cyclic"])
def test_nobody_finds_a_much_worse_set_than_the_code_names(family):
    code = STATED[family](40)
    stated, random = float(np.asarray(code.structure.amplification)), np.random.default_rng(9)
    chosen, worst = random.permutation(40)[: code.tolerance], 0.0
    for _ in range(150):  # climb by exchanging workers
        tried = chosen.copy()
        tried[random.integers(len(tried))] = random.choice(np.setdiff1d(np.arange(40), chosen))
        weights = make_decoder(code).decode(code.messages_without(tried)).weights
        if np.abs(weights).max() > worst:
            worst, chosen = float(np.abs(weights).max()), tried
    assert error_without(code, chosen) <= 1e-9 * max(1.0, stated)


LOST = ((50, 19), (60, 15), (70, 13), (80, 11), (100, 11), (100, 21), (150, 9), (200, 9), (300, 7))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "s"), LOST)
def test_what_float64_does_not_bear_is_refused_and_another_construction_bears_it(n, s):
    with pytest.raises(InvalidArgument, match=rf"cannot bear {s}.*use reed_solomon\({n}, load={s + 1}\)"):
        codes.build("cyclic_mds", n, s)
    chosen = codes.build("exact_cyclic", n, s)
    assert (chosen.load, chosen.tolerance) == (s + 1, s)
    assert schemes.exact(n, s + 1, code="cyclic").code.tolerance == s
    for stragglers in (np.arange(s), np.arange(n - 2, n - 2 + s) % n, np.asarray(chosen.structure.hardest)):
        assert error_without(chosen, stragglers) <= 1e-9 * max(1.0, float(np.asarray(chosen.structure.amplification)))


@pytest.mark.slow
@pytest.mark.parametrize("n", [30, 100, 101, 300])
def test_reed_solomon_hardly_amplifies(n):
    for load in (2, n // 10, n // 5):
        code = codes.build("reed_solomon", n, load)
        for stragglers in hard_sets(code, seed=load):
            assert error_without(code, stragglers) <= 1e-12


# --- any size -------------------------------------------------------------------------------------------------------

LARGE: dict[str, Callable[[], GradientCode]] = {
    "cyclic_repetition(1100, 1)": lambda: codes.cyclic_repetition(1100, 1),
    "cyclic_repetition(2000, 1)": lambda: codes.cyclic_repetition(2000, 1),
    "complex_cyclic_mds(1100, 3)": lambda: codes.build("complex_cyclic_mds", n_workers=1100, stragglers=3),
    "draco_cyclic(3000, 1)": lambda: codes.build("draco_cyclic", n_workers=3000, corrupted=1),
    "exact_cyclic(2000, 5)": lambda: codes.build("exact_cyclic", n_workers=2000, stragglers=5),
    "reed_solomon(2000, 6)": lambda: codes.build("reed_solomon", n_workers=2000, load=6),
    "reed_solomon(1500, 8, 2000)": lambda: codes.build("reed_solomon", n_workers=1500, load=8, n_tasks=2000),
    "refined": lambda: codes.build(
        "refine", code=codes.build("cyclic_mds", n_workers=1200, stragglers=3), n_tasks=2500
    ),
    "nested(1101, 2)": lambda: codes.build("nested", n_workers=1101, stragglers=2),
    "custom": lambda: codes.custom(codes.cyclic_repetition(1100, 1).encoding, tolerance=1),
    "refined, without a closed form": lambda: codes.build(
        "refine", code=codes.cyclic_repetition(1501, 1), n_tasks=3003
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_codes_of_more_than_a_thousand_messages_decode(name):
    code = LARGE[name]()
    for stragglers in [np.zeros(0, dtype=np.int64), *hard_sets(code, seed=3)[:4]]:
        assert error_without(code, stragglers) <= 1e-9 * max(1.0, code.structure.amplification or 1.0)


def test_a_session_of_a_large_code_is_exact_when_its_decoding_is():
    code = codes.cyclic_repetition(1100, 1)
    session = make_decoder(code).begin()
    session.extend(range(2, 1099))
    for worker in (1099, 0):
        assert not session.exact()
        session.add(worker)
    assert session.exact()
    assert session.decoding().exact
    assert session.residual() == session.decoding().residual


# --- training -------------------------------------------------------------------------------------------------------


def trained(code: GradientCode, dead: range = range(0), steps: int = 2) -> tuple[float, float]:
    """Train while some are dead; return the distance from plain descent and the largest residual."""
    problem = Quadratic.random(2 * code.n_tasks, 4, seed=1, l2=0.01)
    engine = engines.VirtualEngine(delays.Exponential(mean=0.5, seed=3))
    for worker in dead:
        engine.kill(worker, 0.0)
    optimizer = optimizers.GradientDescent(problem.initial(), 0.2)
    scheme = schemes.custom(code, "decodable()")
    done = train(
        problem, scheme, optimizer, engine, steps, evaluate_every=0, fault_policy=FaultPolicy(on_death="leave")
    )
    x = problem.initial()
    for _ in range(steps):
        x = x - 0.2 * (problem.gradient(x) + problem.penalty_gradient(x))
    return float(np.abs(done.x - x).max() / np.abs(x).max()), max(row.residual for row in done.steps)


@pytest.mark.parametrize(
    ("build", "dead"),
    [  # made where they are needed: each process that tests are dealt out to would make them all
        (lambda: codes.build("draco_cyclic", n_workers=100, corrupted=4), range(0)),
        (lambda: codes.build("draco_cyclic", n_workers=100, corrupted=4), range(8)),
        (lambda: codes.build("cyclic_mds", n_workers=100, stragglers=9), range(9)),
        (lambda: codes.build("exact_cyclic", n_workers=100, stragglers=11), range(11)),
        pytest.param(lambda: codes.cyclic_repetition(1100, 1), range(1), marks=pytest.mark.slow),
    ],
)
def test_training_with_an_exact_code_is_gradient_descent(build, dead):
    code = build()
    apart, residual = trained(code, dead)
    assert apart <= 1e-9 * max(1.0, float(np.asarray(code.structure.amplification)))
    assert residual <= 1e-12 * code.n_tasks


@pytest.mark.parametrize("n", [30, 100])
def test_more_dead_than_a_code_bears_are_unreachable(n):
    code = codes.build("cyclic_mds", n, 5)
    with pytest.raises(Unreachable, match="will not answer"):
        trained(code, range(6))
    with pytest.raises(Unreachable, match="will not answer"):
        trained(codes.build("draco_cyclic", n, 2), range(3 * n // 4))


def test_a_code_that_never_decodes_is_unreachable_and_not_an_engine_failure():
    code = codes.build("bernoulli", n_workers=12, load=1, nobody_idle=False)
    assert code.replication.min() == 0
    claimed = codes.GradientCode(
        name="claimed",
        parameters={},
        encoding=code.encoding,
        owner=code.owner,
        n_workers=12,
        n_tasks=12,
        tolerance=0,
    )
    with pytest.raises(Unreachable, match=r"all messages of .* are in, and leave a residual"):
        trained(claimed)

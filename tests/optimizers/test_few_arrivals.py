"""The first steps of the solver that sets itself: from few arrivals where that pays."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import schemes
from erasurehead.delays import Delays, Exponential, Fixed, parse
from erasurehead.engines import VirtualEngine
from erasurehead.faults import FaultPolicy
from erasurehead.optimizers import QuasiNewton, _few_arrivals as few_arrivals
from erasurehead.optimizers._base import Answer, PartialGradient
from erasurehead.optimizers._few_arrivals import FewArrivals
from erasurehead.optimizers._lbfgs_memory import LBFGSMemory
from erasurehead.optimizers._part_memory import PartMemory
from erasurehead.problems import ElasticNet, LeastSquares, LogisticRegression, Penalty, Problem, Regression
from erasurehead.training import Callback, Resumption, Run, StepRow, train

from ..arrays import Array
from ..kept_states import KeptStates
from ..problems.linex import add_linex

N, WORKERS = 600, 30
NO_PENALTY = LeastSquares(np.eye(1), np.ones(1)).regularizer


def problem(order: str = "shuffled", loss: str = "squares", penalty: Penalty | None = None) -> Problem:
    """Numbers, and a column that is in one task alone."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((N, 8)) * 10.0 ** np.linspace(-2.0, 2.0, 8)
    X = np.column_stack([X, np.zeros(N)])
    X[:5, 8] = 1.0
    y = X[:, :8] @ (rng.standard_normal(8) / 10.0 ** np.linspace(-2.0, 2.0, 8)) + rng.standard_normal(N)
    rows = np.argsort(y) if order == "sorted" else np.arange(N)
    if loss == "logistic":
        return LogisticRegression(X[rows], np.where(y[rows] > 0.0, 1.0, -1.0), l2=1e-3)
    return LeastSquares(X[rows], y[rows], l2=0.0 if penalty else 1e-3, penalty=penalty)


def plain(one: Problem) -> Problem:
    """Return the same problem, whose shards know no second derivatives between columns, and solve nothing."""
    one.outputs, one.newton = 0, False
    return one


def fit(one: Problem, delays: Delays, late: Any = "preempt", steps: int = 400, **others: Any) -> Run:
    optimizer = others.pop("optimizer", None) or QuasiNewton(one.initial())
    engine = VirtualEngine(delays, late, seconds_per_task=1e-5)
    scheme = others.pop("scheme", None) or schemes.adaptive(WORKERS)
    return train(one, scheme, optimizer, engine, steps, **others)


def early(run: Run) -> int:
    return sum(row.kind == "early" for row in run.steps)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squares", "logistic"])
@pytest.mark.parametrize("order", ["shuffled", "sorted"])
@pytest.mark.parametrize(("late", "seed"), [("preempt", 0), ("carry", 2)])
def test_a_run_that_begins_with_few_arrivals_ends_at_the_same_optimum(
    loss: str, order: str, late: str, seed: int
) -> None:
    one = problem(order, loss)
    run = fit(one, Exponential(0.5, seed=seed), late, evaluate_every=0)
    whole = fit(one, Exponential(0.5, seed=seed), "drop(1)", evaluate_every=0)
    assert {row.kind for row in whole.steps[1:]} <= {"gradient", "curvature"}
    assert (run.ended, whole.ended) == ("converged", "converged")
    assert run.final is not None
    assert whole.final is not None
    assert run.final.objective <= whole.final.objective + 1e-9 * whole.final.first_objective
    kinds = [row.kind for row in run.steps]
    count = early(run)
    assert kinds[:count] == ["early"] * count  # and never again
    assert count > 1
    for row in run.steps[1:count]:
        assert row.arrived < WORKERS / 3
        assert row.stepped
        assert row.decision["act"] in ("few", "whole")
    assert run.steps[count - 1].decision["act"] == "whole"
    assert run.steps[count - 1].decision["why"] in ("level", "slow", "rise")


def exponential(loss: str, order: str = "shuffled", longer: bool = True) -> Problem:
    """Labels of a loss whose curvature has no bound; longer samples explode soon."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((3000, 10)) * np.geomspace(0.3, 1.0, 10)
    if longer:
        X *= np.exp(0.5 * rng.standard_normal((3000, 1)))
    score = np.clip(X @ (0.5 * rng.standard_normal(10)), -8.0, 8.0)
    means = np.exp(score)
    y = {"poisson": rng.poisson(means), "gamma": rng.gamma(1.0, means) + 1e-9}.get(loss, score + rng.normal(size=3000))
    rows = np.argsort(score) if order == "sorted" else np.arange(3000)
    return Regression(X[rows], np.asarray(y, dtype=np.float64)[rows], loss=loss, l2=1e-3)


@cache
def least(loss: str, order: str) -> float:
    """The minimum of what is exponential, from whole gradients."""
    final = fit(exponential(loss, order), parse("none()"), "drop(1)", evaluate_every=0).final
    assert final is not None
    return final.objective


@pytest.mark.slow
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("loss", ["poisson", "gamma", "linex"])
def test_where_the_curvature_has_no_bound_no_step_is_too_long_to_come_back_from(
    loss: str, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_linex(monkeypatch)
    orders = ("sorted", "shuffled") if own else ("shuffled", "sorted")
    for seed, (late, order) in enumerate(zip(("preempt", "carry"), orders, strict=True), start=2 * own):
        one = exponential(loss, order)
        run = fit(one if own else plain(one), Exponential(0.5, seed=seed), late, steps=1000, evaluate_every=0)
        assert run.ended == "converged"
        assert early(run) > 1
        assert any("own" in row.decision for row in run.steps) == own
        assert run.final is not None
        assert run.final.objective == pytest.approx(least(loss, order), rel=1e-8)


@pytest.mark.parametrize("seed", [5, 10])
def test_searches_that_fail_where_nothing_is_promised_do_not_begin_again_for_ever(seed: int) -> None:
    one = exponential("poisson", longer=False)
    one.newton = False
    run = fit(one, Exponential(0.5, seed=seed), "carry", evaluate_every=0)
    assert run.ended == "converged"
    assert run.final is not None
    assert run.final.gradient_left < 1e-12


@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_shuffled_data_are_at_a_rough_model_far_sooner(late: str) -> None:
    one, won = problem(), 0
    for seed in range(5):
        few = fit(one, Exponential(0.5, seed=seed), late, until="gap < 1e-1")
        whole = fit(one, Exponential(0.5, seed=seed), "drop(1)", until="gap < 1e-1")
        assert early(whole) == 0
        won += few.steps[-1].end < 0.5 * whole.steps[-1].end
    assert won >= 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_tasks_that_differ_are_left_at_the_newest_model_however_low_their_losses_were_before(seed: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 20)) * np.logspace(0, -1, 20)
    score = X @ np.linspace(1.0, 4.0, 20) + 0.5 * rng.standard_normal(3000)
    rows = np.argsort(score)
    one = LogisticRegression(X[rows], np.sign(score[rows]), l2=1e-3)
    delays, whole = Exponential(0.5, seed=seed), fit(one, parse("none()"), evaluate_every=0).final
    assert whole is not None
    left: list[Array] = []

    class Last(Callback):
        def on_step_end(self, row: StepRow, x: Array) -> None:
            if row.decision["act"] == "whole":
                left.append(x.copy())

    fit(one, delays, "carry", scheme=schemes.adaptive(WORKERS, 1), callbacks=[Last()], evaluate_every=0, steps=120)
    (x,) = left
    assert one.objective(x) - whole.objective < 1e-4 * (one.objective(one.initial()) - whole.objective)


ALIKE = Fixed([[0.3] * WORKERS])


@pytest.mark.parametrize("delays", [parse("none()"), ALIKE, ALIKE + Exponential(0.02, seed=1)])
def test_where_nobody_is_slow_every_gradient_is_whole(delays: Delays) -> None:
    one = problem()
    *runs, whole = (fit(one, delays, late, evaluate_every=0) for late in ("preempt", "carry", "drop(1)"))
    for run in runs:
        assert [row.kind for row in run.steps[:4]] == ["early"] * 3 + ["gradient"]
        for row in run.steps:
            assert row.residual == 0.0
            assert row.decision["act"] in ("accept", "shorten", "stop")
        assert [row.work for row in run.arrivals if row.step == 1 and row.used] == [3.0] * 10  # no curvatures again
        assert run.x.tobytes() == whole.x.tobytes()
        assert len(run.steps) == len(whole.steps)


def cold_start(seed: int) -> Delays:
    """Delays of half a second, and the first order takes all workers a while: their machines are cold."""
    first = np.zeros((1000, WORKERS))
    first[0] = 0.3
    return Fixed(first.tolist()) + Exponential(0.5, seed=seed)


@pytest.mark.parametrize(("loss", "late"), [("squares", "preempt"), ("logistic", "carry")])
@pytest.mark.slow
def test_a_first_order_that_all_answer_late_does_not_decide_for_ever(late: str, loss: str) -> None:
    """The first gradient is whole; what its parts say is kept, and the next order finds out that few arrivals pay."""
    one, kept = plain(problem(loss=loss)), KeptStates(0, 1, 2)
    run = fit(one, cold_start(seed=1), late, evaluate_every=0, callbacks=[kept])
    assert [row.decision["act"] for row in run.steps[:2]] == ["accept", "few"]
    assert run.steps[1].decision["parts"] == WORKERS // 3
    assert {row.work for row in run.arrivals if 0 < row.step < 5 and not row.censored} == {3.0}  # curvatures are known
    assert early(run) > 10
    assert run.ended == "converged"
    for step, state in kept.at.items():
        resume = Resumption(state, run.steps[:step], run.arrivals)
        again = fit(one, cold_start(seed=1), late, evaluate_every=0, resume=resume)
        assert again.x.tobytes() == run.x.tobytes()


def late_once(seed: int, noise: float) -> Delays:
    """The first order finds many workers late by seconds; from then on they differ by noise alone."""
    rng = np.random.default_rng(seed)
    rows = 0.3 * rng.normal(1.0, noise, (1000, WORKERS))
    rows[0] = rng.exponential(3.0, WORKERS)
    return Fixed(np.maximum(rows, 0.0).tolist())


@cache
def steps_where_nobody_is_late(late: str) -> int:
    return len(fit(problem(), ALIKE, late, evaluate_every=0).steps)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.05, 0.2])
@pytest.mark.parametrize("late", ["preempt", "carry"])
@pytest.mark.parametrize("seed", range(2))
def test_workers_that_were_late_once_do_not_decide_for_ever(seed: int, late: str, noise: float) -> None:
    """However late they are in the first order, the run takes hardly more steps than if nobody ever is."""
    run = fit(problem(), late_once(seed, noise), late, evaluate_every=0)
    why = [row.decision["why"] for row in run.steps if row.decision["act"] == "whole"]
    assert why in (["prompt"], ["missing"], [])
    assert early(run) < 100
    assert len(run.steps) - early(run) <= 2 * steps_where_nobody_is_late(late)
    assert run.ended == "converged"


@pytest.mark.parametrize("seed", range(3))
def test_who_is_slow_for_good_is_waited_for_once_the_others_have_been_regular(seed: int) -> None:
    """With late work dropped, nobody who takes five times as long is ever heard in a step from few arrivals."""
    rng = np.random.default_rng(seed)
    rows = 0.3 * rng.normal(1.0, 0.05, (1000, 12))
    rows[0] = rng.exponential(3.0, 12)
    rows[0, :2], rows[1:, :2] = 15.0, 1.5
    run = fit(problem(), Fixed(rows.tolist()), evaluate_every=0, scheme=schemes.adaptive(12, load=1))
    assert early(run) < 50
    assert run.steps[early(run) - 1].decision["why"] == "missing"
    assert run.ended == "converged"


@pytest.mark.slow
@pytest.mark.parametrize("late", ["preempt", "carry"])
@pytest.mark.parametrize(
    "law", ["exponential(0.5, seed={})", "pareto(0.1, 1.5, seed={})", "exponential(0.5, seed={}, scale_with_load=True)"]
)
def test_workers_that_are_late_again_and_again_are_never_taken_to_be_prompt(law: str, late: str) -> None:
    run = fit(problem(), parse(law.format(0 if late == "preempt" else 1)), late, evaluate_every=0)
    assert early(run) > 2
    assert "prompt" not in [row.decision.get("why") for row in run.steps]


@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_a_step_that_was_too_long_is_shortened_while_orders_may_stop_early(late: str) -> None:
    """The second model is where numbers overflow: it is no beginning for steps from few arrivals."""
    X = np.tile(np.random.default_rng(0).standard_normal((20, 3)), (30, 1))
    one = LeastSquares(X, np.full(600, 1.0), l2=1e-3)
    few = QuasiNewton(np.zeros(3))
    run = fit(one, parse("none()"), late, 1, optimizer=few)
    assert run.steps[0].decision["act"] == "accept"
    assert few.ask().kind == "early"
    few.tell(Answer(None, np.inf))
    assert few.decision["act"] == "shorten"
    assert few.ask().kind == "gradient"


def alike() -> Problem:
    """All tasks of the same rows, of columns that depend on each other: no noise, and far to go."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 12)) @ (rng.standard_normal((12, 12)) * 4.0 ** -np.arange(12))
    return LeastSquares(np.tile(X, (30, 1)), np.tile(rng.standard_normal(40), 30), l2=1e-9)


@pytest.mark.parametrize("late", ["preempt", "carry"])
@pytest.mark.parametrize("loss", ["squares", "logistic"])
def test_they_come_near_the_optimum_without_any_whole_gradient(loss: str, late: str) -> None:
    one = problem("sorted", loss)
    run = fit(one, Exponential(0.5, seed=2), late, until="gap < 1e-4")
    assert early(run) == len(run.steps)


@pytest.mark.parametrize("seed", range(4))
def test_where_late_work_is_carried_on_late_answers_count(seed: int) -> None:
    """Curvatures are asked for once, and no step waits for workers that have begun with its own order alone."""
    run = fit(plain(alike()), Exponential(0.5, seed=seed), "carry", evaluate_every=0)
    count = early(run)
    assert {row.work for row in run.arrivals if row.step == 0 and not row.censored} == {6.0}
    assert {row.work for row in run.arrivals if 0 < row.step < count and not row.censored} == {3.0}
    came = [sum(row.taken == step and not row.censored for row in run.arrivals) for step in range(1, count - 1)]
    assert min(came) >= 1
    assert sum(row.arrived == 0 for row in run.steps[1:count]) > count / 4  # late answers were enough


def test_a_part_that_is_never_heard_is_not_waited_for_for_ever() -> None:
    """All workers of a group are fifty seconds late once."""
    slow = np.zeros((60, WORKERS))
    slow[0, :3] = 50.0
    delays = Fixed(slow.tolist()) + Exponential(0.5, seed=3)
    run = fit(alike(), delays, "carry", evaluate_every=0, steps=200)
    count = early(run)
    assert run.steps[count - 1].end < 20.0
    assert run.steps[count - 1].decision["why"] == "missing"
    assert run.ended == "converged"


@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_more_numbers_than_can_be_kept_are_not_kept(late: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few_arrivals, "_MOST_NUMBERS", 80)  # of ten parts, each with nine columns
    run = fit(problem(), Exponential(0.5, seed=1), late, evaluate_every=0)
    assert [row.decision["why"] for row in run.steps if row.kind == "early"] == ["size"]
    assert run.ended == "converged"


@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_each_early_order_is_a_message_of_one_vector_once_all_curvatures_are_known(late: str) -> None:
    run = fit(plain(problem()), Exponential(0.5, seed=1), late, evaluate_every=0)
    parts: set[int] = set()
    for step in range(early(run)):
        (work,) = {row.work for row in run.arrivals if row.step == step and not row.censored}
        known = len(parts) == WORKERS // 3 or (late == "carry" and step > 0)
        assert work == (3.0 if known else 6.0)
        parts |= {row.message // 3 for row in run.arrivals if row.step == step and row.used}


def test_messages_that_are_compared_are_never_taken_late() -> None:
    run = fit(problem(), Exponential(0.5, seed=1), "carry", fault_policy=FaultPolicy(verify=True), steps=20)
    assert early(run) == 0


@pytest.mark.parametrize("what", ["l1", "drop(1)", "other scheme"])
def test_where_few_arrivals_are_of_no_use_all_orders_are_for_whole_gradients(what: str) -> None:
    one = problem(penalty=ElasticNet(0.01) if what == "l1" else None)
    scheme = schemes.exact(WORKERS, load=3) if what == "other scheme" else None
    late = "drop(1)" if what == "drop(1)" else "carry"
    run = fit(one, Exponential(0.5, seed=1), late, 30, scheme=scheme)
    assert early(run) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("late", "dtype", "steps"),
    [
        ("preempt", "float64", (1, 7, 50)),
        ("preempt", "float32", (2, 20)),
        ("carry", "float64", (2, 10)),
        ("carry", "float32", (1, 3, 30)),
    ],
)
def test_it_goes_on_from_any_early_step_to_the_bit(late: str, steps: tuple[int, ...], dtype: str) -> None:
    one, kept = problem(), KeptStates(*steps)
    x = one.initial().astype(dtype)
    whole = fit(one, Exponential(0.5, seed=4), late, steps=60, optimizer=QuasiNewton(x), callbacks=[kept])
    assert early(whole) > max(steps)
    for step in steps:
        resume = Resumption(kept.at[step], whole.steps[:step], whole.arrivals)
        again = fit(one, Exponential(0.5, seed=4), late, steps=60, optimizer=QuasiNewton(x), resume=resume)
        assert again.x.tobytes() == whole.x.tobytes()
        assert [row.as_dict() for row in again.steps] == [row.as_dict() for row in whole.steps]


@pytest.mark.slow
@given(
    st.integers(0, 2**31),
    st.sampled_from(["exponential", "pareto"]),
    st.integers(2, 9),
    st.integers(1, 4),
    st.sampled_from(["preempt", "carry"]),
)
@settings(max_examples=25)
def test_no_number_of_workers_and_no_delay_ends_in_infinity(
    seed: int, law: str, workers: int, load: int, late: str
) -> None:
    one = problem("sorted" if seed % 2 else "shuffled", "logistic" if seed % 3 else "squares")
    pareto = parse(f"pareto(0.1, 1.1, seed={seed})")
    delays = Exponential(0.5, seed=seed) if law == "exponential" else pareto
    scheme = schemes.adaptive(workers, load=min(load, workers))
    run = fit(one, delays, late, scheme=scheme, evaluate_every=0)
    assert run.ended == "converged"
    assert run.final is not None
    assert np.isfinite(run.x).all()
    assert run.final.gradient_left < 1e-4


class Kill(Callback):
    """Kills workers after the second step."""

    def __init__(self, engine: VirtualEngine, workers: tuple[int, ...]) -> None:
        self.engine, self.workers = engine, workers

    def on_step_end(self, row: Any, x: Array) -> None:
        if row.step == 1:
            for worker in self.workers:
                self.engine.kill(worker)


@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_early_steps_live_with_workers_that_die(late: Any) -> None:
    one, delays = problem(), Exponential(0.5, seed=1)
    engine = VirtualEngine(delays, late, seconds_per_task=1e-5)

    optimizer = QuasiNewton(one.initial())
    run = train(one, schemes.adaptive(WORKERS), optimizer, engine, 400, [Kill(engine, (0, 1, 2, 9))], evaluate_every=0)
    assert run.ended == "converged"
    assert early(run) > 2
    assert any(row.events for row in run.steps)


@pytest.mark.slow
@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_tasks_that_are_lost_end_the_early_steps(late: Any) -> None:
    one, delays = problem(), Exponential(0.5, seed=1)
    engine = VirtualEngine(delays, late, seconds_per_task=1e-5)

    optimizer = QuasiNewton(one.initial())
    policy = FaultPolicy(on_death="leave", on_loss="go_on")
    run = train(
        one,
        schemes.adaptive(WORKERS),
        optimizer,
        engine,
        60,
        [Kill(engine, (0, 1, 2))],
        evaluate_every=0,
        fault_policy=policy,
    )
    assert run.steps[-1].lost == [*range(18)]  # tasks 0 to 2, in six pieces each
    assert run.steps[early(run) - 1].decision == {"act": "whole", "why": "unknown"}
    assert run.steps[-1].kind == "gradient"
    assert np.isfinite(run.x).all()


def test_models_that_are_only_estimated_are_told_as_such() -> None:
    """What a run ends with in its early steps is measured from all the data, as always."""
    one = problem()
    run = fit(one, Exponential(0.5, seed=1), steps=3)
    assert early(run) == 3
    assert run.objective == pytest.approx(one.objective(run.x), rel=1e-12)
    assert run.final is not None
    assert run.final.objective < run.final.first_objective


def test_what_is_moved_by_is_a_gradient_of_all_data_where_parts_are_alike() -> None:
    """All tasks of the same rows: whatever part comes, its estimate is the whole gradient."""
    rng = np.random.default_rng(0)
    X, y = np.tile(rng.standard_normal((20, 3)), (30, 1)), np.tile(rng.standard_normal(20), 30)
    one = LeastSquares(X, y, l2=1e-3)
    models: list[Array] = []

    class Keep(Callback):
        def on_step_end(self, row: Any, x: Array) -> None:
            models.append(x)

    run = fit(one, Exponential(0.5, seed=1), steps=2, callbacks=[Keep()])
    assert early(run) == 2
    for row in run.steps:
        x = one.initial() if row.step == 0 else models[0]
        assert row.loss == pytest.approx(one.objective(x), rel=1e-12)
        assert row.gradient_norm == pytest.approx(
            float(np.linalg.norm(one.gradient(x) + one.penalty_gradient(x))), rel=1e-10
        )


@pytest.mark.slow
@pytest.mark.parametrize(("after", "late"), [(1, "preempt"), (2, "carry"), (3, "preempt")])
def test_the_code_may_be_resized_in_the_middle_of_early_steps(late: str, after: int) -> None:
    one = problem()
    run = fit(
        one,
        Exponential(0.5, seed=1),
        late,
        steps=300,
        wanted=lambda step: 24 if step >= after else None,
        fault_policy=FaultPolicy(),
    )
    assert run.ended == "converged"
    assert {row.workers for row in run.steps} == {24, 30}
    assert early(run) >= min(after, 2)


def test_a_single_step_may_bring_more_answers_than_it_waits_for_falls() -> None:
    """After a stall many late answers come at once: six times as many as there are parts, within two steps."""
    few, x, step = (
        FewArrivals(NO_PENALTY, LBFGSMemory(), 2, carried=True),
        np.zeros(2),
        0,
    )
    for count in (1, 1, 7):
        assert not few.why
        said: list[PartialGradient] = []
        for _ in range(count):
            few.ask(x, step)
            said.append(PartialGradient(step, (0,), 1.0, np.zeros(2), 1.0, np.ones(2), 1.0))
            step += 1
        assert few.hear(said)
        x = few.move(x)
    assert few.why == "level"
    np.testing.assert_array_equal(x, np.zeros(2))


@pytest.mark.parametrize(
    ("losses", "counts"),
    [((1.0, 0.2, 0.1), [False, True, True]), ((1.0, 0.8, 0.1), [False, False, True]), ((1.0, 1.5, 1.5), [True] * 3)],
)
def test_gradients_of_much_worse_models_do_not_hold_back_the_first_steps(
    losses: tuple[float, ...], counts: list[bool]
) -> None:
    """Three parts that are alike speak in turn."""
    few, x, third = FewArrivals(NO_PENALTY, LBFGSMemory(), 1), np.zeros(1), 1.0 / 3.0
    for number, loss in enumerate(losses):
        few.ask(x, number)
        part = PartialGradient(number, (number,), third, third * (x - 1.0), third * loss, third * np.ones(1), third)
        assert few.hear([part])
        x = few.move(x)
    assert [part.counts for part in few._known.parts.values()] == counts


@given(st.integers(0, 2**31), st.integers(1, 4))
def test_what_is_left_behind_leaves_nothing_in_the_sums(seed: int, first: int) -> None:
    rng = np.random.default_rng(seed)
    memory, fresh = PartMemory(4), PartMemory(4)
    for step in range(5):
        bends = 10.0 ** rng.uniform(-9.0, 9.0, 4) * (rng.random(4) < 0.5)
        said = PartialGradient(step, (step,), 0.2, rng.standard_normal(4), 1.0, bends)
        point = rng.standard_normal(4)
        memory.take(said, point)
        if step >= first:
            fresh.take(said, point)
    memory.restart(first)
    x = np.full(4, 7.0)
    np.testing.assert_array_equal(memory.centre(x), fresh.centre(x))
    np.testing.assert_array_equal(memory.gradient, fresh.gradient)
    assert memory.share == pytest.approx(fresh.share)


def test_a_part_whose_curvature_is_not_known_is_left_out() -> None:
    """A real worker may come to the second order first: nobody says how much the columns bend that it alone has."""
    few = FewArrivals(NO_PENALTY, LBFGSMemory(), 3, carried=True)
    first = PartialGradient(0, (0,), 0.5, np.array([1.0, 1.0, 0.0]), 1.0, np.array([2.0, 2.0, 0.0]), 1.0)
    second = PartialGradient(1, (1,), 0.5, np.array([0.5, 0.0, 1.0]), 1.0)
    few.ask(np.zeros(3), 0)
    assert few.hear([first])
    x = few.move(np.zeros(3))
    assert (x[:2] < 0.0).all()
    assert x[2] == 0.0
    few.ask(x, 1)
    assert few.hear([second])
    np.testing.assert_array_equal(few.move(x), x)
    assert few.bound is None
    assert few.hear([replace(second, step=0, curvature=np.array([1.0, 0.0, 4.0]), entries=1.0)])
    assert few.bound is not None
    np.testing.assert_array_equal(few.bound[0], [3.0, 2.0, 4.0])
    assert not few.hear([replace(second, tasks=(1, 2))])  # the code was resized


@given(st.integers(0, 2**31), st.integers(1, 6), st.integers(1, 5))
def test_a_step_ends_at_the_minimum_of_a_quadratic_whatever_the_ages_of_gradients_are(
    seed: int, n_parts: int, n_parameters: int
) -> None:
    """As the curvatures are the Hessian here, and each gradient is of a model of its own."""
    rng = np.random.default_rng(seed)
    bends = rng.uniform(0.1, 10.0, (n_parts, n_parameters)) * (rng.random((n_parts, n_parameters)) < 0.7)
    minima = rng.standard_normal((n_parts, n_parameters))
    memory = PartMemory(n_parameters)
    for part in range(n_parts):
        for step in sorted(rng.choice(50, 3, replace=False).tolist()):
            point = rng.standard_normal(n_parameters)
            gradient = bends[part] * (point - minima[part])
            said = PartialGradient(step, (part,), 1.0 / n_parts, gradient, 0.0, bends[part])
            assert memory.take(said, point)
        assert not memory.take(replace(said, step=step - 1), point)
    assert memory.whole
    total = bends.sum(axis=0)
    known = total > 0.0
    there = memory.centre(np.zeros(n_parameters)) - memory.gradient / np.where(known, total, 1.0)
    best = np.where(known, (bends * minima).sum(axis=0) / np.where(known, total, 1.0), 0.0)
    np.testing.assert_allclose(there, best, rtol=0.0, atol=1e-9)

"""What a rule and an aggregation learn belongs to a run: two runs of one scheme, a resized code, a resumed run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from erasurehead import codes, schemes
from erasurehead.decoding import Decoder
from erasurehead.delays import Exponential
from erasurehead.engines import Arrived, Order, VirtualEngine
from erasurehead.errors import InvalidArgument
from erasurehead.optimizers import Answer, GradientDescent, Nesterov, Optimizer
from erasurehead.schemes import Aggregation, LateMessage, wait_rules
from erasurehead.schemes.wait_rules import Verdict, View, WaitRule
from erasurehead.testing._problems import Quadratic
from erasurehead.training import Callback, Resumption, Run, train

from ..arrays import Array

PROBLEM = Quadratic.random(24, 6, seed=4, l2=0.01)


class Patience(WaitRule):
    """Waits for one worker more than the mean of those that had come before, at most all but one."""

    remembers = True

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.lates = 0

    def begin(self) -> WaitRule:
        return Patience()

    @property
    def wanted(self) -> int:
        return 1 + round(sum(self.seen[-5:]) / max(1, len(self.seen[-5:])))

    def verdict(self, view: View) -> Verdict:
        enough = view.finished >= min(self.wanted, len(view.able) - 1)
        return Verdict.STOP if enough and view.arrived else Verdict.WAIT

    def learn(self, step: Any, arrivals: Sequence[Any]) -> None:
        self.seen.append(step.arrived % 4)
        self.lates += sum(row.late for row in arrivals)

    def stop_times(self, times: Array, decoder: Decoder) -> Array:
        return np.sort(times, axis=1)[:, 0]

    def state(self) -> Any:
        return {"seen": list(self.seen), "lates": self.lates}

    def restore(self, state: Any) -> None:
        self.seen, self.lates = list(state["seen"]), int(state["lates"])

    def __str__(self) -> str:
        return "patience()"


class Momentum(Aggregation):
    """Adds half of all estimates before, and of all late messages."""

    wants_late = True
    checkpointed = ("sum", "steps")

    def __init__(self) -> None:
        self.sum = np.zeros(7)
        self.steps = 0

    def begin(self) -> Aggregation:
        return Momentum()

    def late(self, message: LateMessage) -> None:
        self.sum = self.sum + 0.01 * message.vector

    def estimate(self, decoding: Any, vectors: Sequence[Array], layout: Any, order: Order) -> Array | None:
        found = schemes.uncoded(1).aggregation.estimate(decoding, vectors, layout, order)
        if found is not None:
            self.sum = 0.5 * self.sum + found
        return self.sum

    def learn(self, step: Any, arrivals: Sequence[Any]) -> None:
        self.steps += 1


class States(Callback):
    def __init__(self) -> None:
        self.taken: list[Any] = []

    def on_state(self, step: int, state: Any) -> None:
        self.taken.append(state())


RULES = {
    "learning": lambda: Patience(),
    "joined": lambda: wait_rules.first(6) | (Patience() & wait_rules.first(1)),
    "arrivals": lambda: wait_rules.parse("arrivals(2)"),
    "aged": lambda: wait_rules.parse("arrivals(1)") & wait_rules.parse("aged(4)"),
}


def go(scheme: schemes.Scheme, steps: int, resume: Resumption | None = None, **others: Any) -> tuple[Run, States]:
    states = States()
    engine = VirtualEngine(Exponential(0.5, seed=3), "carry")
    run = train(PROBLEM, scheme, Nesterov(np.zeros(6), 0.0005), engine, steps, [states], resume=resume, **others)
    return run, states


def equal(one: Run, other: Run) -> None:
    assert one.x.tobytes() == other.x.tobytes()
    assert list(one.steps) == list(other.steps)
    assert list(one.arrivals) == list(other.arrivals)


@pytest.mark.parametrize("rule", RULES)
def test_two_runs_of_one_scheme_know_nothing_of_each_other(rule: str) -> None:
    scheme = schemes.custom(codes.uncoded(6), RULES[rule](), Momentum())
    equal(go(scheme, 15)[0], go(scheme, 15)[0])
    equal(go(scheme, 15)[0], go(schemes.custom(codes.uncoded(6), RULES[rule](), Momentum()), 15)[0])


@pytest.mark.parametrize("rule", RULES)
def test_a_run_goes_on_from_any_step_to_the_bit(rule: str) -> None:
    scheme = schemes.custom(codes.uncoded(6), RULES[rule](), Momentum())
    whole, states = go(scheme, 15)
    for step in (1, 6, 11):
        rows = [row for row in whole.arrivals if row.taken is not None and row.taken < step]
        rows += [row for row in whole.arrivals if row.taken is None and row.round < step]
        resume = Resumption(states.taken[step], whole.steps[:step], rows)
        again = go(scheme, 15, resume)[0]
        assert again.x.tobytes() == whole.x.tobytes()
        assert list(again.steps) == list(whole.steps)


def test_what_was_learnt_survives_the_re_forming_of_the_code_and_a_checkpoint_after_it() -> None:
    scheme = schemes.custom(codes.uncoded(6, 12), RULES["joined"](), Momentum())
    whole, states = go(scheme, 12, wanted={5: 8}.get)
    assert whole.steps[-1].workers == 8
    seen = [state["rules"]["gradient"] for state in states.taken]
    assert [len(_learnt(one)["seen"]) for one in seen] == list(range(13))
    assert [state["aggregation"]["steps"] for state in states.taken] == list(range(13))
    resume = Resumption(states.taken[8], whole.steps[:8], [])
    assert go(scheme, 12, resume)[0].x.tobytes() == whole.x.tobytes()


def _learnt(state: Any) -> Any:
    if "rules" in state:
        return next((found for one in state["rules"] if (found := _learnt(one))), None)
    return state if "seen" in state else None


def test_ages_are_kept_for_rules_that_say_that_they_read_them() -> None:
    class Forgets(Patience):
        remembers = False

        def begin(self) -> WaitRule:
            return self

        def verdict(self, view: View) -> Verdict:
            return Verdict.STOP if view.ages.max() > 0 else Verdict.WAIT

    scheme = schemes.custom(codes.uncoded(6), Forgets())
    with pytest.raises(InvalidArgument, match="remembers"):
        train(PROBLEM, scheme, GradientDescent(np.zeros(6), 0.1), VirtualEngine(), 3)


@pytest.mark.slow
def test_no_task_is_older_than_is_allowed_and_the_rule_waits_no_longer_than_that() -> None:
    ages: list[int] = []

    class Ages(Momentum):
        checkpointed = ("newest",)

        def begin(self) -> Aggregation:
            return Ages()

        def __init__(self) -> None:
            super().__init__()
            self.newest = np.full(6, -1)

        def late(self, message: LateMessage) -> None:
            super().late(message)
            self.newest[message.message] = max(self.newest[message.message], message.step)

        def estimate(self, decoding: Any, vectors: Any, layout: Any, order: Order) -> Array | None:
            self.newest[list(vectors.arrived)] = order.step
            ages.append(int((order.step - self.newest).max()))
            return super().estimate(decoding, vectors, layout, order)

    run, _ = go(schemes.custom(codes.uncoded(6), "arrivals(1) & aged(8)", Ages()), 80)
    assert max(ages) == 8
    free, _ = go(schemes.custom(codes.uncoded(6), "arrivals(1)", Ages()), 80)
    assert run.seconds > free.seconds


class Forgetful(Optimizer):
    """Keeps a velocity, and says so or not; and what does not change."""

    def __init__(self, x: Array) -> None:
        super().__init__(x)
        self.velocity, self.heavy = np.zeros_like(x), 0.9

    def tell(self, answer: Answer) -> None:
        self.step += 1
        self.rejected = False
        self.velocity = self.heavy * self.velocity + answer.estimate
        self.x = self.x - 0.0001 * self.velocity


class Mindful(Forgetful):
    checkpointed = ("velocity",)


class ByHand(Forgetful):
    def state(self) -> Any:
        return {**super().state(), "velocity": self.velocity}


def saved(optimizer: Optimizer, aggregation: Aggregation | None = None) -> Run:
    scheme = schemes.custom(codes.uncoded(6), "first(6)", aggregation)
    return train(PROBLEM, scheme, optimizer, VirtualEngine(), 4, [States()])


def test_what_steps_change_and_no_state_names_is_refused_when_a_state_is_taken() -> None:
    with pytest.raises(InvalidArgument, match=r"checkpointed of Forgetful must name 'velocity', .* \('velocity',\)"):
        saved(Forgetful(np.zeros(6)))
    assert saved(Mindful(np.zeros(6))).status == saved(ByHand(np.zeros(6))).status == "finished"
    scheme = schemes.custom(codes.uncoded(6), "first(6)")
    assert train(PROBLEM, scheme, Forgetful(np.zeros(6)), VirtualEngine(), 4).status == "finished"  # nothing is saved


class Unnamed(Momentum):
    checkpointed = ()
    wants_late = False

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0.0

    def begin(self) -> Aggregation:
        return Unnamed()

    def estimate(self, decoding: Any, vectors: Sequence[Array], layout: Any, order: Order) -> Array | None:
        self.largest += 1.0
        return super().estimate(decoding, vectors, layout, order)


class Shared(Momentum):
    def begin(self) -> Aggregation:
        return self


def test_an_aggregation_that_remembers_says_what_and_begins_anew() -> None:
    with pytest.raises(InvalidArgument, match="checkpointed of Unnamed must name 'largest'"):
        saved(GradientDescent(np.zeros(6), 0.0001), Unnamed())
    with pytest.raises(InvalidArgument, match=r"begin\(\) of Shared must return a new one, .* into other runs"):
        saved(GradientDescent(np.zeros(6), 0.0001), Shared())


class Own(Aggregation):
    """An aggregation that is a function of the decoded sum and of the vectors."""

    def __init__(self, make: Any) -> None:
        self.make = make

    def estimate(self, decoding: Any, vectors: Sequence[Array], layout: Any, order: Order) -> Array | None:
        return self.make(layout.decode(decoding, vectors), vectors)


@pytest.mark.parametrize("make", [lambda sums, _: sums[:-1], lambda sums, _: sums[:, None], lambda sums, _: 0.0])
def test_an_estimate_of_another_shape_is_refused(make: Any) -> None:
    with pytest.raises(
        InvalidArgument, match=r"estimate\(\.\.\.\) of Own must return an array of shape \(7,\), the grad"
    ):
        saved(GradientDescent(np.zeros(6), 0.0001), Own(make))


def test_an_aggregation_of_your_own_may_write_to_vectors_and_keep_them() -> None:
    lent: list[Array] = []
    kept: list[tuple[Array, Array]] = []

    class Watched(VirtualEngine):
        def next_event(self, until: float | None = None) -> Any:
            event = super().next_event(until)
            if isinstance(event, Arrived):
                lent.append(event.read())
            return event

    def doubled(sums: Array, vectors: Sequence[Array]) -> Array:
        kept.append((vectors[0], vectors[0].copy()))
        vectors[1][:] = 0.0
        return vectors[0]

    scheme = schemes.custom(codes.uncoded(6), "first(6)", Own(doubled))
    train(PROBLEM, scheme, GradientDescent(np.zeros(6), 0.0001), Watched(), 3)
    assert all(vector.any() for vector in lent)
    assert all(np.array_equal(now, then) and not any(np.shares_memory(now, one) for one in lent) for now, then in kept)


@pytest.mark.parametrize(
    ("name", "method"), [("begin", lambda self, problem: None), ("tell", lambda self, estimate, rate: None)]
)
def test_an_optimizer_that_cannot_be_told_what_it_is_told_is_refused(name: str, method: Any) -> None:
    own = type("Older", (GradientDescent,), {name: method})
    with pytest.raises(
        InvalidArgument, match=r"optimizer must be told answers: tell\(self, answer\), and begin\(self, pr"
    ):
        saved(own(np.zeros(6), 0.1))

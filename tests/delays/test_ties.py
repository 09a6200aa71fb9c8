"""Messages that arrive at the same moment: nobody is always first, and everybody agrees on who was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import schemes
from erasurehead.delays import Delays, Fixed
from erasurehead.delays._fixed import NoDelay
from erasurehead.delays._sometimes_slow import Bimodal
from erasurehead.delays._ties import precedence, untied
from erasurehead.engines import VirtualEngine
from erasurehead.optimizers import GradientDescent, Nesterov
from erasurehead.problems import LogisticRegression
from erasurehead.runs import Recorder, RunFolder, replay
from erasurehead.training import Resumption, Run, train

RNG = np.random.default_rng(0)
X = RNG.standard_normal((96, 4))
PROBLEM = LogisticRegression(X, np.sign(X @ np.array([1.0, -2.0, 0.5, 1.0])), l2=0.01)

TYING = {
    "nothing": None,
    "none()": NoDelay(),
    "all alike": Fixed(((0.5,) * 8,)),
    "two values": Fixed(((0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0),)),
    "bimodal": Bimodal(0.3, NoDelay(), Fixed(((1.0,) * 8,)), seed=1),
}


def trained(scheme: schemes.Scheme, delays: Delays | None, steps: int = 40, seed: int = 0, **more: object) -> Run:
    engine = VirtualEngine(delays, seed=seed, **more)  # type: ignore[arg-type]
    return train(PROBLEM, scheme, GradientDescent(np.zeros(4), 0.5), engine, steps)


def used(run: Run) -> np.ndarray:
    counts = np.zeros(8)
    for row in run.steps:
        counts[row.used] += 1
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nothing", "none()", "all alike"])
@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_of_equal_workers_none_is_always_first(name: str, late: str) -> None:
    run = trained(schemes.ignore_stragglers(8, 3), TYING[name], 400, late=late)
    assert used(run).min() > 0.6 * 150
    assert used(run).max() < 1.4 * 150
    assert not run.neglected


def test_those_that_are_really_later_stay_later() -> None:
    run = trained(schemes.ignore_stragglers(8, 3), TYING["two values"], 100)
    assert used(run)[:4].min() > 40
    assert used(run)[4:].max() == 0


def test_the_order_comes_from_seed_and_step_alone() -> None:
    scheme = schemes.ignore_stragglers(8, 3)
    first, again, other = (trained(scheme, None, seed=seed) for seed in (0, 0, 1))
    assert first.steps == again.steps
    assert (first.x == again.x).all()
    assert [row.used for row in first.steps] != [row.used for row in other.steps]


def test_a_replay_has_the_recorded_order_whatever_its_seed(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    scheme = schemes.erasurehead(8, 3, 3)
    first = train(PROBLEM, scheme, Nesterov(np.zeros(4), 0.5), VirtualEngine(seed=4), 40, [Recorder(folder)])
    again = train(PROBLEM, scheme, Nesterov(np.zeros(4), 0.5), VirtualEngine(replay(folder), seed=11), 40)
    assert (again.x == first.x).all()
    assert [row.used for row in again.steps] == [row.used for row in first.steps]
    in_time = [row.rank for row in first.arrivals if row.step == 7 and not row.censored]
    assert in_time == [*range(len(in_time))]
    assert all(row.rank is None for row in first.arrivals if row.censored)


@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_a_resumed_run_has_the_same_order(late: str) -> None:
    scheme, states = schemes.erasurehead(8, 3, 3), {}
    delays = TYING["all alike"]

    def go(steps: int, resume: Resumption | None = None, keep: int | None = None) -> Run:
        from erasurehead.training import Callback

        class Keep(Callback):
            def on_state(self, step: int, state: object) -> None:
                if step == keep:
                    states["at"] = state()  # type: ignore[operator]

        engine = VirtualEngine(delays, late, seed=3)
        return train(PROBLEM, scheme, Nesterov(np.zeros(4), 0.5), engine, steps, [Keep()], resume=resume)

    whole = go(60, keep=23)
    later = go(60, Resumption(states["at"], whole.steps[:23], [row for row in whole.arrivals if row.step < 23]))
    assert (later.x == whole.x).all()
    assert later.steps == whole.steps


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 0.25, 1.0, 1e9, np.inf]), min_size=1, max_size=20),
    st.integers(0, 99),
)
def test_untied_times_are_distinct_and_in_order(times: list[float], step: int) -> None:
    table = np.array([times])
    before = precedence(None, 0, step, 1, len(times))
    found = untied(table, before)[0]
    finite = np.isfinite(table[0])
    assert (np.isinf(found) == ~finite).all()
    assert len(set(found[finite])) == finite.sum()
    assert found[finite] == pytest.approx(table[0][finite], rel=1e-12, abs=1e-300)
    order = np.lexsort((before[0], table[0]))
    assert (np.diff(found[order][: finite.sum()]) > 0).all()

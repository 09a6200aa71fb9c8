"""How many workers a run has if nobody says: as many as can compute at the same time where they run."""

from __future__ import annotations

import os

import pytest

from erasurehead import schemes
from erasurehead.delays import Exponential
from erasurehead.engines import InProcessEngine, ProcessEngine, VirtualEngine
from erasurehead.engines._wired_engine import WiredEngine
from erasurehead.engines._wires import Cast
from erasurehead.optimizers import Nesterov, QuasiNewton
from erasurehead.testing._problems import Quadratic
from erasurehead.training import train
from erasurehead.training._arguments import default_workers

PROBLEM = Quadratic.random(24, 6, seed=4, l2=0.01)


def test_processes_get_a_core_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 5}, raising=False)
    assert default_workers("processes") == default_workers("ray") == 3  # of a cluster that is started here
    with ProcessEngine() as engine:
        assert default_workers(engine) == 3


def test_on_a_virtual_clock_their_number_does_not_depend_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores in ({0}, set(range(64))):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid, cores=cores: cores, raising=False)
        assert (default_workers("virtual", delayed=True), default_workers("virtual")) == (30, 4)
        assert default_workers(VirtualEngine(Exponential(0.5, seed=0))) == 30
        assert default_workers(VirtualEngine("none()")) == default_workers(VirtualEngine()) == 4
        assert default_workers(WiredEngine(VirtualEngine(Exponential(0.5, seed=0)), Cast("float32"))) == 30
        assert default_workers(VirtualEngine(hosts={"a": 2, "b": 3})) == 5  # there is room for no others


@pytest.mark.slow
def test_a_code_that_says_who_holds_what_has_as_many_as_it_names() -> None:
    placed = "custom(code='placed([[0, 1], [1, 2], [2, 0]], stragglers=1)', wait='decodable()')"
    assert default_workers("virtual", [placed]) == default_workers("virtual", [placed], delayed=True) == 3
    assert default_workers(VirtualEngine(hosts={"a": 2, "b": 3}), [placed]) == 3
    assert default_workers(VirtualEngine(hosts={"a": 2}), [placed]) == 2  # and the scheme says that they are too few
    assert default_workers("virtual", ["exact(load=50)"]) == 4  # likewise
    assert default_workers("in_process", [placed]) == 3


def test_a_scheme_given_as_text_has_as_many() -> None:
    def workers(engine: str | VirtualEngine) -> int:
        run = train(PROBLEM, "uncoded", Nesterov(PROBLEM.initial(), rate=0.1), engine, steps=1)
        return run.steps[0].workers

    assert (workers("in_process"), workers("virtual")) == (1, 4)
    assert workers(VirtualEngine(Exponential(0.5, seed=0))) == 24  # there are no more samples


def test_a_scheme_that_needs_more_has_as_many_as_it_needs() -> None:
    run = train(PROBLEM, "exact(load=6)", Nesterov(PROBLEM.initial(), rate=0.1), "virtual", steps=1)
    assert run.steps[0].workers == 6
    assert default_workers("in_process", ["uncoded", "exact(load=3)"]) == 3
    assert default_workers("virtual", ["no scheme"]) == 4


def test_training_in_this_process_ends_at_the_model_of_any_engine_in_real_time() -> None:
    def optimum(engine: VirtualEngine) -> tuple[float, float, int]:
        run = train(PROBLEM, schemes.adaptive(1, load=1), QuasiNewton(PROBLEM.initial()), engine, steps=500)
        assert run.ended == "converged"
        return PROBLEM.objective(run.x), run.seconds, len(run.steps)

    here, elsewhere = optimum(InProcessEngine()), optimum(VirtualEngine())
    assert here[0] == elsewhere[0]
    assert here[1] > 0.0 == elsewhere[1]
    assert here[2] == elsewhere[2]

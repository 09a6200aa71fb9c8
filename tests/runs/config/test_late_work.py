"""What late workers do, as run files and the command line say it, in everything that reads them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import schemes
from erasurehead.delays import Delays, Fixed
from erasurehead.engines import Arrived, VirtualEngine
from erasurehead.errors import InvalidArgument
from erasurehead.runs import Experiment
from erasurehead.runs._config.checking import build_config, read_config
from erasurehead.runs._config.reachable import check_reachable, who_is_silent
from erasurehead.runs._config.toml import to_toml
from erasurehead.testing._driving import order, start
from erasurehead.testing._programs import Echo
from erasurehead.training import train

from ...arrays import Array

KEPT = {"preempt": 0.0, "drop(1)": 1.0, "drop(2)": 2.0, "drop(3)": 3.0, "carry": np.inf}
"""How many rounds old work may be before a worker drops it."""

LATE = st.sampled_from(sorted(KEPT))


@given(late=LATE)
def test_a_run_file_keeps_it(tmp_path_factory: pytest.TempPathFactory, late: str) -> None:
    path = tmp_path_factory.mktemp("late") / "run.toml"
    path.write_text(to_toml({"delays": {"late": late}}))
    assert read_config(path).delays.late == late


@pytest.mark.parametrize("late", ["drop", "drop()", "drop(-1)", "drop(1.5)", "drop(R)", "drop(3) ", "drop(³)", "Carry"])
def test_what_is_none_is_refused(late: str) -> None:
    with pytest.raises(InvalidArgument, match=r"delays.late must be 'preempt' or 'carry' or 'drop\(R\)' with a number"):
        build_config({"delays": {"late": late}})


TABLES = st.lists(st.lists(st.sampled_from([0.5, 0.5, np.inf]), min_size=2, max_size=2), min_size=6, max_size=6)


@settings(max_examples=40)
@given(table=TABLES, late=LATE)
def test_who_will_be_silent_is_foreseen_as_it_happens(table: list[list[float]], late: str) -> None:
    delays = Fixed(tuple(map(tuple, table)))
    happened = np.ones((6, 2), dtype=bool)
    with VirtualEngine(delays, late) as engine:
        start(engine, [Echo(0, (0,)), Echo(1, (1,))])
        for number in range(6):
            engine.submit(order(number))
            while (event := engine.next_event(2.0 * (number + 1))) is not None:
                assert isinstance(event, Arrived)
                happened[event.order_round, event.worker] = False
    for block in (6, 2):
        foreseen, free = np.zeros((0, 2), dtype=bool), np.zeros(2)
        for first in range(0, 6, block):
            never = np.isinf(np.array(table[first : first + block]))
            silent, free = who_is_silent(never, first, free, KEPT[late])
            foreseen = np.vstack([foreseen, silent])
        assert (foreseen == happened).all()


def test_a_rule_that_work_which_is_dropped_in_time_can_meet_is_not_refused() -> None:
    scheme = schemes.ignore_stragglers(3, wait_for=2)
    delays = Fixed(((np.inf, 0.1, 0.1), (0.1, 0.1, 0.1), (0.1, 0.1, np.inf), (0.1, 0.1, 0.1)))
    for late in ("preempt", "drop(1)"):
        check_reachable(scheme, delays, build_config({"delays": {"late": late}}).delays, 4)
    for late in ("drop(2)", "carry"):
        with pytest.raises(InvalidArgument, match=r"workers \[0, 2\] never answer \(step 2\)"):
            check_reachable(scheme, delays, build_config({"delays": {"late": late}}).delays, 4)


class Counted(Delays):
    """Nobody is late; how many steps were asked for is counted."""

    steps = 0

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        self.steps += count
        return np.zeros((count, n_workers))

    def __str__(self) -> str:
        return "counted"


@pytest.mark.parametrize("steps", [10**9, 10**22, 10**290])
def test_a_run_of_ever_so_many_steps_is_examined_as_fast_as_a_long_one(steps: int) -> None:
    for n_workers in (4, 10_000):
        delays = Counted()
        scheme = schemes.uncoded(n_workers)
        check_reachable(scheme, delays, build_config({}).delays, steps)
        assert 0 < delays.steps <= min(100_000, (1 << 24) // n_workers)


def test_an_experiment_runs_with_it_and_says_so() -> None:
    tables = {
        "scheme": "ignore_stragglers(wait_for=2)",
        "data": {"source": "amazon", "synthetic": "always", "rows": 500},
        "delays": {"late": "drop(1)"},
        "run": {"engine": "virtual", "workers": 4, "steps": 12, "evaluate_every": 0},
    }
    made = Experiment.from_config(tables)
    assert (made.engine().late, made.config.delays.late) == ("drop(1)", "drop(1)")
    engine = made.engine()
    run = train(made.problem, made.scheme, made.optimizer(), engine, 12, evaluate_every=0)
    ages = [row.taken - row.round for row in run.arrivals if row.taken is not None]
    assert max(ages) == 1

"""`adaptive(multi_message=True)`: workers send each task as soon as it is finished."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from erasurehead import delays, schemes, train
from erasurehead.engines import VirtualEngine
from erasurehead.optimizers import QuasiNewton
from erasurehead.problems import LogisticRegression
from erasurehead.schemes import parse_scheme


@pytest.mark.slow
def test_a_message_per_task_loses_nothing_much_where_delays_grow_with_the_load_and_much_where_not() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 5))
    y = np.sign(X @ rng.standard_normal(5) + rng.standard_normal(600))
    problem = LogisticRegression(X, y, l2=1 / 600)

    def seconds(multi_message: bool, grows: bool, seed: int, late: str) -> float:
        engine = VirtualEngine(delays.Exponential(0.5, seed=seed, scale_with_load=grows), late=late)
        scheme = replace(schemes.adaptive(30, 3, multi_message=multi_message), by_task=None)  # no choice on the way
        run = train(problem, scheme, QuasiNewton(problem.initial()), engine, steps=200)
        assert run.ended == "converged"
        return run.seconds

    for late in ("preempt", "carry"):
        ratio = {
            grows: np.mean(
                [seconds(False, grows, seed, late) / seconds(True, grows, seed, late) for seed in range(count)]
            )
            for grows, count in ((True, 6), (False, 3))
        }
        # With late work dropped, steps from few arrivals lose little of it, and blocks of parts make up for more.
        assert ratio[True] > (1.08 if late == "carry" else 0.88)
        assert ratio[False] < 0.6


def test_a_message_per_task_keeps_its_rules_when_workers_leave() -> None:
    scheme = schemes.adaptive(12, 3, multi_message=True)
    assert scheme.code.messages_per_worker.tolist() == [3] * 12
    assert scheme.code.tolerance == 2
    again = scheme.resized(10)
    assert (again.code.name, again.code.n_workers, again.code.n_tasks) == ("multi_message", 10, 12)
    assert set(again.rules) == set(scheme.rules)
    text = parse_scheme("adaptive(load=3, multi_message=True)", 12)
    assert (text.code.encoding != scheme.code.encoding).nnz == 0

"""Reed-Solomon codes: balanced holders and exactness."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.codes._reed_solomon import reed_solomon
from erasurehead.errors import InvalidArgument

from .oracles import residuals, worst_residual


@pytest.mark.parametrize(("n", "k", "load"), [(12, 12, 3), (8, 4, 2), (10, 5, 2), (9, 6, 4), (7, 7, 3), (6, 6, 6)])
def test_exact_for_every_straggler_set(n: int, k: int, load: int) -> None:  # SCHEMES 2c, and three more
    code = reed_solomon(n, load, k)
    assert code.tolerance == n * load // k - 1
    assert worst_residual(code, code.tolerance) < 1e-15
    if code.tolerance + 1 < n:
        assert worst_residual(code, code.tolerance + 1) > 1e-3


def test_thirty_workers_of_the_source() -> None:
    code = reed_solomon(30, 6)
    assert code.tolerance == 5
    assert residuals(code, 5, at_most=100).max() < 1e-15


@pytest.mark.slow
@given(st.integers(1, 30), st.integers(1, 30), st.data())
def test_every_worker_and_every_task_has_its_share(n: int, k: int, data: st.DataObject) -> None:
    load = data.draw(st.integers(1, k).filter(lambda load: n * load % k == 0))
    code = reed_solomon(n, load, k)
    assert set(code.loads.tolist()) == {load}
    assert set(code.replication.tolist()) == {n * load // k}


def test_the_definition_by_polynomials() -> None:
    n, k, load = 10, 5, 2
    code = reed_solomon(n, load, k)
    points = np.exp(2j * np.pi * np.arange(n) / n)
    held = code.assignment.toarray() > 0
    by_definition = np.array([[np.prod(points[i] - points[~held[:, j]]) for j in range(k)] for i in range(n)])
    rows = code.encoding.toarray()
    part = code.structure.complex_part
    for worker in range(n):
        built = sum(rows[m] * (1j if part[m] else 1) for m in code.messages_of(worker))
        tasks = code.tasks_of(worker)
        ratio = built[tasks] / by_definition[worker, tasks]
        assert ratio == pytest.approx(ratio[0])


def test_message_of_the_error() -> None:
    with pytest.raises(InvalidArgument, match=r"load times 8 workers must be a multiple of the 5 tasks.*use load=5"):
        reed_solomon(8, 3, n_tasks=5)

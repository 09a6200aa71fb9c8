"""Codes made from codes whose workers are idle, whose tasks nobody holds, or of which next to nothing is left."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

from erasurehead import codes
from erasurehead.codes import GradientCode, _bernoulli, _communication_efficient, _draco, _product, _soft_designs
from erasurehead.codes._transforms import by_task, resized, shortened
from erasurehead.decoding import make_decoder
from erasurehead.errors import InvalidArgument


@st.composite
def odd_codes(draw: st.DrawFn) -> GradientCode:
    """Any 0/1 matrix, with empty rows, empty columns and workers without a message."""
    workers, tasks = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    sending = sorted(draw(st.sets(st.integers(0, workers - 1), min_size=1)))
    cells = draw(st.lists(st.booleans(), min_size=len(sending) * tasks, max_size=len(sending) * tasks))
    return GradientCode(
        name="odd",
        parameters={},
        encoding=sparse.csr_array(np.reshape(cells, (len(sending), tasks)).astype(float)),
        owner=np.array(sending),
        n_workers=workers,
        n_tasks=tasks,
    )


@given(odd_codes())
def test_by_task_has_a_message_for_each_task_of_each_worker(code):
    if not code.encoding.nnz:
        with pytest.raises(InvalidArgument, match="code must have a worker that holds a task"):
            by_task(code)
        return
    tasks = by_task(code)
    assert (tasks.assignment != code.assignment).nnz == 0
    fewest = int(code.replication.min())
    assert tasks.tolerance == (fewest - 1 if fewest else None)
    assert make_decoder(tasks).residual(range(tasks.n_messages)) == int((code.replication == 0).sum())
    assert _product.refine(tasks, 2 * code.n_tasks).tolerance == tasks.tolerance


def test_a_task_that_nobody_holds_is_no_failure_of_by_task():
    code = _bernoulli.bernoulli(12, 1, seed=3, nobody_idle=False)
    assert by_task(code).tolerance is None


def test_what_is_left_of_a_code_without_a_task_that_all_hold_cannot_be_sent():
    left = shortened(codes.fractional_repetition(3, load=3), [0])
    assert make_decoder(left).residual(range(3)) == 2.0
    with pytest.raises(InvalidArgument, match=r"code must have a worker that holds a task, got .*shortened"):
        by_task(left)


@pytest.mark.parametrize(
    ("code", "n_workers"),
    [
        (_communication_efficient.communication_efficient_cyclic(5, 2, load=5), 1),
        (_communication_efficient.communication_efficient_groups(6, 6, 3), 1),
        (_draco.draco_cyclic(3, 1), 2),
        (_soft_designs.soft_design(12, 3, 0.5), 1),
    ],
    ids=repr,
)
def test_a_code_that_cannot_be_resized_says_so_before_it_names_its_parameters(code, n_workers):
    with pytest.raises(InvalidArgument, match=rf"cannot be resized to {n_workers} worker.*: .*[^.]\.$") as error:
        resized(code, n_workers)
    assert error.value.subject == "n_workers"

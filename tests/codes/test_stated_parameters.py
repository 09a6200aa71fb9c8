"""Codes say the parameters that they have: nearest designs, real blocks, real loads, one threshold."""

from __future__ import annotations

import math

import numpy as np
import pytest

from erasurehead import codes
from erasurehead.codes import _bernoulli, _communication_efficient, _designs, _expanders, _graph_codes, _registry
from erasurehead.codes._designs import is_biquadratic, is_paley, is_twin
from erasurehead.codes._fields import prime_power
from erasurehead.decoding import make_decoder
from erasurehead.errors import InvalidArgument


def every_design(limit: int) -> list[tuple[int, int]]:
    """Workers and load of every design of up to so many workers, by the families' definitions."""
    found = []
    for q in range(2, limit):
        if prime_power(q) is not None:
            found += [(q * q + q + 1, q + 1), (q * q, q + 1)]
        if is_paley(q):
            found.append((q, (q - 1) // 2))
        if is_biquadratic(q):
            found.append((q, (q - 1) // 4))
        if is_twin(q):
            found.append((q * (q + 2), (q * (q + 2) - 1) // 2))
    return found


@pytest.mark.slow
def test_the_nearest_design_is_the_nearest():
    designs = np.log(every_design(200))
    for n in range(3, 41):
        for load in range(2, n):
            nearest = float(np.abs(designs - np.log([n, load])).sum(axis=1).min())
            code = _designs.design_for(n, load)
            distance = abs(math.log(code.n_workers / n)) + abs(math.log(code.load / load))
            assert distance == pytest.approx(nearest, abs=1e-12), (n, load, code)


@pytest.mark.parametrize(("n", "block"), [(20, 8), (20, 5), (33, 7), (12, 12), (30, 4)])
def test_blocks_are_as_large_as_they_say(n, block):
    code = _bernoulli.stochastic_block(n, block=block, within=1.0, between=0.0)
    largest = int(code.loads.max())
    assert code.structure.mean_load == pytest.approx(float(code.loads.mean()))
    assert (code.structure.rounded == "") == (set(code.loads.tolist()) == {block})
    if code.structure.rounded:
        assert f"{largest} tasks, not of {block}" in str(code.structure.rounded)


@pytest.mark.parametrize("side", range(2, 9))
def test_margulis_has_eight_edges_and_says_how_many_tasks(side):
    code = _expanders.margulis(side)
    assert code.load == {2: 3, 3: 5, 4: 6}.get(side, 8)
    assert set(code.encoding.sum(axis=1).tolist()) == {8.0}
    assert f"{code.load}" in str(_registry.family("margulis").guarantee)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(0, 50, 5))
def test_workers_without_a_task_do_no_harm(seed):
    for code in (
        _bernoulli.bernoulli(30, 1, nobody_idle=False, seed=seed),
        _bernoulli.bernoulli(3, 0.1, nobody_idle=False, seed=seed),
        _bernoulli.regularised_bernoulli(30, 1, nobody_idle=False, seed=seed),
        _bernoulli.stochastic_block(30, 5, 0.3, 0.01, nobody_idle=False, seed=seed),
    ):
        rows = code.encoding.toarray()
        best = float(((rows.T @ np.linalg.lstsq(rows.T, np.ones(code.n_tasks))[0] - 1) ** 2).sum())
        assert make_decoder(code).decode(range(code.n_messages)).residual == pytest.approx(best, abs=1e-9)


def test_groups_that_would_cut_differently_are_refused():
    with pytest.raises(InvalidArgument, match="must cut gradients alike in all groups, of 3 and 4 workers"):
        _communication_efficient.communication_efficient_groups(7, 3, generator="parity", n_tasks=6)
    with pytest.raises(InvalidArgument, match="must cut gradients alike"):
        _communication_efficient.communication_efficient_groups(11, 4, generator="parity")


@pytest.mark.slow
@pytest.mark.parametrize("apart", [1e-3, 1e-5, 1e-6, 1e-8, 1e-12, 0.0])
def test_a_matrix_has_a_tolerance_only_if_its_decoding_is_exact(apart):
    try:
        code = codes.custom([[1, 1 + apart]] * 3)
    except InvalidArgument:
        code = codes.custom([[1, 1 + apart]] * 3, approximate=True)
    for gone in range(3):
        decoding = make_decoder(code).decode(code.messages_without(range(gone)))
        assert decoding.exact == (code.tolerance == 2)


@pytest.mark.parametrize("apart", [1e-3, 1e-7, 1e-9, 1e-11])
def test_a_matrix_whose_weights_explode_is_not_called_exact(apart):
    matrix = [[1.0, 1.0, 0.0], [1.0, 1.0 + apart, 0.0], [0.0, 1.0, apart]]
    code = codes.custom(matrix, approximate=True)
    decoding = make_decoder(code).decode(range(3))
    if code.tolerance is not None:
        assert decoding.exact


def test_the_bound_against_an_adversary_holds_for_graphs():
    code = _graph_codes.graph_code(12, 4)
    degree = 4
    second = np.linalg.eigvalsh((code.encoding.T @ code.encoding).toarray() - degree * np.eye(code.n_tasks))[-2]
    assert code.spectrum.ratio == pytest.approx((degree + second) / (2 * degree))

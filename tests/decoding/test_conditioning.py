"""Conditioning: the predicted error is what rounded messages make; codes that cannot bear it are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from erasurehead import codes
from erasurehead.decoding import make_decoder
from erasurehead.decoding._rounding import conditioning, stable_relative
from erasurehead.errors import InvalidArgument

from .helpers import check_dtype


@pytest.mark.parametrize(
    "build",
    [
        lambda: codes.fractional_repetition(30, load=3),
        lambda: codes.cyclic_repetition(30, stragglers=5),
        lambda: codes.build("cyclic_mds", n_workers=30, stragglers=5),
        lambda: codes.build("communication_efficient_groups", n_workers=32, load=8, n_pieces=4),
        lambda: codes.build("communication_efficient_cyclic", n_workers=20, n_pieces=3, load=6),
        lambda: codes.build("graph_code", n_workers=30, replication=3),
    ],
)
def test_the_predicted_error_is_that_of_rounded_messages(build):
    code = build()
    stragglers = code.tolerance or 0
    found = conditioning(code, stragglers, samples=40)
    rng = np.random.default_rng(0)
    partial = rng.normal(size=(code.n_tasks * code.n_pieces, 100))
    rounded = (code.encoding @ partial).astype(np.float32).astype(np.float64)
    full = code.target @ partial
    decoder, worst = make_decoder(code), 0.0
    runs = [np.arange(begin + stragglers, begin + code.n_workers) % code.n_workers for begin in range(code.n_workers)]
    hardest = code.structure.hardest
    known = [] if hardest is None else [np.setdiff1d(np.arange(code.n_workers), hardest)]
    for present in [*known, *runs, *(rng.permutation(code.n_workers)[stragglers:] for _ in range(40))]:
        decoding = decoder.decode(code.messages_of_workers(np.sort(present)))
        estimate = decoding.weights @ rounded[decoding.messages]
        worst = max(worst, float(np.linalg.norm(estimate - full) / np.linalg.norm(full)))
    assert worst <= 4 * found.error(np.float32)
    assert worst >= found.error(np.float32) / 50


def test_plain_sums_do_not_amplify():
    found = conditioning(codes.fractional_repetition(12, load=3))
    assert (found.amplification, found.largest_weight, found.largest_coefficient) == (1.0, 1.0, 1.0)
    assert found.error(np.float32) == pytest.approx(2**-24)


def test_the_worst_set_of_a_cyclic_code_is_a_run():
    found = conditioning(codes.build("cyclic_mds", n_workers=30, stragglers=5))
    assert found.amplification > 20 * found.typical
    assert found.largest_weight == pytest.approx(179, rel=0.01)
    assert found.stragglers == 5


def test_messages_that_a_code_cannot_bear_are_refused_with_a_way_out():
    with pytest.raises(InvalidArgument, match=r"use float64 messages, or fractional_repetition\(60, load=12\)"):
        check_dtype(codes.build("cyclic_mds", n_workers=60, stragglers=11), "float32")
    check_dtype(codes.build("cyclic_mds", n_workers=60, stragglers=11), "float64")
    with pytest.raises(InvalidArgument, match=r"binary_repetition\(61, stragglers=12\)"):
        check_dtype(codes.build("cyclic_mds", n_workers=61, stragglers=12), np.float32)
    with pytest.raises(InvalidArgument, match=r"communication_efficient_groups\(30, load=10, n_pieces=4\)"):
        check_dtype(codes.build("communication_efficient_cyclic", n_workers=30, n_pieces=4, load=10), np.float16)


@pytest.mark.parametrize(
    "build",
    [
        lambda: codes.fractional_repetition(30, load=3),
        lambda: codes.build("cyclic_mds", n_workers=30, stragglers=5),
        lambda: codes.build("reed_solomon", n_workers=30, load=6),
        lambda: codes.build("communication_efficient_groups", n_workers=32, load=8, n_pieces=4),
        lambda: codes.build("projective_plane", order=5),
        lambda: codes.build("regular", n_workers=30, load=3),
    ],
)
def test_messages_that_a_code_can_bear_pass(build):
    code = build()
    check_dtype(code, np.float32)


def test_even_float64_is_refused_where_it_does_not_do():
    code = codes.build("cyclic_mds", n_workers=120, stragglers=7)
    many = replace(code, tolerance=31, encoding=code_of_many_stragglers(120, 31))  # no constructor builds it any more
    with pytest.raises(InvalidArgument, match="not even float64 decodes it without 31 workers") as error:
        check_dtype(many, np.float64)
    assert "float64 messages, or" not in str(error.value)


def code_of_many_stragglers(n, s):
    roots = np.exp(2j * np.pi * ((n - s + 1) // 2 + np.arange(s)) / n)
    row = np.zeros(n)
    row[: s + 1] = np.poly(roots).real
    return sparse.csr_array(np.stack([np.roll(row, worker) for worker in range(n)]))


def test_the_recommended_code_exists_and_bears_the_messages():
    for code in (
        codes.build("cyclic_mds", n_workers=60, stragglers=11),
        codes.build("cyclic_mds", n_workers=61, stragglers=12),
        codes.build("communication_efficient_cyclic", n_workers=30, n_pieces=4, load=8),
    ):
        name, _, arguments = stable_relative(code).partition("(")
        first, *named = arguments.rstrip(")").split(", ")
        relative = codes.build(name, int(first), **{key: int(value) for key, value in (n.split("=") for n in named)})
        check_dtype(relative, np.float32)
        assert relative.n_workers == code.n_workers
        if code.n_pieces == 1:
            assert relative.tolerance >= code.tolerance


def test_bad_input():
    code = codes.build("regular", n_workers=10, load=2)
    with pytest.raises(InvalidArgument, match="stragglers must be at most 9"):
        conditioning(code, 10)
    with pytest.raises(InvalidArgument, match="samples must be at least 1"):
        conditioning(code, samples=0)


@pytest.mark.slow
def test_groups_of_many_pieces_are_searched_and_another_code_is_named():
    code = codes.build("communication_efficient_groups", n_workers=64, load=32, n_pieces=16)
    assert conditioning(code).amplification > 1e4
    with pytest.raises(InvalidArgument, match=r"use float64 messages, or binary_repetition\(64, stragglers=16\)"):
        check_dtype(code, "float32")

"""What a code says of rounding: the worst of all sets, or a bound that holds, or the worst that a search finds."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead import codes
from erasurehead.codes import GradientCode
from erasurehead.codes._exactness import Unbearable
from erasurehead.decoding import make_decoder
from erasurehead.decoding._least_squares import LeastSquaresDecoder
from erasurehead.decoding._null_space import NullSpace
from erasurehead.decoding._rounding import conditioning
from erasurehead.errors import InvalidArgument

from .helpers import check_dtype


def constructor(name: str) -> Callable[..., GradientCode]:
    """Return the function that makes codes of a name."""
    return partial(codes.build, name)


FAMILIES: dict[str, Callable[[int, int, int], GradientCode]] = {
    "cyclic_repetition": lambda n, s, seed: codes.cyclic_repetition(n, s, seed=seed, draws=3),
    "cyclic_mds": lambda n, s, seed: constructor("cyclic_mds")(n, s if (n - s) % 2 else s - 1),
    "complex_cyclic_mds": lambda n, s, seed: constructor("complex_cyclic_mds")(n, s),
    "reed_solomon": lambda n, s, seed: constructor("reed_solomon")(n, s + 1),
    "reed_solomon, fewer tasks": lambda n, s, seed: constructor("reed_solomon")(n, max(1, n // 4), n // math.gcd(n, 2)),
    "draco_cyclic": lambda n, s, seed: constructor("draco_cyclic")(n, max(1, s // 2)),
    "communication_efficient_cyclic": lambda n, s, seed: constructor("communication_efficient_cyclic")(
        n, 2, stragglers=min(s, n - 2), seed=seed
    ),
}


def own_amplification(code: GradientCode, gone: tuple[int, ...]) -> float:
    """The norm of the least exact weights for rows of norm one, by an independent pseudo-inverse."""
    rows = code.encoding.toarray()[code.messages_without(list(gone))]
    rows = rows / np.linalg.norm(rows, axis=1)[:, None]
    return float(np.linalg.norm(code.target @ np.linalg.pinv(rows, rcond=1e-13)) / math.sqrt(rows.shape[1]))


@pytest.mark.parametrize("family", FAMILIES)
@given(n=st.integers(3, 11), share=st.floats(0.05, 0.95), seed=st.integers(0, 10_000))
def test_of_small_codes_it_is_the_worst_of_all_sets(family, n, share, seed):
    try:
        code = FAMILIES[family](n, max(1, int(share * n)), seed)
    except Unbearable:
        return
    assert code.tolerance is not None
    stated = code.structure
    worst = max(own_amplification(code, gone) for gone in combinations(range(n), code.tolerance))
    assert stated.amplification == stated.amplification_bound == pytest.approx(worst, rel=1e-4)
    assert own_amplification(code, tuple(stated.hardest.tolist())) == pytest.approx(worst, rel=1e-4)
    finer = constructor("refine")(code, 2 * code.n_tasks + 1)
    if isinstance(make_decoder(finer), (LeastSquaresDecoder, NullSpace)):
        assert conditioning(finer, samples=50).amplification <= finer.structure.amplification_bound * (1 + 1e-4)


@pytest.mark.parametrize(
    ("code", "stated"),
    [
        (codes.cyclic_repetition(9, 2, seed=34), 157.3),
        (codes.cyclic_repetition(14, 3, seed=90), 4054),
        (constructor("communication_efficient_cyclic")(10, 2, load=5, seed=41), 864.8),
        (codes.cyclic_repetition(30, 5), 1.155e7),
    ],
    ids=repr,
)
def test_one_set_among_many_is_found_if_all_can_be_examined(code, stated):
    assert code.structure.amplification == code.structure.amplification_bound == pytest.approx(stated, rel=1e-3)
    assert own_amplification(code, tuple(code.structure.hardest.tolist())) == pytest.approx(stated, rel=1e-3)


BOUNDED = [(constructor("cyclic_mds"), n, s) for n, s in ((40, 9), (61, 12), (100, 9), (9_999, 2))]
BOUNDED += [(constructor("complex_cyclic_mds"), n, s) for n, s in ((40, 10), (100, 8), (1_001, 4))]


@pytest.mark.parametrize(("build", "n", "s"), BOUNDED)
def test_the_bound_of_fourier_codes_holds_for_sets_of_all_shapes(build, n, s):
    code = build(n, s)
    random, bound = np.random.default_rng(n), float(np.asarray(code.structure.amplification_bound))
    assert code.structure.amplification <= bound <= 10 * code.structure.amplification
    decoder, size = make_decoder(code), np.sqrt(np.asarray(code.encoding.multiply(code.encoding).sum(axis=1))).ravel()
    shapes = [np.arange(s), np.arange(s) * 2, np.unique(np.arange(s) * n // s), np.arange(s) + (np.arange(s) >= s // 2)]
    shapes += [random.permutation(3 * s)[:s] for _ in range(20)] + [random.permutation(n)[:s] for _ in range(20)]
    for gone in shapes:
        found = decoder.decode(code.messages_without(gone))
        assert found.exact
        assert np.linalg.norm(found.weights * size[found.messages]) / math.sqrt(n) <= bound * (1 + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "s", "seed"), [(20, 9, 0), (30, 12, 1), (40, 6, 2), (25, 15, 3)])
def test_where_there_are_too_many_sets_no_simple_search_finds_a_worse_one(n, s, seed):
    code = codes.cyclic_repetition(n, s, seed=seed)
    random = np.random.default_rng(1)

    def swapped(gone: tuple[int, ...]) -> tuple[int, ...]:
        kept = list(gone)
        kept[int(random.integers(s))] = int(random.choice(np.setdiff1d(np.arange(n), gone)))
        return tuple(kept)

    starts = [tuple(random.permutation(n)[:s].tolist()) for _ in range(300)]
    worst = max((own_amplification(code, gone), gone) for gone in starts)
    for _ in range(300):
        tried = swapped(worst[1])
        worst = max(worst, (own_amplification(code, tried), tried))
    assert worst[0] <= code.structure.amplification * (1 + 1e-6)
    assert (code.structure.amplification_bound is None) == (not conditioning(code).proven)


@pytest.mark.parametrize(("n", "s", "seed"), [(20, 9, 0), (30, 12, 1)])
def test_float32_is_refused_where_its_error_can_exceed_what_is_promised(n, s, seed):
    code = codes.cyclic_repetition(n, s, seed=seed)
    with pytest.raises(InvalidArgument, match="dtype must be fine enough"):
        check_dtype(code, "float32")
    check_dtype(code, "float64")


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n", [8, 12])
def test_what_passes_errs_by_less_than_a_thousandth_without_any_set(family, n):
    random = np.random.default_rng(n)
    for s in (1, 2, 4):
        for seed in range(3):
            try:
                code = FAMILIES[family](n, s, seed)
                check_dtype(code, "float32")
            except InvalidArgument:
                continue
            partial = random.standard_normal((code.n_tasks * code.n_pieces, 200))
            said, full = (code.encoding @ partial).astype(np.float32).astype(np.float64), code.target @ partial
            decoder = make_decoder(code)
            for gone in combinations(range(n), code.tolerance or 0):
                found = decoder.decode(code.messages_without(gone))
                assert np.linalg.norm(found.weights @ said[found.messages] - full) <= 1e-3 * np.linalg.norm(full)


def test_what_no_float64_bears_is_refused_with_the_workers_that_show_it():
    with pytest.raises(Unbearable, match=r"rounding grows .* times without workers \d+, \d+ \(.*use reed_solomon"):
        codes.cyclic_repetition(1_501, 2)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1_100, 1_501, 5_000])
@pytest.mark.parametrize("s", [1, 3, 8])
def test_large_codes_decode_without_their_own_hardest_set_or_are_refused(n, s):
    try:
        code = constructor("exact_cyclic")(n, s)
    except Unbearable:
        return
    for chosen in (code, constructor("refine")(code, 2 * n + 1)):
        gone = np.asarray(code.structure.hardest)
        found = make_decoder(chosen).decode(chosen.messages_without(gone))
        assert found.exact, chosen


def test_the_hardest_single_straggler_of_a_product_is_found():
    code = constructor("kronecker")(constructor("affine_plane")(7), constructor("cyclic_mds")(4, stragglers=1))
    assert code.tolerance >= 1
    found = conditioning(code, 1)
    assert found.amplification >= found.typical > 0.0

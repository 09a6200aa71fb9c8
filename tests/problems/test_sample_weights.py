"""Weights of samples and classes: a sample of weight k is a sample that is there k times, whatever the form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse

from erasurehead.errors import InvalidArgument
from erasurehead.problems import LeastSquares, LogisticRegression, SoftmaxRegression
from erasurehead.problems._linear import LinearProblem

FORMS = {"dense": np.asarray, "sparse": sparse.csr_array, "pattern": lambda X: sparse.csr_array((X > 0).astype(float))}
LABELS = {LogisticRegression: [-1.0, 1.0], SoftmaxRegression: [0.0, 1.0, 2.0], LeastSquares: [-1.5, 0.25, 3.0, 7.0]}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", LABELS, ids=lambda kind: kind.__name__)
@settings(max_examples=20)
@given(counts=st.lists(st.integers(0, 3), min_size=12, max_size=12), seed=st.integers(0, 99))
def test_a_weight_is_so_many_copies(kind: Any, form: str, counts: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12, 4))
    y = np.resize(LABELS[kind], 12)
    counts[: len(LABELS[kind])] = [max(1, count) for count in counts[: len(LABELS[kind])]]  # every class stays
    X, places = FORMS[form](X), np.repeat(np.arange(12), counts)
    weighted: LinearProblem = kind(X, y, sample_weight=np.array(counts) * 0.7)
    repeated: LinearProblem = kind(X[places], y[places])
    x = rng.standard_normal(weighted.n_parameters)
    assert weighted.loss(x) == pytest.approx(repeated.loss(x), rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(weighted.gradient(x), repeated.gradient(x), rtol=1e-10, atol=1e-12)
    total, out = np.zeros(weighted.n_parameters), 0.0
    for tasks in ([slice(0, 5)], [slice(5, 8), slice(8, 12)]):  # the sum over the tasks is the whole
        shard = weighted.shard(tasks)
        local = np.empty(weighted.n_parameters if shard.support is None else len(shard.support))
        out += shard.combine(shard.take(x), np.ones(len(tasks)), 0, local)
        total[slice(None) if shard.support is None else shard.support] += local
    assert out == pytest.approx(weighted.loss(x), rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(total, weighted.gradient(x), rtol=1e-10, atol=1e-12)
    if counts[6:12] != [0] * 6:  # what is left without a task is the mean by the weights that are left
        (left,) = weighted.exact([x], [slice(0, 6)])
        rest = np.repeat(np.arange(6, 12), counts[6:])
        (same,) = repeated.exact([x], [slice(0, int(sum(counts[:6])))])
        assert len(rest) == same.n_samples
        assert left.loss == pytest.approx(same.loss, rel=1e-11, abs=1e-12)
        np.testing.assert_allclose(left.gradient, same.gradient, rtol=1e-10, atol=1e-12)


def test_all_weights_alike_are_no_weights_to_rounding() -> None:
    rng = np.random.default_rng(0)
    X, y, x = rng.standard_normal((9, 3)), np.resize([-1.0, 1.0], 9), rng.standard_normal(3)
    plain, same = LogisticRegression(X, y), LogisticRegression(X, y, sample_weight=np.full(9, 5.0))
    np.testing.assert_allclose(same.gradient(x), plain.gradient(x), rtol=1e-13)


def test_classes_weigh_as_is_said_and_balanced_ones_the_same() -> None:
    rng = np.random.default_rng(0)
    X, y, x = rng.standard_normal((10, 3)), np.array([-1.0] * 8 + [1.0] * 2), rng.standard_normal(3)
    balanced = LogisticRegression(X, y, class_weight="balanced")
    assert balanced.weight(slice(0, 8)) == pytest.approx(balanced.weight(slice(8, 10)))
    same = LogisticRegression(X, y, class_weight={-1: 1, 1: 4})
    np.testing.assert_allclose(same.gradient(x), balanced.gradient(x), rtol=1e-13)
    both = LogisticRegression(X, y, class_weight={-1: 1, 1: 4}, sample_weight=np.arange(1.0, 11.0))
    product = LogisticRegression(X, y, sample_weight=np.arange(1.0, 11.0) * np.where(y > 0, 4, 1))
    np.testing.assert_allclose(both.gradient(x), product.gradient(x), rtol=1e-13)


BAD = [
    ({"sample_weight": [1.0] * 9}, r"the shape of sample_weight must be \(10,\)"),
    ({"sample_weight": [-1.0] + [1.0] * 9}, r"sample_weight\[0\] must be at least 0.*-1.0"),
    ({"sample_weight": [np.nan] + [1.0] * 9}, r"sample_weight\[0\] must be a finite number"),
    ({"sample_weight": [0.0] * 10}, "the sum of all weights must be positive"),
    ({"sample_weight": [1e308] * 10}, "the sum of all weights must be positive and finite"),
    ({"class_weight": "fair"}, "class_weight must be 'balanced', or factors by label"),
    ({"class_weight": 2.0}, "class_weight must be 'balanced', or factors by label"),
    ({"class_weight": {1: 2.0}}, "class_weight must have a factor for the label -1"),
    ({"class_weight": {1: -2.0, -1: 1.0}}, r"class_weight\[1\] must be a finite number of at least 0"),
]


@pytest.mark.parametrize(("options", "said"), BAD)
def test_what_cannot_be_is_refused_in_a_sentence(options: dict[str, Any], said: str) -> None:
    X, y = np.ones((10, 2)), np.resize([-1.0, 1.0], 10)
    with pytest.raises(InvalidArgument, match=said):
        LogisticRegression(X, y, **options)


def test_targets_that_are_no_classes_have_no_class_weights() -> None:
    with pytest.raises(InvalidArgument, match="class_weight must be left out where targets are no classes"):
        LeastSquares(np.ones((2, 1)), [0.5, 1.0], class_weight="balanced")

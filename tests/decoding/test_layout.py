"""Weighted sums, put in place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead import codes
from erasurehead.decoding import make_decoder
from erasurehead.decoding._base import Decoding
from erasurehead.decoding._layout import Layout
from erasurehead.errors import InvalidArgument


@given(
    weights=st.lists(st.sampled_from([0.0, 1.0, -2.5]), min_size=1, max_size=5), length=st.sampled_from([1, 7, 40_000])
)
def test_dense_messages_are_summed_with_their_weights(weights: list[float], length: int) -> None:
    rng = np.random.default_rng(0)
    vectors = [rng.standard_normal(length) for _ in weights]
    kept = [vector.copy() for vector in vectors]
    for vector in vectors:
        vector.flags.writeable = False
    code = codes.uncoded(len(weights))
    decoding = Decoding(code, np.arange(len(weights)), np.array([weights]), 0.0)
    total = Layout(length, [None] * len(weights)).decode(decoding, vectors)
    np.testing.assert_allclose(total, sum(w * v for w, v in zip(weights, kept, strict=True)), atol=1e-12)
    for vector, before in zip(vectors, kept, strict=True):
        assert vector.tobytes() == before.tobytes()


def test_more_coordinates_than_places_can_name_are_refused() -> None:
    assert Layout(2**31 + 1, [None]).length(0) == 2**31 + 1
    with pytest.raises(InvalidArgument, match=r"n_coordinates must be at most 2147483648.*2147483649"):
        Layout(2**31 + 1, [np.array([[0]])])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_supports_padding_and_whole_messages_mix(dtype: str) -> None:
    code = codes.uncoded(3)
    layout = Layout(5, [np.array([[4, 0]]), None, np.array([[1, -1, 3]])])
    vectors = [np.array([1.0, 2.0]), np.ones(5), np.array([7.0, np.nan, 9.0])]
    vectors = [vector.astype(dtype) for vector in vectors]
    decoding = Decoding(code, np.arange(3), np.array([[1.0, 2.0, -1.0]]), 0.0)
    assert layout.decode(decoding, vectors).tolist() == [4.0, -5.0, 2.0, -7.0, 3.0]
    assert [layout.length(message) for message in range(3)] == [2, 5, 3]


def test_a_message_without_weight_is_not_read() -> None:
    code = codes.uncoded(2)
    for positions in ([None, None], [np.array([[0, 1]]), np.array([[0, 1]])]):
        layout = Layout(2, positions)
        decoding = Decoding(code, np.arange(2), np.array([[1.0, 0.0]]), 0.0)
        assert layout.decode(decoding, [np.ones(2), np.full(2, np.nan)]).tolist() == [1.0, 1.0]


@given(seed=st.integers(0, 1000), pieces=st.integers(1, 3))
def test_supports_are_summed_to_the_bit_message_by_message(seed: int, pieces: int) -> None:
    rng = np.random.default_rng(seed)
    n_messages, length = 4, 20
    positions = [np.sort(rng.permutation(60)[: pieces * length]).reshape(pieces, length) for _ in range(n_messages)]
    for places in positions:
        places[rng.random(places.shape) < 0.1] = -1
    vectors = [rng.standard_normal(length) for _ in range(n_messages)]
    weights = rng.choice([0.0, 1.0, 1.0 / 3.0, -0.7], size=(pieces, n_messages))
    expected = np.zeros(60)
    for places, vector, column in zip(positions, vectors, weights.T, strict=True):
        for place, weight in zip(places, column, strict=True):
            there = place >= 0
            np.add.at(expected, place[there], weight * vector[there])
    decoding = Decoding(codes.uncoded(n_messages), np.arange(n_messages), weights, 0.0)
    assert Layout(60, positions).decode(decoding, vectors).tobytes() == expected.tobytes()


@pytest.mark.parametrize("ascending", [True, False])
def test_long_supports_are_summed_to_the_bit_span_by_span(ascending: bool) -> None:
    rng = np.random.default_rng(0)
    n_coordinates, length, weights = 200_000, 30_000, np.array([[0.3, -1.0, 0.0, 1.0 / 3.0]])
    positions = [rng.permutation(n_coordinates)[:length] for _ in range(3)]
    positions = [np.sort(place) if ascending else place for place in positions]
    vectors = [rng.standard_normal(length) for _ in positions]
    positions[0][-2:] = -1  # padding
    expected = np.zeros(n_coordinates)
    for place, vector, weight in zip(positions, vectors, weights[0], strict=False):
        there = place >= 0
        expected[place[there]] += weight * vector[there]
    whole = rng.standard_normal(n_coordinates)
    expected += weights[0, 3] * whole
    layout = Layout(n_coordinates, [*(place[None, :] for place in positions), None])
    decoding = Decoding(codes.uncoded(4), np.arange(4), weights, 0.0)
    assert layout.decode(decoding, [*vectors, whole]).tobytes() == expected.tobytes()


def test_sums_in_float32_are_as_good_as_the_messages_in_them() -> None:
    random = np.random.default_rng(0)
    for code in (codes.build("cyclic_repetition", n_workers=20, stragglers=4), codes.uncoded(300)):
        gradients = random.standard_normal((code.n_tasks, 2_000))
        whole = np.asarray(code.encoding.todense()) @ gradients
        found = make_decoder(code).decode(range(code.n_messages - (code.tolerance or 0)))
        messages = [whole[row].astype(np.float32) for row in found.messages.tolist()]
        errors = [
            np.abs(
                Layout(2_000, [None] * code.n_messages, dtype).decode(found, messages) - gradients.sum(axis=0)
            ).mean()
            for dtype in ("float64", "float32")
        ]
        assert errors[1] < 30.0 * errors[0]
        assert errors[1] < 2e-6 * np.abs(gradients.sum(axis=0)).mean()

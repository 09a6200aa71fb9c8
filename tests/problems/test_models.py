"""A trained model predicts without its problem, from its name and its parameters."""

from __future__ import annotations

import numpy as np
import pytest

from erasurehead.errors import InvalidArgument
from erasurehead.problems._models import LinearModel

from .oracles import FORMS, KINDS, N_CLASSES, case_of


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_a_model_by_name_is_the_problems_model(kind: str, form: str) -> None:
    case, new = case_of(kind, form, seed=1), case_of(kind, form, seed=2, n_rows=9)
    mine, named = case.problem().model(case.x), LinearModel.named(kind, case.x, n_classes=N_CLASSES)
    assert named.n_features == new.dense.shape[1]
    for model in (mine, named):
        margins = model.decision(new.X)
        expected = new.dense @ (case.x.reshape(N_CLASSES, -1).T if kind == "softmax" else case.x)
        np.testing.assert_allclose(margins, expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(mine.predict(new.X), named.predict(new.X))
    assert mine.evaluate(new.X, new.y) == named.evaluate(new.X, new.y)
    probabilities = named.probabilities(new.X)
    shapes = {"logistic": (9,), "softmax": (9, N_CLASSES), "least_squares": None}
    assert (None if probabilities is None else probabilities.shape) == shapes[kind]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(
        InvalidArgument, match=r"name must be one of logistic, least_squares, softmax, poisson, .*, but it is"
    ):
        LinearModel.named("ridge", np.ones(3))
    with pytest.raises(InvalidArgument, match=r"the shape of x must be \(n_features \* 3,\), but it is \(4,\)"):
        LinearModel.named("softmax", np.ones(4), n_classes=3)
    model = LinearModel.named("least_squares", np.ones(4))
    with pytest.raises(
        InvalidArgument, match="the number of columns of X must be 4, as in the training data, but it is 3"
    ):
        model.predict(np.ones((2, 3)))
    with pytest.raises(InvalidArgument, match=r"y\[0\] must be a finite number"):
        model.evaluate(np.ones((2, 4)), [np.nan, 0.0])

"""The models that run files of peers name: linear, one hidden layer, or a small convolutional network."""

from __future__ import annotations

from typing import Any

import numpy as np

from erasurehead.consensus._config import ConsensusConfig, ConsensusSection
from erasurehead.datasets import Dataset
from erasurehead.datasets._published import images as _images
from erasurehead.errors import invalid
from erasurehead.problems import Problem, TwoLayerNetwork
from erasurehead.runs._config import parts
from erasurehead.runs._config.sections import ProblemSection

_DEFAULT_HIDDEN = 64
"""Default number of hidden units."""


def with_model_defaults(section: ConsensusSection, source: str) -> ConsensusSection:
    """Return `[consensus]` with the model and its number of hidden units filled in.

    Arguments:
        section: `[consensus]`, as the user gave it.
        source: `data.source`.

    Raises:
        InvalidArgument: if hidden units are given for a linear model, or one for images is to learn other data; the
            error names the key.
    """
    model = section.model or ("network" if section.hidden else "linear")
    if model == "linear" and section.hidden:
        raise invalid(
            "consensus.hidden",
            "must be 0 for a linear model, which has no hidden layer",
            section.hidden,
            "the model network has one",
        )
    if model == "cnn" and source not in _images.IMAGES:
        raise invalid(
            "consensus.model",
            "must be linear or network for data that are not images",
            model,
            f"images are {', '.join(_images.IMAGES)}",
        )
    hidden = 0 if model == "linear" else section.hidden or _DEFAULT_HIDDEN
    return section.model_copy(update={"model": model, "hidden": hidden})


def build_problem(config: ConsensusConfig, data: Dataset, minimised: ProblemSection) -> Problem:
    """Return the problem of a run.

    Arguments:
        config: the configuration, with the defaults of the model.
        data: the data set.
        minimised: `[problem]`, with loss and l2.

    Raises:
        InvalidArgument: if the model does not fit the data; the error names the key.
        MissingExtra: if it needs PyTorch, which is not installed.
    """
    section = config.consensus
    if section.model == "linear":
        return parts.build_problem(data, minimised)
    key, model = ("hidden", section.hidden) if section.model == "network" else ("model", section.model)
    if data.task == "least_squares":
        wanted = 0 if key == "hidden" else "linear"
        raise invalid(
            f"consensus.{key}", f"must be {wanted} for a target that is not a class", model, "a linear model learns it"
        )
    shape = _images.image_shape(config.data.source) if section.model == "cnn" else ()
    # Pixels come first; a column of ones is for linear models.
    columns = slice(0, int(np.prod(shape))) if shape else slice(None)
    X, y = _dense(data.X_train)[:, columns], _class_numbers(data, data.y_train)
    test: tuple[Any, Any] | None = None
    if data.X_test is not None and data.y_test is not None:
        test = _dense(data.X_test)[:, columns], _class_numbers(data, data.y_test)
    rest: dict[str, Any] = {"hidden": section.hidden, "l2": minimised.l2 or 0.0, "test": test, "seed": config.run.seed}
    if section.model == "network":
        return TwoLayerNetwork(X, y, **rest)
    from erasurehead.problems._convolutional import image_classes

    return image_classes(X, y, shape, **rest)


def _class_numbers(data: Dataset, labels: Any) -> Any:
    """Return labels as class numbers from 0; data sets with two classes have -1 and +1."""
    return (labels > 0).astype(np.int64) if data.task == "logistic" else labels


def _dense(matrix: Any) -> Any:
    """Return a matrix, which may be sparse, as a dense array."""
    return matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)

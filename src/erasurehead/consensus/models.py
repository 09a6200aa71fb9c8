"""The models that run files of peers name: linear, one hidden layer, or a small convolutional network."""

from __future__ import annotations

from typing import Any

import numpy as np

from erasurehead import datasets
from erasurehead.consensus.config import ConsensusConfig, ConsensusSection
from erasurehead.datasets.base import Dataset
from erasurehead.errors import invalid
from erasurehead.problems.base import Problem
from erasurehead.problems.network import TwoLayerNetwork
from erasurehead.runs.config import parts
from erasurehead.runs.config.sections import ProblemSection

_DEFAULT_HIDDEN = 64
"""Default number of hidden units."""


def with_model_defaults(section: ConsensusSection) -> ConsensusSection:
    """Return `[consensus]` with the model and its number of hidden units filled in.

    Raises:
        InvalidArgument: if hidden units are given for a linear model.
    """
    model = section.model or ("network" if section.hidden else "linear")
    if model == "linear" and section.hidden:
        raise invalid(
            "consensus.hidden",
            "must be 0 for a linear model, which has no hidden layer",
            section.hidden,
            "the model network has one",
        )
    hidden = 0 if model == "linear" else section.hidden or _DEFAULT_HIDDEN
    return section.model_copy(update={"model": model, "hidden": hidden})


def check_model(section: ConsensusSection, source: str) -> None:
    """Check that a model for images is used with images.

    Arguments:
        section: `[consensus]`, with the defaults of the model.
        source: `data.source`.

    Raises:
        InvalidArgument: if the data are not images; the error names the key.
    """
    if section.model == "cnn" and source not in datasets.IMAGES:
        raise invalid(
            "consensus.model",
            "must be linear or network for data that are not images",
            section.model,
            f"images are {', '.join(datasets.IMAGES)}",
        )


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
    labels = _class_numbers(data, data.y_train)
    test = None if data.X_test is None or data.y_test is None else (data.X_test, _class_numbers(data, data.y_test))
    l2 = minimised.l2 or 0.0
    if section.model == "network":
        dense_test = None if test is None else (_dense(test[0]), test[1])
        return TwoLayerNetwork(
            _dense(data.X_train), labels, hidden=section.hidden, l2=l2, test=dense_test, seed=config.run.seed
        )
    check_model(section, config.data.source)
    from erasurehead.problems.convolutional import image_classes

    shape = datasets.image_shape(config.data.source)
    pixels = slice(0, int(np.prod(shape)))  # without the column of ones, which is for linear models
    return image_classes(
        data.X_train[:, pixels],
        labels,
        shape,
        hidden=section.hidden,
        l2=l2,
        seed=config.run.seed,
        test=None if test is None else (test[0][:, pixels], test[1]),
    )


def _class_numbers(data: Dataset, labels: Any) -> Any:
    """Return labels as class numbers from 0; data sets with two classes have -1 and +1."""
    return (labels > 0).astype(np.int64) if data.task == "logistic" else labels


def _dense(matrix: Any) -> Any:
    """Return a matrix, which may be sparse, as a dense array."""
    return matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)

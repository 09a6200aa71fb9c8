"""The models that run files of peers name: linear, or with one hidden layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from erasurehead.consensus._config import ConsensusConfig, ConsensusSection
from erasurehead.datasets import Dataset
from erasurehead.errors import invalid
from erasurehead.problems import Problem
from erasurehead.problems._network import TwoLayerNetwork
from erasurehead.runs._config import parts
from erasurehead.runs._config.sections import ProblemSection

_DEFAULT_HIDDEN = 64
"""Default number of hidden units."""


def with_model_defaults(section: ConsensusSection) -> ConsensusSection:
    """Return `[consensus]` with the model and its number of hidden units filled in.

    Arguments:
        section: `[consensus]`, as the user gave it.

    Raises:
        InvalidArgument: if hidden units are given for a linear model; the error names the key.
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


def build_problem(config: ConsensusConfig, data: Dataset, minimised: ProblemSection) -> Problem:
    """Return the problem of a run.

    Arguments:
        config: the configuration, with the defaults of the model.
        data: the data set.
        minimised: `[problem]`, with loss and l2.

    Raises:
        InvalidArgument: if the model does not fit the data; the error names the key.
    """
    section = config.consensus
    if section.model == "linear":
        return parts.build_problem(data, minimised)
    if data.task == "least_squares":
        rule = "must be 0 for a target that is not a class"
        raise invalid("consensus.hidden", rule, section.hidden, "a linear model learns it")
    test: tuple[Any, Any] | None = None
    if data.X_test is not None and data.y_test is not None:
        test = _dense(data.X_test), _class_numbers(data, data.y_test)
    return TwoLayerNetwork(
        _dense(data.X_train),
        _class_numbers(data, data.y_train),
        hidden=section.hidden,
        l2=minimised.l2 or 0.0,
        test=test,
        seed=config.run.seed,
    )


def _class_numbers(data: Dataset, labels: Any) -> Any:
    """Return labels as class numbers from 0; data sets with two classes have -1 and +1."""
    return (labels > 0).astype(np.int64) if data.task == "logistic" else labels


def _dense(matrix: Any) -> Any:
    """Return a matrix, which may be sparse, as a dense array."""
    return matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)

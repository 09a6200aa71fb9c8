"""What is minimised, and how the model moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from erasurehead.cli.options.option import option

_PANEL = "Model and optimizer"


@dataclass(frozen=True)
class ModelOptions:
    """What a run file can say of the loss and the optimizer. None is what was not given."""

    loss: Annotated[
        str | None,
        option(
            "--loss",
            panel=_PANEL,
            metavar="NAME",
            text="logistic, least_squares or softmax; by default what the labels ask for.",
        ),
    ] = None
    l2: Annotated[
        float | None,
        option(
            "--l2",
            panel=_PANEL,
            metavar="FACTOR",
            text="Of the penalty, (1 / number of training rows): the mean loss plus FACTOR * ||x||^2 is minimised, "
            "without the intercept in x (the paper's data sets: with it). In scikit-learn that is "
            "C = 1 / (2 * rows * FACTOR), or Ridge's alpha = rows * FACTOR.",
        ),
    ] = None
    optimizer: Annotated[
        str | None,
        option(
            "--optimizer",
            panel=_PANEL,
            metavar="NAME",
            text="nesterov (the default), gradient_descent or heavy_ball.",
        ),
    ] = None
    rate: Annotated[
        str | None,
        option(
            "--rate",
            panel=_PANEL,
            metavar="RATE",
            text="Step size: 10, 'geometric(0.1, 0.99)' or 'inverse_time(1.0, half_life=10)'. By default the published "
            "one; for your own data one that is safe, and small: one over the largest curvature.",
        ),
    ] = None
    momentum: Annotated[
        float | None,
        option(
            "--momentum",
            panel=_PANEL,
            metavar="NUMBER",
            text="Of the heavy ball (0.9).",
        ),
    ] = None

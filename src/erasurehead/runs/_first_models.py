"""The first model of a run, taken from another run: coefficients are matched by the names of columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.datasets._preprocessing.encoding import CONSTANT, Encoding
from erasurehead.datasets._preprocessing.target import Target
from erasurehead.errors import InvalidArgument, some
from erasurehead.problems._models import LinearModel, ScoringModel

_SHOWN = 4


@dataclass(frozen=True, eq=False)
class InitialModel:
    """A first model from another run.

    Attributes:
        x: the parameters, shape (n_outputs * n_columns,).
        shared: number of columns that both models have.
        new: columns that the other model lacks, which start at zero.
        dropped: columns of the other model that do not exist here.
    """

    x: Array
    shared: int
    new: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"{self.shared:,} {'column' if self.shared == 1 else 'columns'} by name"
        if self.new:
            text += f"; {some(self.new, _SHOWN)} {'starts' if len(self.new) == 1 else 'start'} at zero"
        if self.dropped:
            are = "is" if len(self.dropped) == 1 else "are"
            text += f"; {some(self.dropped, _SHOWN)} of the other model {are} not here, and left out"
        return text


def initial_model(
    model: ScoringModel, name: str, before: Encoding, encoding: Encoding, loss: str | None
) -> InitialModel:
    """Return a model as the first of a new run: what `TrainedModel.initial` does.

    Arguments:
        model: the other model.
        name: what errors call it.
        before: encoding of the data that it was trained on.
        encoding: encoding of the data here.
        loss: what is minimised; by default what the encoding implies.
    """
    weights = _weights(model, name, before.target, encoding.target, loss or encoding.target.task)
    theirs, now = before.column_names, encoding.column_names
    places = {column: place for place, column in enumerate(theirs)}
    shared = [place for place, column in enumerate(now) if column in places]
    if not any(now[place] != CONSTANT for place in shared):
        raise _refused(
            f"A run cannot begin with {name}, as no column has the same name: its columns are "
            f"{some(theirs, _SHOWN)}, and here they are {some(now, _SHOWN)}."
        )
    taken = [places[now[place]] for place in shared]
    rows = np.zeros((len(weights), len(now)))
    rows[:, shared] = weights[:, taken]
    _rescale(rows, before, encoding)
    here = set(now)
    return InitialModel(
        x=rows.reshape(-1),
        shared=len(shared),
        new=tuple(column for column in now if column not in places),
        dropped=tuple(column for column in theirs if column not in here),
    )


def _weights(model: ScoringModel, name: str, other: Target, target: Target, loss: str) -> Array:
    """Return the parameters of another model, shape (n_outputs, n_columns), for the labels as they are numbered here.

    Raises:
        InvalidArgument: if they are for another loss or other classes.
    """
    if not isinstance(model, LinearModel):
        raise _refused(f"A {loss} run cannot begin with {name}, which is not a linear model.")
    theirs = model.sample_loss.name
    if theirs.partition("(")[0] != loss.partition("(")[0]:  # their parameters may differ
        raise _refused(f"A {loss} run cannot begin with {name}, which is one of {theirs}.")
    weights = model.x.reshape(model.sample_loss.n_outputs, -1)
    if target.classes is None or other.classes is None:
        return weights * (other.unit / target.unit)
    labels, others = target.classes.labels(), other.classes.labels()
    if len(labels) != len(others):
        raise _refused(
            f"A run with {len(labels)} classes cannot begin with {name}, which has {len(others)}: "
            f"{some(others, _SHOWN)}."
        )
    if set(labels) != set(others):
        raise _refused(
            f"A run with the classes {some(labels, _SHOWN)} cannot begin with {name}, whose classes are "
            f"{some(others, _SHOWN)}."
        )
    if len(weights) == 1:  # the score is for the second class, against the first
        return weights if labels == others else -weights
    return weights[[others.index(label) for label in labels]]


def _rescale(rows: Array, before: Encoding, now: Encoding) -> None:
    """Convert coefficients, in place, from the old standardisation of columns to the new one."""
    old, new = before.standardization, now.standardization
    columns = {column: place for place, column in enumerate(now.column_names)}
    constant = columns.get(CONSTANT)
    for column in old.keys() & new.keys():
        (mean, scale), (mean_now, scale_now) = old[column], new[column]
        coefficients = rows[:, columns[column]]
        if constant is not None:
            rows[:, constant] += coefficients * ((mean_now - mean) / scale)
        coefficients *= scale_now / scale


def _refused(sentence: str) -> InvalidArgument:
    return InvalidArgument("initial", "must be a model that fits the run", sentence=sentence)

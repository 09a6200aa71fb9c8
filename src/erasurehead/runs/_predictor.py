"""Trained models with the encoding of their data, for predictions on new files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array
from erasurehead.datasets._encoded import EncodingReport
from erasurehead.datasets._preprocessing.encoding import Encoding, Source
from erasurehead.errors import DataError, counted
from erasurehead.problems._losses import SoftmaxLoss
from erasurehead.problems._models import LinearModel, ScoringModel
from erasurehead.problems._network import NetworkModel
from erasurehead.runs._folder import RunFolder
from erasurehead.runs._names import CONFIG, SUMMARY

if TYPE_CHECKING:
    from erasurehead.datasets._preprocessing.target import Target


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions for rows.

    Attributes:
        values: one per row: the class as in the training file, or the number in the training file's units.
        classes: the names of the classes, in the order of `probabilities`; empty for numbers.
        probabilities: probability of each class, shape (n_rows, n_classes); None for numbers.
        report: unseen and missing values.
    """

    values: list[str] | list[float]
    classes: tuple[str, ...]
    probabilities: Array | None
    report: EncodingReport

    def as_dict(self) -> dict[str, Any]:
        """Return the predictions as plain data."""
        return {
            "predictions": self.values,
            "classes": list(self.classes),
            "probabilities": None if self.probabilities is None else self.probabilities.tolist(),
            "report": _plain(self.report),
        }


@dataclass(frozen=True, eq=False)
class Scores:
    """How good a model is on labelled rows.

    Attributes:
        metrics: values by name, such as `{"auc": 0.84}`; errors are in the units in which the model was trained.
        report: unseen and missing values.
    """

    metrics: dict[str, float]
    report: EncodingReport

    def as_dict(self) -> dict[str, Any]:
        """Return the scores as plain data."""
        return {"metrics": self.metrics, "report": _plain(self.report)}


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A trained model, linear or a network, with the encoding of its data.

    Arguments:
        model: the parameters and their meaning.
        encoding: encoding of the training data.
    """

    model: ScoringModel
    encoding: Encoding

    def __repr__(self) -> str:
        target = self.encoding.target
        name = f" of {target.name!r}" if target.name else ""
        if not isinstance(self.model, LinearModel):
            return f"TrainedModel({type(self.model).__name__}{name}, {counted('feature', self.model.n_features)})"
        return f"TrainedModel({self.model.sample_loss.name}{name}, {self.model.n_features:,} coefficients)"

    def coefficients(self, *, standardized: bool = False) -> dict[str, float] | dict[str, dict[str, float]]:
        """Return the coefficient of each column, by the column's name.

        The score is the predicted number, or the log odds of the second class against the first; with more than two
        classes each has its own score. It is the constant plus the sum over the columns of coefficient times value.

        Arguments:
            standardized: whether coefficients of numbers are for standardised values, as in training; otherwise for the
                values in the file, and the constant is the score when all numbers are 0.

        Returns:
            Coefficients by column, such as `{"size": 2001.3, "town=Ely": -310.2, "(constant)": 88123.4}`; with more
            than two classes, such a mapping for each class.

        Raises:
            DataError: if the model is not linear.
        """
        if not isinstance(self.model, LinearModel):
            raise DataError(f"A {type(self.model).__name__} has no coefficients: only a linear model has.")
        rows = self.model.x.reshape(self.model.sample_loss.n_outputs, -1)
        target = self.encoding.target
        unit = target.unit if target.classes is None else 1.0
        by_output = [self.encoding.named_coefficients(row * unit, standardized) for row in rows]
        if len(by_output) == 1 or target.classes is None:
            return by_output[0]
        return dict(zip(target.classes.labels(), by_output, strict=True))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Load the model of a run.

        Arguments:
            folder: folder of the run.

        Raises:
            DataError: if there is no run, or it has no model or no encoding, or its model is not finite.
        """
        run = RunFolder.open(folder)
        encoding, x = run.encoding, run.x
        if not np.isfinite(x).all():
            status = "unknown" if run.damage(SUMMARY) else run.summary.get("status", "unknown")
            raise DataError(
                f"The model in {str(folder)!r} is not finite (status of the run: {status}), so it predicts"
                f" nothing; train again with a smaller rate."
            )
        if damage := run.damage(CONFIG):
            raise DataError(damage)
        classes = encoding.target.classes
        if classes is not None and len(classes.labels()) < 2:
            raise DataError(f"The encoding in {str(folder)!r} has fewer than two classes, so it is none of a model.")
        model = _model(run.tables, x, encoding)
        if model.n_features != encoding.n_columns:
            raise DataError(
                f"The model in {str(folder)!r} has {counted('feature', model.n_features)}, but its encoding has"
                f" {counted('column', encoding.n_columns)}: the files are not of one run."
            )
        return cls(model, encoding)

    def predict(self, source: Source, *, allow_unseen: bool = False) -> Predictions:
        """Predict rows that may be without labels.

        Arguments:
            source: a file or frame of any format with the columns of the training data, rows as mappings, or a matrix.
            allow_unseen: whether more than half of the rows may have a value in a column that training never saw.

        Raises:
            DataError: if the rows cannot be encoded, the message says where; or if too many values were never seen.
        """
        encoded = self.encoding.apply(source, labels=False)
        if not allow_unseen:
            encoded.report.check()
        target, predicted = self.encoding.target, self.model.predict(encoded.X)
        if target.classes is None or self.model.sample_loss.name not in (target.task, SoftmaxLoss.name):
            return Predictions((predicted * target.unit).tolist(), (), None, encoded.report)
        classes = tuple(target.classes.labels())
        return Predictions(
            [classes[index] for index in _class_numbers(predicted, target)],
            classes,
            _of_each_class(self.model.probabilities(encoded.X)),
            encoded.report,
        )

    def evaluate(
        self, source: Source, labels: str | os.PathLike[str] | None = None, *, allow_unseen: bool = False
    ) -> Scores:
        """Measure the model on labelled rows.

        Arguments:
            source: as for `predict`.
            labels: the file that holds the labels, if the training data had them in a separate file.
            allow_unseen: as for `predict`; and whether more than half of the rows may be left out for their label.

        Raises:
            DataError: if the rows cannot be encoded, have no labels, or too many values were never seen.
        """
        encoded = self.encoding.apply(source, labels=True if labels is None else labels)
        if not allow_unseen:
            encoded.report.check()
        if encoded.y is None:
            name = self.encoding.target.name
            place = f"in {os.fspath(source)} " if isinstance(source, str | os.PathLike) else ""
            raise DataError(f"There are no labels{f' {name!r}' if name else ''} {place}to evaluate the model on.")
        labels_are_signs = self.encoding.target.task == "logistic" and self.model.sample_loss.name == SoftmaxLoss.name
        y = (encoded.y > 0).astype(np.int64) if labels_are_signs else encoded.y
        return Scores(self.model.evaluate(encoded.X, y), encoded.report)


def _model(tables: Mapping[str, Any], x: Array, encoding: Encoding) -> ScoringModel:
    """Return the model of a run, from its settings and parameters."""
    section, n_classes = tables.get("consensus", {}), max(2, encoding.target.n_classes)
    kind, hidden = section.get("model", "linear"), int(section.get("hidden", 0))
    if kind == "network":
        return NetworkModel(SoftmaxLoss(n_classes), x, encoding.n_columns, hidden)
    if kind == "cnn":
        from erasurehead.datasets._published.images import image_shape
        from erasurehead.problems._convolutional import ConvolutionalModel

        shape = image_shape(tables.get("data", {}).get("source", "mnist"))
        return ConvolutionalModel(SoftmaxLoss(n_classes), x, shape, hidden, constant=True)
    loss = tables.get("problem", {}).get("loss", encoding.target.task)
    return LinearModel.named(str(loss), x, n_classes)


def _class_numbers(predicted: NDArray[Any], target: Target) -> list[int]:
    """Return 0, 1, ... for each row: -1 and +1 stand for the first and the second class."""
    numbers = (predicted > 0).astype(np.int64) if target.task == "logistic" else predicted.astype(np.int64)
    return numbers.tolist()


def _of_each_class(probabilities: Array | None) -> Array | None:
    if probabilities is None or probabilities.ndim == 2:
        return probabilities
    return np.column_stack([1.0 - probabilities, probabilities])


def _plain(report: EncodingReport) -> dict[str, Any]:
    return {
        "rows": report.n_rows,
        "unseen": dict(report.unseen),
        "missing": dict(report.missing),
        "dropped": report.dropped,
    }

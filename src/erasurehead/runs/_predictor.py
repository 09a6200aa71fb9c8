"""Trained models with the encoding of their data, for predictions on new files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from erasurehead._internal.arrays import AnyArray, Array, IntArray
from erasurehead._internal.documents import Entries, PlainData
from erasurehead._internal.user_files import StrPath
from erasurehead.datasets._encoded import Encoded, EncodingReport
from erasurehead.datasets._preprocessing.encoding import Encoding, Source
from erasurehead.datasets._sharded import is_sharded
from erasurehead.errors import DataError, counted, invalid
from erasurehead.problems._losses import LogisticLoss, SoftmaxLoss
from erasurehead.problems._metrics import confusion
from erasurehead.problems._models import LinearModel, ScoringModel
from erasurehead.problems._network import NetworkModel
from erasurehead.runs._first_models import InitialModel, initial_model
from erasurehead.runs._folder import RunFolder
from erasurehead.runs._names import CONFIG, SUMMARY


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

    def as_dict(self) -> PlainData:
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
        classes: the names of the classes; empty for numbers.
        confusion: how many rows of each class (rows) are predicted to be of which (columns), shape (n_classes,
            n_classes); None for numbers.
    """

    metrics: dict[str, float]
    report: EncodingReport
    classes: tuple[str, ...] = ()
    confusion: IntArray | None = None

    @property
    def recall(self) -> dict[str, float | None]:
        """The share of the rows of each class that are predicted to be of it; None for a class without rows."""
        return self._shares(1)

    @property
    def precision(self) -> dict[str, float | None]:
        """The share of the rows that are predicted to be of a class that are of it; None if there are none."""
        return self._shares(0)

    def _shares(self, axis: int) -> dict[str, float | None]:
        if self.confusion is None:
            return {}
        totals = self.confusion.sum(axis=axis).tolist()
        right = np.diag(self.confusion).tolist()
        return {
            name: one / total if total else None for name, one, total in zip(self.classes, right, totals, strict=True)
        }

    def as_dict(self) -> PlainData:
        """Return the scores as plain data."""
        of_classes = {
            "classes": list(self.classes),
            "confusion": [] if self.confusion is None else self.confusion.tolist(),
            "recall": self.recall,
            "precision": self.precision,
        }
        return {"metrics": self.metrics, **(of_classes if self.classes else {}), "report": _plain(self.report)}


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

        The score is the predicted number, its logarithm for losses such as poisson, or the log odds of the second class
        against the first; with more than two classes each has its own score. It is the constant plus the sum over the
        columns of coefficient times value.

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
        scaled = target.classes is None and not getattr(self.model.sample_loss, "logs", False)
        unit = target.unit if scaled else 1.0
        by_output = [self.encoding.named_coefficients(row * unit, standardized) for row in rows]
        if len(by_output) == 1 or target.classes is None:
            return by_output[0]
        return dict(zip(target.classes.labels(), by_output, strict=True))

    def initial(self, encoding: Encoding, loss: str | None = None) -> InitialModel:
        """Return this model as the first of a new run.

        Each column takes the coefficient of the column with the same name. Where columns of numbers, or the target, are
        scaled differently, coefficients and constant are converted, so that rows without other columns are predicted as
        before; where the scales are the same, coefficients are copied bit for bit.

        Arguments:
            encoding: encoding of the new run's training data.
            loss: what is minimised; by default what the encoding implies.

        Raises:
            InvalidArgument: if this is not a linear model, is for another loss or other classes, or has no column in
                common.
        """
        return initial_model(self.model, repr(self), self.encoding, encoding, loss)

    @classmethod
    def load(cls, folder: StrPath) -> Self:
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
            raise DataError(
                f"The encoding in {str(folder)!r} has fewer than two classes, so it cannot belong to a model."
            )
        model = _model(run.tables, x, encoding)
        if model.n_features != encoding.n_columns:
            raise DataError(
                f"The model in {str(folder)!r} has {counted('feature', model.n_features)}, but its encoding has"
                f" {counted('column', encoding.n_columns)}: the files belong to different runs."
            )
        return cls(model, encoding)

    def predict(self, source: Source, *, allow_unseen: bool = False, threshold: float | None = None) -> Predictions:
        """Predict rows that may be without labels.

        Arguments:
            source: a file or frame of any format with the columns of the training data, rows as mappings, or a matrix.
            allow_unseen: whether more than half of the rows may have a value in a column that training never saw.
            threshold: probability of the second of two classes above which it is predicted; None for 0.5.

        Raises:
            DataError: if the rows cannot be encoded, the message says where; or if too many values were never seen.
            InvalidArgument: if there is a threshold, but no two classes, or it is not between 0 and 1.
        """
        self._check_threshold(threshold)
        encoded = self._encoded(source, labels=False)
        if not allow_unseen:
            encoded.report.check()
        target, classes = self.encoding.target, self._classes
        if not classes:
            return Predictions((self.model.predict(encoded.X) * target.unit).tolist(), (), None, encoded.report)
        probabilities = _of_each_class(self.model.probabilities(encoded.X))
        numbers = self._class_numbers(encoded.X, threshold)
        return Predictions([classes[index] for index in numbers.tolist()], classes, probabilities, encoded.report)

    def _encoded(self, source: Source, labels: bool | StrPath) -> Encoded:
        if isinstance(source, str | os.PathLike) and is_sharded(source):
            raise DataError(
                f"{os.fspath(source)!r} is a folder of shards, whose rows are encoded already; name the file that it "
                "was made from, or another with its columns."
            )
        return self.encoding.apply(source, labels)

    @property
    def _classes(self) -> tuple[str, ...]:
        """The names of the classes; empty where numbers are predicted."""
        classes = self.encoding.target.classes
        of_classes = self.model.sample_loss.name in (self.encoding.target.task, SoftmaxLoss.name)
        return () if classes is None or not of_classes else tuple(classes.labels())

    def _check_threshold(self, threshold: float | None) -> None:
        if threshold is None:
            return
        if len(self._classes) != 2:
            what = f"{len(self._classes)} classes" if self._classes else "numbers"
            raise invalid("threshold", f"must be left out for a model of {what}: it is for two classes", threshold)
        if not 0.0 < threshold < 1.0:
            raise invalid("threshold", "must be a probability between 0 and 1", threshold)

    def _class_numbers(self, X: Any, threshold: float | None) -> IntArray:
        """Return the class that is predicted for each row: 0, 1, ..."""
        if threshold is None:
            return self._numbered(self.model.predict(X))
        probabilities = _of_each_class(self.model.probabilities(X))
        assert probabilities is not None  # or there were no classes
        return (probabilities[:, 1] > threshold).astype(np.int64)

    def _numbered(self, labels: AnyArray) -> IntArray:
        """Return labels as class numbers: -1 and +1 stand for the first and the second class."""
        return (labels > 0 if self.model.sample_loss.name == LogisticLoss.name else labels).astype(np.int64)

    def evaluate(
        self,
        source: Source,
        labels: StrPath | None = None,
        *,
        allow_unseen: bool = False,
        threshold: float | None = None,
    ) -> Scores:
        """Measure the model on labelled rows.

        Arguments:
            source: as for `predict`.
            labels: the file that holds the labels, if the training data had them in a separate file.
            allow_unseen: as for `predict`; and whether more than half of the rows may be left out for their label.
            threshold: as for `predict`; the areas and the log loss do not depend on it.

        Raises:
            DataError: if the rows cannot be encoded, have no labels, or too many values were never seen.
            InvalidArgument: as for `predict`.
        """
        self._check_threshold(threshold)
        encoded = self._encoded(source, labels=True if labels is None else labels)
        if not allow_unseen:
            encoded.report.check()
        if encoded.y is None:
            name = self.encoding.target.name
            place = f"in {os.fspath(source)} " if isinstance(source, str | os.PathLike) else ""
            named = f" {name!r}" if name else ""
            raise DataError(
                f"There are no labels{named} {place}to evaluate the model on; erasurehead predict needs none."
            )
        labels_are_signs = self.encoding.target.task == "logistic" and self.model.sample_loss.name == SoftmaxLoss.name
        y = (encoded.y > 0).astype(np.int64) if labels_are_signs else encoded.y
        if self.encoding.target.name and not self._classes:
            self.model.sample_loss.labels(encoded.y.astype(np.float64), f"the label {self.encoding.target.name!r}")
        metrics, classes = self.model.evaluate(encoded.X, y), self._classes
        if not classes:
            return Scores(metrics, encoded.report)
        counts = confusion(self._numbered(y), self._class_numbers(encoded.X, threshold), len(classes))
        metrics["accuracy"] = float(np.trace(counts)) / len(y)
        return Scores(metrics, encoded.report, classes, counts)


def _model(tables: Entries, x: Array, encoding: Encoding) -> ScoringModel:
    """Return the model of a run, from its settings and parameters."""
    section, n_classes = tables.get("consensus", {}), max(2, encoding.target.n_classes)
    kind, hidden = section.get("model", "linear"), int(section.get("hidden", 0))
    if kind == "network":
        return NetworkModel(SoftmaxLoss(n_classes), x, encoding.n_columns, hidden)
    loss = tables.get("problem", {}).get("loss", encoding.target.task)
    return LinearModel.named(str(loss), x, n_classes)


def _of_each_class(probabilities: Array | None) -> Array | None:
    if probabilities is None or probabilities.ndim == 2:
        return probabilities
    return np.column_stack([1.0 - probabilities, probabilities])


def _plain(report: EncodingReport) -> PlainData:
    return {
        "rows": report.n_rows,
        "unseen": dict(report.unseen),
        "missing": dict(report.missing),
        "dropped": report.dropped,
    }

"""Encoded rows, and a report of unknown and missing values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, get_args

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.datasets._matrices import Matrix
from erasurehead.errors import DataError, counted

Labels: TypeAlias = Array | IntArray
Task: TypeAlias = Literal["logistic", "least_squares", "softmax"]
_MOST_SAID = 8  # columns that are named where values are missing: those with the most

TASKS: tuple[str, ...] = get_args(Task)


@dataclass(frozen=True)
class EncodingReport:
    """Unknown and missing values in data that an encoding was not fitted on.

    Arguments:
        n_rows: number of rows that were encoded.
        unseen: for each column, or combination of columns such as `"RESOURCE x MGR_ID"`, number of rows whose value
            is not in the encoding; such a row has no entry in that column's part of the matrix. Zero counts are left
            out.
        missing: the same for rows whose value is missing. A missing number is replaced by the mean of the training
            rows, a missing category has no entry.
        dropped: number of rows left out because their label is not one of the classes.
    """

    n_rows: int
    unseen: Mapping[str, int]
    missing: Mapping[str, int]
    dropped: int = 0

    def __add__(self, other: EncodingReport) -> EncodingReport:
        unseen, missing = Counter(self.unseen) + Counter(other.unseen), Counter(self.missing) + Counter(other.missing)
        return EncodingReport(self.n_rows + other.n_rows, unseen, missing, self.dropped + other.dropped)

    def check(self) -> None:
        """Raise if more than half of the rows have a value that training never saw, or a label that is no class.

        Combinations of columns do not count, as each of their columns does by itself. Neither do missing values: they
        may be as frequent in the training rows.

        Raises:
            DataError: that names the columns.
        """
        lost = [
            f"{name}: {count:,} of {counted('row', self.n_rows)} have a value that training never saw"
            for name, count in self.unseen.items()
            if " x " not in name and 2 * count > self.n_rows
        ]
        if self.dropped > self.n_rows:
            whole = counted("row", self.n_rows + self.dropped)
            lost.append(f"{self.dropped:,} of {whole} have a label that is not one of the classes")
        if lost:
            more = f"; and {len(lost) - 3} more columns likewise" if len(lost) > 3 else ""
            raise DataError(
                f"{'; '.join(lost[:3])}{more}. The model knows nothing of more than half of the rows there: check that "
                "columns, spellings and units are those of the training data, or allow it (allow_unseen, "
                "--allow-unseen)."
            )

    def sentences(self) -> tuple[str, ...]:
        """Return the report as sentences: one per column on unseen values, and one on all missing values."""
        return (*self.unseen_sentences(), *self.missing_sentences())

    def missing_sentences(self) -> tuple[str, ...]:
        """Return a sentence on missing values, and one on rows without a known label, where there are such."""
        counts = {name: count for name, count in self.missing.items() if " x " not in name}
        most = sorted(counts, key=lambda name: (-counts[name], name))[:_MOST_SAID]
        each = ", ".join(f"{name} in {counts[name]:,}" for name in most)
        more = len(counts) - len(most)
        each += f", and {counted('further column', more)}" if more else ""
        lines = [f"missing values: {each} of {counted('row', self.n_rows)}"] if counts else []
        if self.dropped:
            lines.append(f"{counted('row', self.dropped)} left out: their label is not one of the classes")
        return tuple(lines)

    def unseen_sentences(self) -> tuple[str, ...]:
        """Return a sentence for each column with unseen values, and one on all combinations of columns."""
        lines = [
            f"{name}: {count} of {self.n_rows} rows have a value that training never saw"
            for name, count in self.unseen.items()
            if " x " not in name
        ]
        pairs = sum(count for name, count in self.unseen.items() if " x " in name)
        if pairs:
            lines.append(f"combinations of columns: {pairs} entries have values that training never saw together")
        return tuple(lines)


class Encoded(NamedTuple):
    """Encoded rows: design matrix, labels (None if the data have none), and the report."""

    X: Matrix
    y: Labels | None
    report: EncodingReport

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead.datasets import read, shard
from erasurehead.datasets._encoded import Labels, Task
from erasurehead.datasets._preprocessing.array_encoding import ArrayEncoding
from erasurehead.datasets._preprocessing.encoding import Encoding
from erasurehead.datasets._preprocessing.target import Target, fit_target
from erasurehead.datasets._readers.values import column_of
from erasurehead.errors import DataError, InvalidArgument


def _place(row: int) -> str:
    return f"data.csv, line {row + 2}"


def _fit(values: Sequence[object], task: Task | None = None) -> tuple[Target, Labels]:
    column = column_of(values, "y", "here")
    target = fit_target(column, "y", task, _place)
    return target, target.apply(column, _place)[0]


@pytest.mark.parametrize(
    ("values", "task", "labels", "meaning"),
    [
        ([0, 1, 1], "logistic", [-1, 1, 1], "-1 is 0, +1 is 1"),
        ([7.5, -2, 7.5], "logistic", [1, -1, 1], "-1 is -2, +1 is 7.5"),
        (["yes", "no"], "logistic", [1, -1], "-1 is no, +1 is yes"),
        ([3, 1, 2, 1], "softmax", [2, 0, 1, 0], "0 is 1, 1 is 2, 2 is 3"),
        (["b", "c", "a"], "softmax", [1, 2, 0], "0 is a, 1 is b, 2 is c"),
        ([0.5, 1.5, 2.0], "least_squares", [0.5, 1.5, 2.0], "y"),
        (list(range(21)), "least_squares", list(range(21)), "y"),
        (list(range(20)), "softmax", list(range(20)), ", ".join(f"{k} is {k}" for k in range(20))),
    ],
)
def test_the_task_is_told_from_the_labels(values: list[object], task: str, labels: list[float], meaning: str) -> None:
    target, found = _fit(values)
    assert (target.task, found.tolist(), target.meaning()) == (task, labels, meaning)
    assert found.dtype == (np.int64 if task == "softmax" else np.float64)


def test_of_many_classes_a_note_lists_some_and_the_meaning_all() -> None:
    target = fit_target(column_of([f"c{place:03}" for place in range(150)], "y", "t"), "y", None, str)
    assert target.note(None).endswith(", 17 is c017, 18 is c018, ..., 149 is c149")
    assert target.meaning().count(" is ") == 150


def test_the_task_may_be_named() -> None:
    assert _fit([0, 1], "softmax")[1].tolist() == [0, 1]
    assert _fit([0, 1], "least_squares")[1].tolist() == [0.0, 1.0]
    assert _fit([3, 1, 2], "least_squares")[1].tolist() == [3.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("values", "task", "said"),
    [
        ([1, 1, 1], None, "line 2: the label 'y' is '1', as in every row; there must be two classes"),
        (["a", "a"], "softmax", "the label 'y' is 'a', as in every row"),
        ([1, None, 0], None, "line 3: the label 'y' is missing"),
        ([1, 2, 3], "logistic", r"has 3 \(1, 2, 3\); use softmax, or least_squares"),
        (list("abcdefg"), "logistic", r"has 7 \(a, b, c, d, e, f, \.\.\.\); use softmax"),
        (["a", "b"], "least_squares", "line 2: the label 'y', 'a', is not a number"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(values: list[object], task: Task | None, said: str) -> None:
    with pytest.raises(DataError, match=said):
        _fit(values, task)


def test_an_unknown_task_is_refused() -> None:
    unknown: Any = "ranking"
    with pytest.raises(
        InvalidArgument, match="task must be one of logistic, least_squares, softmax, but it is 'ranking'"
    ):
        _fit([0, 1], unknown)


def test_later_labels_must_be_of_the_classes() -> None:
    target, _ = _fit(["no", "yes"])
    with pytest.raises(
        DataError, match="line 3: the label 'y' must be one of the classes no, yes, but it is 'perhaps'"
    ):
        target.apply(column_of(["no", "perhaps"], "y", "here"), _place)


def test_rows_of_other_classes_may_be_dropped() -> None:
    classes = _fit([1, 2])[0].classes
    target = Target("y", "logistic", classes, others="drop")
    labels, kept = target.apply(column_of([1, 7, 2, 3], "y", "here"), _place)
    assert (labels.tolist(), kept.tolist()) == ([-1.0, 1.0], [0, 2])


def test_the_unit_divides_a_least_squares_target() -> None:
    target = Target("price", "least_squares", unit=1e6)
    assert target.apply(column_of([221900, 538000], "price", "here"), _place)[0].tolist() == [0.2219, 0.538]
    assert target.meaning() == "price in units of 1e+06"


@pytest.mark.parametrize("values", [[0, 1], ["no", "yes"], [1, 2, 3], [0.25, 0.5, 0.75]])
def test_targets_survive_json(values: list[object]) -> None:
    target, labels = _fit(values)
    encoding = ArrayEncoding(1, target)
    again = Encoding.from_json(encoding.to_json()).target
    assert again.meaning() == target.meaning()
    assert again.apply(column_of(values, "y", "here"), _place)[0].tolist() == labels.tolist()
    assert ArrayEncoding(1, again).to_json() == encoding.to_json()


@pytest.mark.parametrize("kind", ["csv", "frame", "parquet", "shards"])
def test_codes_with_zeros_before_them_are_called_as_they_are_written(tmp_path: Path, kind: str) -> None:
    pandas = pytest.importorskip("pandas")
    codes = ["10", "01", "02"] * 20
    frame = pandas.DataFrame({"a": np.arange(60.0), "code": codes})
    source: Any = frame
    if kind != "frame":
        source = tmp_path / ("codes.parquet" if kind == "parquet" else "codes.csv")
        frame.to_parquet(source) if kind == "parquet" else frame.to_csv(source, index=False)
    encoding = shard(source, 2, tmp_path / "shards").encoding if kind == "shards" else read(source).encoding
    target = Encoding.from_json(encoding.to_json()).target
    assert target.classes is not None
    assert target.classes.labels() == ["01", "02", "10"]
    again = encoding.apply([{"a": 1.0, "code": "01"}, {"a": 1.0, "code": "1"}])  # which is the same number
    assert again.y is not None
    assert again.y.tolist() == [0, 0]


def test_many_numbers_with_zeros_before_them_are_a_quantity(tmp_path: Path) -> None:
    (tmp_path / "y.csv").write_text("a,y\n" + "".join(f"{number},{number:05d}\n" for number in range(60)))
    data = read(tmp_path / "y.csv")
    assert data.task == "least_squares"
    assert sorted([*data.y_train, *data.y_test]) == list(range(60))

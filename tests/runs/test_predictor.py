"""A trained model: its coefficients by the names of the columns, and how it prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead import datasets
from erasurehead.errors import DataError, InvalidArgument
from erasurehead.problems import LeastSquares, LogisticRegression, Regression, SoftmaxRegression
from erasurehead.runs import RunFolder, TrainedModel

PROBLEMS: dict[str, Any] = {
    "least_squares": LeastSquares,
    "logistic": LogisticRegression,
    "softmax": SoftmaxRegression,
}


def trained(read: datasets.Dataset, x: Any) -> TrainedModel:
    """Return the model with these parameters for data."""
    return TrainedModel(PROBLEMS[read.task](read.X_train, read.y_train).model(x), read.encoding)


def data(path: Path, label: str) -> datasets.Dataset:
    rng = np.random.default_rng(0)
    rows = [
        f"{rng.normal(100, 20):.3f},{rng.choice(['Ely', 'Rye'])},{rng.integers(3)},{rng.choice(label.split())}"
        for _ in range(60)
    ]
    path.write_text("\n".join(["size,town,year,y", *rows]))
    return datasets.read(path, one_hot=["town"], interactions=[["town", "year"]], test_fraction=None)


@pytest.mark.parametrize("label", ["a b", "1.5 2.5 3.75", "a b c"])
@pytest.mark.parametrize("standardized", [False, True])
def test_coefficients_times_values_and_the_constant_are_the_score(
    tmp_path: Path, label: str, standardized: bool
) -> None:
    read = data(tmp_path / "a.csv", label)
    outputs = 3 if read.task == "softmax" else 1
    x = np.random.default_rng(1).standard_normal(outputs * read.n_columns)
    model = trained(read, x)
    named = model.coefficients(standardized=standardized)
    scores = np.atleast_2d(model.model.decision(read.X_train).T)
    lines = [line.split(",") for line in (tmp_path / "a.csv").read_text().splitlines()[1:]]
    size, year = (np.array([float(line[place]) for line in lines]) for place in (0, 2))
    if standardized:
        size, year = ((values - values.mean()) / values.std() for values in (size, year))
    for place, weights in enumerate(named.values() if outputs > 1 else [named]):
        assert isinstance(weights, dict)
        said = [
            weights["(constant)"]
            + weights["size"] * value
            + weights["year"] * number
            + weights[f"town={line[1]}"]
            + weights[f"town={line[1]} x year={line[2]}"]
            for value, number, line in zip(size, year, lines, strict=True)
        ]
        np.testing.assert_allclose(said, scores[place], rtol=1e-9, atol=1e-9)
    assert len(read.encoding.column_names) == read.n_columns


def test_a_label_that_the_loss_does_not_allow_is_named(tmp_path: Path) -> None:
    read = data(tmp_path / "a.csv", "1.5 2.5 3.75")
    model = TrainedModel(
        Regression(read.X_train, read.y_train, loss="gamma").model(np.zeros(read.n_columns)), read.encoding
    )
    with pytest.raises(
        InvalidArgument, match="every value of the label 'y' must be above 0 for the loss gamma, but it is -1"
    ):
        model.evaluate([{"size": 90.0, "town": "Ely", "year": 1, "y": -1.0}])


def test_a_folder_of_shards_is_no_file_of_rows(tmp_path: Path) -> None:
    read = data(tmp_path / "a.csv", "1.5 2.5 3.75")
    datasets.shard(tmp_path / "a.csv", 2, tmp_path / "shards", one_hot=["town"])
    model = trained(read, np.zeros(read.n_columns))
    for use in (model.predict, model.evaluate):
        with pytest.raises(DataError, match="is a folder of shards, whose rows are encoded already; name"):
            use(tmp_path / "shards")


def test_a_model_of_a_matrix_has_numbered_columns(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.random.default_rng(0).normal(size=(30, 4)))
    read = datasets.read(tmp_path / "a.npy", test_fraction=None)
    model = trained(read, np.arange(4.0))
    assert model.coefficients() == {"0": 0.0, "1": 1.0, "2": 2.0, "(constant)": 3.0}


def test_a_model_prints_in_a_line(tmp_path: Path) -> None:
    read = data(tmp_path / "a.csv", "a b")
    model = trained(read, np.zeros(read.n_columns))
    assert repr(model) == f"TrainedModel(logistic of 'y', {read.n_columns} coefficients)"
    assert repr(read.encoding) == f"TableEncoding(4 columns of a table -> {read.n_columns} of a matrix, label 'y')"
    assert len(repr(read)) < 200


READ = "import sys; from erasurehead.runs import RunFolder; print(RunFolder.open(sys.argv[1]).encoding.n_columns)"


@pytest.mark.slow
def test_a_process_that_has_read_no_data_yet_reads_the_encodings_of_tables_and_of_matrices(tmp_path: Path) -> None:
    np.save(tmp_path / "b.npy", np.random.default_rng(0).normal(size=(30, 4)))
    for read in (data(tmp_path / "a.csv", "a b"), datasets.read(tmp_path / "b.npy", test_fraction=None)):
        folder = RunFolder.create(tmp_path / read.name)
        folder.write("encoding.json", read.encoding.to_json())
        done = subprocess.run([sys.executable, "-c", READ, str(folder.path)], capture_output=True, text=True)
        assert (done.stdout.strip(), done.stderr) == (str(read.n_columns), "")


def test_rows_that_are_none_are_a_sentence(tmp_path: Path) -> None:
    read = data(tmp_path / "a.csv", "a b")
    model = trained(read, np.zeros(read.n_columns))
    for rows, said in (
        ([], "the list of rows is empty; there must be at least one row, such as"),
        (
            [{"size": 1, "town": "Ely", "year": 2}, 2],
            "row 1: each row must be a mapping from .*, but this is 2",
        ),
        ([[1, 2]], r"row 0: each row must be a mapping from column names to values, .* this is \[1, 2\]"),
        ([{1: 2}], "the list of rows has no column '.*'; its columns are 1"),
    ):
        with pytest.raises(DataError, match=said):
            model.predict(rows)

"""A folder of Parquet files as tasks of a run: the rows that `read` takes, read and encoded where they are used."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead import delays, engines, optimizers, problems, schemes, train
from erasurehead.cli._proposals import proposed
from erasurehead.datasets import read
from erasurehead.datasets._sharded import ShardFolder, in_place
from erasurehead.errors import DataError, UndeclaredText
from erasurehead.problems import ShardedProblem
from erasurehead.runs import Experiment

pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")

FILES, ROWS = 3, 200


@pytest.fixture(name="events")
def _events(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for number in range(FILES):
        place = tmp_path / "events" / f"year={2022 + number}"
        place.mkdir(parents=True)
        x, town = rng.normal(size=ROWS), rng.choice(["Ely", "Rye", "Ayr"], ROWS)
        y = np.where(x + (town == "Rye") + rng.normal(size=ROWS) > 0.3, "yes", "no")
        table = pa.table({"x": x, "town": town, "late": pa.array([None, *x[1:]]), "bought": y})
        pq.write_table(table, place / "part-0.parquet", row_group_size=70)
    return tmp_path / "events"


def _all(folder: ShardFolder) -> tuple[Any, Any]:
    tasks = [folder.rows_of(number) for number in range(folder.manifest.n_tasks)]
    return np.concatenate([_dense(rows.X) for rows in tasks]), np.concatenate([rows.y for rows in tasks])


def _dense(X: Any) -> Any:
    return X.toarray() if hasattr(X, "toarray") else X


@pytest.mark.parametrize("how", [{"drop": ["town"]}, {"one_hot": ["town"], "seed": 3}, {"categorical": True}])
@pytest.mark.parametrize("test_fraction", [0.2, None])
def test_its_rows_are_those_that_reading_the_folder_gives(
    events: Path, how: dict[str, Any], test_fraction: float | None
) -> None:
    how = {**how, "test_fraction": test_fraction}
    data, folder = read(events, "bought", **how), in_place(events, "bought", **how)
    assert folder.encoding.to_json() == data.encoding.to_json()
    X, y = _all(folder)
    assert len(X) == folder.manifest.n_train == data.n_train
    pairs = [(X, y, data.X_train, data.y_train)]
    if (test := folder.test_rows()) is not None:
        pairs.append((_dense(test.X), test.y, data.X_test, data.y_test))
    assert len(pairs) == (2 if test_fraction else 1)
    for rows, labels, expected, expected_labels in pairs:
        one, other = (np.column_stack(both) for both in ((rows, labels), (_dense(expected), expected_labels)))
        np.testing.assert_array_equal(one[np.lexsort(one.T)], other[np.lexsort(other.T)])


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"drop": ["town"]}, {"one_hot": ["town"]}])
def test_workers_train_on_it_as_on_the_same_rows_in_memory(events: Path, how: dict[str, Any]) -> None:
    folder = in_place(events, "bought", **how)
    X, y = _all(folder)
    whole = problems.LogisticRegression(X, y, l2=0.01, intercept=-1)
    sharded = ShardedProblem(folder, l2=0.01)

    def trained(problem: Any) -> Any:
        engine = engines.VirtualEngine(delays.Exponential(mean=0.5, seed=0))
        scheme = schemes.erasurehead(6, load=3, wait_for=2)
        return train(problem, scheme, optimizers.Nesterov(problem.initial(), rate=0.5), engine, steps=10).x

    np.testing.assert_allclose(trained(sharded), trained(whole), rtol=1e-9)
    exact = sharded.exact([np.zeros(sharded.n_parameters)])[0]
    assert exact.n_samples == folder.manifest.n_train
    shard = pickle.loads(pickle.dumps(sharded.shard([slice(0, 240), slice(240, 480)])))
    assert shard.n_tasks == 2
    assert shard.support is None


@pytest.mark.slow
def test_a_run_says_where_its_rows_are_and_goes_on_to_the_bit(events: Path, tmp_path: Path) -> None:
    tables: dict[str, Any] = {
        "data": {"source": str(events), "target": "bought", "categorical": True},
        "run": {"engine": "virtual", "workers": 4, "steps": 4, "out": str(tmp_path / "run")},
        "delays": {"model": "exponential(mean=0.5)"},
    }
    experiment = Experiment.from_config(tables)
    assert experiment.data.notes[0] == f"240 tasks of {events}"
    experiment.run()
    again = Experiment.resume(tmp_path / "run", {"run": {"steps": 8}}).run()
    tables["run"] |= {"steps": 8, "out": str(tmp_path / "whole")}
    whole = Experiment.from_config(tables).run()
    assert again.x.tobytes() == whole.x.tobytes()


def test_texts_are_refused_and_a_command_that_takes_them_is_proposed(events: Path) -> None:
    with pytest.raises(UndeclaredText, match="row 0, column 'town'"):
        in_place(events, "bought")
    words = ["--data", str(events), "--label", "bought"]
    tables = {"data": {"source": str(events), "target": "bought"}}
    assert proposed("train", words, tables) == f"erasurehead train --data {events} --label bought --categorical"


def test_what_is_not_what_the_encoding_was_fitted_to_is_refused(events: Path) -> None:
    folder = in_place(events, "bought", drop=["town"])
    (events / "year=2024" / "part-0.parquet").unlink()
    with pytest.raises(DataError, match=r"has changed: row 400 is not there; begin a new run"):
        folder.test_rows()

"""A run begins with the final model of another: by the names of the columns, and with nothing silently lost."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead.errors import DataError, InvalidArgument
from erasurehead.runs import Experiment, RunFolder, TrainedModel
from erasurehead.runs._config import merged


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def homes(name: str, columns: str = "size,rooms,town,price", seed: int = 3, scale: float = 1.0) -> str:
    rng = np.random.default_rng(seed)
    lines = [columns]
    for _ in range(90):
        size, rooms, town = scale * rng.uniform(30, 200), rng.integers(1, 7), ("Ely", "Rye", "Ayr")[rng.integers(3)]
        price = 2.5 * size + 10 * rooms + 30 * (town == "Rye") + rng.normal()
        known = {
            "size": f"{size:.1f}",
            "rooms": rooms,
            "town": town,
            "price": f"{price:.2f}",
            "age": seed + rooms * size,
        }
        known["kind"] = "abc"[int(price) % 3 if "abc" in columns else int(price) % 2]
        lines.append(",".join(str(known[column.removesuffix("abc")]) for column in columns.split(",")))
    Path(name).write_text("\n".join(lines).replace("kindabc", "kind") + "\n")
    return name


def begin(out: str, source: str, *tables: dict[str, Any]) -> Experiment:
    whole: dict[str, Any] = {
        "data": {"source": source, "one_hot": ["town"], "test_fraction": 0.0},
        "run": {"engine": "virtual", "preset": "paper", "workers": 4, "steps": 30, "out": out, "evaluate_every": 0},
    }
    for table in tables:
        whole = merged(whole, table)
    return Experiment.from_config(whole)


def test_the_same_data_begin_where_the_other_run_ended_to_the_bit() -> None:
    first = begin("first", homes("homes.csv")).run()
    second = begin("second", "homes.csv", {"run": {"initial": "first"}})
    assert second.first_model().tobytes() == first.x.tobytes()
    assert second.initial is not None
    assert str(second.initial) == "6 columns by name"
    run = second.run()
    assert run.final is not None
    assert first.final is not None
    assert run.final.first_objective == first.final.objective
    assert RunFolder.open("second").tables["run"]["initial"] == str(Path("first").absolute())


def test_columns_are_matched_by_name_and_scaled_so_that_predictions_stay() -> None:
    begin("first", homes("homes.csv")).run()
    model = TrainedModel.load("first")
    second = begin(
        "second", homes("new.csv", "rooms,town,size,price", seed=8, scale=3.0), {"run": {"initial": "first"}}
    )
    moved = TrainedModel(second.problem.model(second.first_model()), second.data.encoding)
    before, after = (trained.predict("new.csv").values for trained in (model, moved))
    np.testing.assert_allclose(after, before, rtol=1e-12)


def test_new_columns_start_at_zero_and_dropped_ones_are_named() -> None:
    begin("first", homes("homes.csv")).run()
    named = TrainedModel.load("first").coefficients(standardized=True)
    source = homes("new.csv", "size,age,town,price")
    second = begin("second", source, {"run": {"initial": "first"}})
    assert second.initial is not None
    assert (second.initial.new, second.initial.dropped) == (("age",), ("rooms",))
    assert str(second.initial) == (
        "5 columns by name; age starts at zero; rooms of the other model is not here, and left out"
    )
    found = dict(zip(second.data.encoding.column_names, second.first_model().tolist(), strict=True))
    assert found["age"] == 0.0
    assert found["size"] == pytest.approx(named["size"])
    assert found["town=Rye"] == named["town=Rye"]


def test_from_python_it_is_a_trained_model() -> None:
    run = begin("first", homes("homes.csv")).run()
    trained = TrainedModel.load("first")
    assert trained.initial(trained.encoding).x.tobytes() == run.x.tobytes()


@pytest.mark.parametrize(
    ("columns", "tables", "said"),
    [
        ("size,kind", {"data": {"target": "kind", "one_hot": []}}, "A logistic run cannot begin with .*least_squares"),
        ("age,price", {"data": {"one_hot": []}}, "no column has the same name: its columns are size, rooms, town=Ayr"),
    ],
)
def test_what_is_no_model_of_these_data_is_refused(columns: str, tables: dict[str, Any], said: str) -> None:
    begin("first", homes("homes.csv")).run()
    with pytest.raises(InvalidArgument, match=rf"run.initial \('.*first'\): .*{said}"):
        begin("second", homes("new.csv", columns), tables, {"run": {"initial": "first"}})


def test_other_classes_are_refused_and_the_same_ones_are_put_in_order() -> None:
    two = {"data": {"target": "kind", "one_hot": []}, "problem": {"loss": "softmax"}}
    begin("first", homes("two.csv", "size,kind"), two).run()
    with pytest.raises(InvalidArgument, match=r"A run with 3 classes cannot begin with .*, which has 2: a, b\."):
        begin("second", homes("three.csv", "size,kindabc"), two, {"run": {"initial": "first"}})
    Path("other.csv").write_text(Path("two.csv").read_text().replace(",b", ",c"))
    with pytest.raises(InvalidArgument, match=r"A run with the classes a, c cannot .* whose classes are a, b\."):
        begin("second", "other.csv", two, {"run": {"initial": "first"}})


def test_what_is_no_folder_of_a_finished_run_is_a_sentence() -> None:
    homes("homes.csv")
    with pytest.raises(InvalidArgument, match=r"run.initial must be zeros, randn or the folder of a run, .* 'ones'"):
        begin("second", "homes.csv", {"run": {"initial": "ones"}})
    Path("empty").mkdir()
    with pytest.raises(DataError, match=r"is not a run folder: there is no steps\.jsonl in it"):
        begin("second", "homes.csv", {"run": {"initial": "empty"}})


def test_a_run_goes_on_without_the_one_that_it_began_with() -> None:
    begin("first", homes("homes.csv")).run()
    started = {"run": {"initial": "first"}}
    begin("whole", "homes.csv", started, {"run": {"steps": 40}}).run()
    begin("second", "homes.csv", started).run()
    shutil.rmtree("first")
    run = Experiment.resume("second", {"run": {"steps": 40}}).run()
    assert run.x.tobytes() == RunFolder.open("whole").x.tobytes()
    assert run.final == RunFolder.open("whole").run.final

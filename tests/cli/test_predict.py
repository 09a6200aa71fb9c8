"""`erasurehead predict` and `evaluate`: a saved model, with its encoding, on new files."""

from __future__ import annotations

import csv
import io
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from erasurehead.datasets._base import split_rows
from erasurehead.runs import RunFolder, TrainedModel

from ..typed import other
from .shop import SMALL, Typed, write_shop


@pytest.fixture
def trained(typed: Typed, shop: Path) -> str:
    assert typed("train", "--data", shop, *other(SMALL, "--steps", 40), "--out", "model", "--quiet").code == 0
    return "model"


def test_predictions_are_lines_of_csv(typed: Typed, trained: str) -> None:
    new = write_shop(Path("new.csv"), n_rows=30, seed=9)
    done = typed("predict", trained, new)
    rows = list(csv.DictReader(io.StringIO(done.out)))
    truth = [row["bought"] for row in csv.DictReader(new.read_text().splitlines())]
    assert len(rows) == 30
    assert np.mean([row["prediction"] == label for row, label in zip(rows, truth, strict=True)]) > 0.7
    for row in rows:
        yes, no = float(row["probability of yes"]), float(row["probability of no"])
        assert yes + no == pytest.approx(1)
        assert row["prediction"] == ("yes" if yes > 0.5 else "no")


def test_rows_need_no_labels_and_unseen_values_are_counted(typed: Typed, trained: str) -> None:
    Path("new.csv").write_text("town,income,age\nRye,30,70\nOban,25.5,30\nOban,,40\n")
    done = typed("predict", trained, "new.csv", "--json", "--allow-unseen")
    assert done.json["classes"] == ["no", "yes"]
    assert len(done.json["predictions"]) == 3
    assert done.json["report"] == {"rows": 3, "unseen": {"town": 2}, "missing": {"income": 1}, "dropped": 0}
    assert "town: 2 of 3 rows have a value that training never saw" in done.err
    assert "missing values: income in 1 of 3 rows" in done.err


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_values_that_are_unseen_in_more_than_half_of_the_rows_are_an_error_unless_allowed(
    typed: Typed, trained: str, command: str
) -> None:
    header, rows = "age,town,income,bought\n", ["70,Rye,30,yes\n", "30,Oban,30,no\n"]
    Path("half.csv").write_text(header + "".join(rows * 5))
    Path("more.csv").write_text(header + "".join([*rows * 5, rows[1]]))
    half = typed(command, trained, "half.csv")
    assert half.code == 0
    assert "town: 5 of 10 rows have a value that training never saw" in half.err
    more = typed(command, trained, "more.csv")
    assert (more.code, more.out) == (2, "")
    assert more.sentence == (
        "erasurehead: town: 6 of 11 rows have a value that training never saw. The model knows nothing of more than "
        "half of the rows there: check that columns, spellings and units are those of the training data, or allow it "
        "(allow_unseen, --allow-unseen)."
    )
    allowed = typed(command, trained, "more.csv", "--allow-unseen")
    assert allowed.code == 0
    assert "town: 6 of 11 rows" in allowed.err


def test_evaluating_the_test_rows_again_gives_the_runs_metrics(typed: Typed, shop: Path, trained: str) -> None:

    lines = shop.read_text().splitlines(keepends=True)
    _, test = split_rows(len(lines) - 1, 0.2, 0)
    Path("test.csv").write_text(lines[0] + "".join(lines[1:][row] for row in test))
    done = typed("evaluate", trained, "test.csv", "--json")
    assert done.json["metrics"] == pytest.approx(RunFolder.open(trained).summary["metrics"])
    assert "auc 0." in typed("evaluate", trained, "test.csv").out


def test_numbers_are_predicted_in_the_units_of_the_file(typed: Typed) -> None:
    rng = np.random.default_rng(2)
    sizes = rng.uniform(20, 200, 80)
    Path("homes.csv").write_text("size,price\n" + "".join(f"{s:.1f},{1000 * s + 5000:.0f}\n" for s in sizes))
    typed("train", "--data", "homes.csv", "--engine", "virtual", "-w", 4, "--steps", 200, "--out", "homes", "--l2", 0)
    Path("new.csv").write_text("size\n50\n100\n")
    done = typed("predict", "homes", "new.csv")
    assert done.out.splitlines()[0] == "prediction"
    assert [float(line) for line in done.out.splitlines()[1:]] == pytest.approx([55_000, 105_000], rel=0.02)


def test_many_classes_are_predicted_by_name(typed: Typed, shop: Path) -> None:
    typed("train", "--data", shop, "--label", "town", "--categorical", "--engine", "virtual", "-w", 4, "--out", "towns")
    done = typed("predict", "towns", shop, "--json")
    assert done.json["classes"] == ["Ayr", "Ely", "Rye"]
    shares = np.array(done.json["probabilities"])
    assert shares.shape == (240, 3)
    assert [done.json["classes"][index] for index in shares.argmax(axis=1)] == done.json["predictions"]


def test_a_pipe_is_called_as_it_was_and_not_by_where_its_content_is_kept(typed: Typed, trained: str) -> None:
    os.mkfifo("rows.csv")
    writer = threading.Thread(target=Path("rows.csv").write_text, args=("q,b\n1,2\n",))
    writer.start()
    done = typed("predict", trained, "rows.csv")
    writer.join()
    assert done.sentence.startswith("erasurehead: rows.csv, line 1: there must be a header with the columns' names")


def test_columns_of_a_pipe_stand_before_the_predictions(typed: Typed, trained: str) -> None:
    os.mkfifo("rows.csv")
    content = "id,town,income,age\n007,Rye,30,70\n"
    writer = threading.Thread(target=Path("rows.csv").write_text, args=(content,))
    writer.start()
    piped = typed("predict", trained, "rows.csv", "--keep", "id").out
    writer.join()
    Path("file.csv").write_text(content)
    assert piped == typed("predict", trained, "file.csv", "--keep", "id").out


def test_python_predicts_rows_in_memory(typed: Typed, trained: str) -> None:
    model = TrainedModel.load(trained)
    predictions = model.predict([{"age": 75, "town": "Rye", "income": 20}, {"age": 18, "town": "Ely", "income": 45}])
    assert predictions.values == ["yes", "no"]


@pytest.mark.parametrize("command", ["predict", "evaluate"])
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_model_that_is_not_finite_is_refused(
    typed: Typed, trained: str, shop: Path, command: str, wrong: float
) -> None:
    folder = RunFolder.open(trained)
    x = folder.x.copy()
    x[1] = wrong
    folder.write_model(x)
    folder.write_summary({**folder.summary, "status": "failed"})
    done = typed(command, trained, shop)
    assert (done.code, done.out) == (2, "")
    assert done.sentence == (
        "erasurehead: The model in 'model' is not finite (status of the run: failed), so it predicts nothing; "
        "train again with a smaller rate."
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("predict", "nowhere", "new.csv"), "'nowhere' is not a run folder"),
        (("predict", "model", "nowhere.csv"), "There is no file 'nowhere.csv'"),
        (("predict", "model", "narrow.csv"), "no column 'income'"),
        (("evaluate", "model", "new.csv"), "There are no labels 'bought' in new.csv to evaluate"),
        (("evaluate", "model", "strange.csv"), "must be one of the classes no, yes, but it is 'perhaps'"),
        (("evaluate", "broken", "new.csv"), "There is no encoding.json"),
    ],
)
def test_what_cannot_be_used_is_said(typed: Typed, trained: str, command: tuple[str, ...], said: str) -> None:
    Path("new.csv").write_text("age,town,income\n30,Rye,30\n")
    Path("narrow.csv").write_text("age,town\n30,Rye\n")
    Path("strange.csv").write_text("age,town,income,bought\n30,Rye,30,perhaps\n")
    RunFolder.create("broken")
    done = typed(*command)
    assert done.code == 2
    assert said in done.sentence
    assert done.out == ""


def test_columns_of_the_file_stand_before_the_predictions(typed: Typed, trained: str) -> None:
    Path("new.csv").write_text("id,town,income,age\n007,Rye,30,70\n010,Ely,NA,30\n")
    plain = typed("predict", trained, "new.csv").out.splitlines()
    kept = typed("predict", trained, "new.csv", "--keep", "id,income").out.splitlines()
    assert kept == [f"{own},{line}" for own, line in zip(("id,income", "007,30", "010,"), plain, strict=True)]
    whole = typed("predict", trained, "new.csv", "--keep", "all", "--json").json
    assert whole["kept"] == {"id": ["007", "010"], "town": ["Rye", "Ely"], "income": ["30", ""], "age": ["70", "30"]}
    assert "kept" not in typed("predict", trained, "new.csv", "--json").json
    Path("again.csv").write_text("prediction,town,income,age\nyes,Rye,30,70\n")
    again = typed("predict", trained, "again.csv", "--keep", "all").out.splitlines()
    assert again[0] == f"prediction,town,income,age,{plain[0].replace('prediction', 'prediction.1')}"
    refused = typed("predict", trained, "new.csv", "--keep", "name")
    assert (refused.code, "new.csv has no column 'name'" in refused.sentence) == (2, True)


def test_a_threshold_moves_predictions_and_what_is_said_of_each_class(typed: Typed, trained: str, shop: Path) -> None:
    usual, low = (typed("evaluate", trained, shop, *more, "--json").json for more in ((), ("--threshold", 0.1)))
    assert usual["classes"] == ["no", "yes"]
    for told in (usual, low):
        counts = np.array(told["confusion"])
        assert counts.sum() == 240
        assert told["metrics"]["accuracy"] == pytest.approx(np.trace(counts) / 240)
        assert told["recall"]["yes"] == pytest.approx(counts[1, 1] / counts[1].sum())
        assert told["precision"]["yes"] == pytest.approx(counts[1, 1] / counts[:, 1].sum())
    assert low["recall"]["yes"] > usual["recall"]["yes"]
    assert low["metrics"]["auc"] == usual["metrics"]["auc"]
    predicted = typed("predict", trained, shop, "--threshold", 0.1, "--json").json["predictions"]
    assert predicted.count("yes") == sum(row[1] for row in low["confusion"])
    shown = typed("evaluate", trained, shop).out
    for word in ("predicted", "recall", "precision", "pr_auc"):
        assert word in shown
    refused = typed("evaluate", trained, shop, "--threshold", 1.5)
    assert (refused.code, "--threshold must be a probability between 0 and 1" in refused.sentence) == (2, True)


def test_a_threshold_is_for_two_classes(typed: Typed) -> None:
    Path("n.csv").write_text("a,y\n" + "".join(f"{value},{2 * value}.5\n" for value in range(30)))
    assert typed("train", "--data", "n.csv", "--out", "n").code == 0
    refused = typed("predict", "n", "n.csv", "--threshold", 0.3)
    assert "--threshold must be left out for a model of numbers: it is for two classes" in refused.sentence


def test_coefficients_are_told_the_largest_first_and_the_constant_last(typed: Typed, trained: str) -> None:
    rows = typed("coefficients", trained, "--json").json["coefficients"]
    sizes = [abs(row["standardized"]) for row in rows[:-1]]
    assert sizes == sorted(sizes, reverse=True)
    assert rows[-1]["column"] == "(constant)"
    model = TrainedModel.load(trained)
    assert {row["column"]: row["coefficient"] for row in rows} == model.coefficients()
    shown = typed("coefficients", trained, "--top", 2).out
    assert "bought: log odds of yes against no" in shown
    assert "and 4 more (--top 0 for all)" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert len(typed("coefficients", trained, "--top", 0, "--json").json["coefficients"]) == len(rows)


def test_columns_that_were_not_standardized_have_no_coefficient_per_standard_deviation(typed: Typed) -> None:
    Path("plain.csv").write_text("size,y\n" + "".join(f"{100 * n},{n % 7 + 0.5}\n" for n in range(30)))
    typed("train", "--data", "plain.csv", "--label", "y", "--no-standardize", "--out", "plain", "-q")
    shown = typed("coefficients", "plain")
    assert "coefficient" in shown.out
    assert "deviation" not in shown.out
    rows = typed("coefficients", "plain", "--json").json["coefficients"]
    assert [sorted(row) for row in rows] == [["coefficient", "column"]] * 2


def test_a_loss_of_numbers_is_trained_predicted_and_explained(typed: Typed) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    rows = [f"{a:.4f},{b}" for a, b in zip(x, rng.poisson(np.exp(1.0 + 0.5 * x)), strict=True)]
    Path("c.csv").write_text("x,visits\n" + "\n".join(rows) + "\n")
    done = typed("train", "--data", "c.csv", "--loss", "poisson", "--out", "c", "--l2", 0)
    assert done.code == 0
    assert "visits is a number (poisson)" in done.out
    assert "test rows: deviance " in done.out
    told = typed("coefficients", "c", "--json").json
    assert told["of"] == "the logarithm of visits"
    assert told["coefficients"][0]["coefficient"] == pytest.approx(0.5, abs=0.1)
    predicted = typed("predict", "c", "c.csv", "--json").json["predictions"]
    expected = np.exp(told["coefficients"][1]["coefficient"] + told["coefficients"][0]["coefficient"] * x)
    np.testing.assert_allclose(predicted, expected, rtol=1e-3)
    quantile = typed("train", "--data", "c.csv", "--loss", "quantile(0.9)", "--out", "q", "--until", "pinball < 100")
    assert quantile.code == 0
    tables = RunFolder.open("q").tables
    assert tables["problem"]["loss"].startswith("quantile(level=0.9, width=")
    again = typed("train", "q/config.toml", "--out", "r", "--initial", "c")
    assert "A quantile(level=0.9, width=" in again.sentence
    assert "run cannot begin with TrainedModel(poisson of 'visits'" in again.sentence
    refused = typed("train", "--data", "c.csv", "--loss", "gamma")
    assert refused.code == 2
    assert "every value of the label 'visits' must be above 0 for the loss gamma, but it is 0.0" in refused.sentence

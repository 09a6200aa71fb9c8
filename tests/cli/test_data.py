"""`erasurehead data`: what is there, where it was looked for, and what is in a file."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from .shop import Typed


def test_it_says_what_is_there_and_where_it_looked(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("sets/amazon").mkdir(parents=True)
    Path("sets/amazon/train.csv").write_text("never read\n")
    monkeypatch.setenv("ERASUREHEAD_DATA", "sets")
    done = typed("data", "--json")
    found = {place["name"]: place for place in done.json["data"]}
    assert list(found) == ["amazon", "kc_housing", "covertype"]
    assert found["amazon"]["file"] == "sets/amazon/train.csv"
    assert found["covertype"]["file"] is None
    assert found["covertype"]["looked"] == ["sets (ERASUREHEAD_DATA)"]
    shown = typed("data").out
    assert "sets/amazon/train.csv" in shown
    assert "not found (--synthetic makes a stand-in)" in shown


def test_it_describes_a_file(typed: Typed, shop: Path) -> None:
    done = typed("data", shop, "--label", "bought", "--one-hot", "town", "--json")
    (facts,) = done.json["data"]
    assert (facts["task"], facts["train_rows"], facts["test_rows"], facts["columns"]) == ("logistic", 192, 48, 6)
    assert "logistic, 192 x 6 for training" in typed("data", shop, "--one-hot", "town").out


def test_it_says_what_becomes_of_each_column_and_warns_of_those_that_are_nearly_unique(
    typed: Typed, shop: Path, tmp_path: Path
) -> None:
    header, *lines = shop.read_text().splitlines()
    numbered = [f"{place},Mr {place},{line}" for place, line in enumerate(lines)]
    (tmp_path / "named.csv").write_text("\n".join([f"id,full name,{header}", *numbered]))
    done = typed("data", "named.csv", "--categorical")
    assert [line.split() for line in done.out.splitlines() if line.startswith(("id", "full", "town", "bought"))] == [
        ["id", "number", "0", "yes"],
        ["full", "name", "one-hot,", "192", "levels", "0", "yes"],
        ["town", "one-hot,", "3", "levels", "0"],
        ["bought", "label", "0"],
    ]
    assert "leave the column out (--drop 'full name')" in done.err
    assert "leave the column out (--drop id)" in done.err
    less = typed("data", "named.csv", "--categorical", "--drop", "id, full name")
    assert "leave" not in less.err
    assert ["full", "name", "left", "out"] in [line.split() for line in less.out.splitlines()]
    (facts,) = typed("data", "named.csv", "--categorical", "--drop", '"full name",id', "--json").json["data"]
    assert facts["table"][3] == {
        "name": "town",
        "becomes": "one-hot",
        "columns": 3,
        "missing": 0,
        "nearly_unique": False,
    }
    assert (facts["columns"], facts["warnings"]) == (6, [])
    warned = typed("train", "--data", "named.csv", "--categorical", "--engine", "virtual", "-w", 4, "--steps", 2, "-q")
    assert "leave the column out (--drop id)" in warned.err
    drop = ("--drop", "id,full name", "--engine", "virtual", "-w", 4, "--steps", 2, "--out", "run", "-q")
    assert "leave" not in typed("train", "--data", "named.csv", "--categorical", *drop).err
    assert typed("predict", "run", "shop.csv").code == 0


def test_fields_may_stand_apart_by_what_the_user_says(typed: Typed, shop: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text(shop.read_text().replace(",", "~"))
    options = ("--data", "odd.csv", "--delimiter", "~", "--categorical", "--engine", "virtual", "-w", 4, "--steps", 2)
    assert "logistic, 192 x 6" in typed("data", "odd.csv", "--delimiter", "~", "--categorical").out
    assert typed("train", *options, "--out", "run", "-q").code == 0
    assert typed("predict", "run", "odd.csv").code == 0
    wrong = typed("data", "odd.csv", "--delimiter", "xy")
    assert (wrong.code, "--delimiter must be one character" in wrong.sentence) == (2, True)


def test_a_text_table_is_read_as_the_user_says_and_so_are_new_files(typed: Typed, tmp_path: Path) -> None:
    rows = "".join(f"{row % 7 - 3},5;{'un' if row % 9 == 0 else row % 4};{'ab'[row % 7 // 4]}\n" for row in range(60))
    (tmp_path / "bare.csv").write_text(rows)
    refused = typed("data", "bare.csv")
    assert "'un' is not a number, but 53 of the column's 60 values are" in refused.sentence
    assert "(--missing un)" in refused.sentence
    options = ("--names", "share,size,kind", "--missing", "un")
    shown = typed("data", "bare.csv", *options)
    assert "logistic, 48 x 3 for training" in shown.out
    assert "numbers have decimal commas, such as '-3,5' (--decimal . if they are none)" in " ".join(shown.out.split())
    training = ("--engine", "virtual", "-w", 2, "--steps", 40, "--out", "run", "-q")
    assert typed("train", "--data", "bare.csv", *options, *training).code == 0
    assert typed("shard", "bare.csv", *options, "--tasks", 2, "--out", "shards").code == 0
    (tmp_path / "new.csv").write_text("2.5,un\n-2.5,3\n")
    predicted = typed("predict", "run", "new.csv").out.splitlines()
    assert [line.partition(",")[0] for line in predicted[1:]] == ["b", "a"]
    (tmp_path / "run.toml").write_text(
        '[data]\nsource = "bare.csv"\nheader = false\nnames = ["share", "size", "kind"]\nmissing = ["un"]\n'
    )
    assert typed("train", "run.toml", *training[:-3], "--out", "again", "-q").code == 0
    assert typed("predict", "again", "new.csv").out.splitlines() == predicted


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "https://a.b/c.csv?x=1",
            "is an address, and only files on this machine are read; fetch it, and name the file.",
        ),
        ("s3://bucket/c.parquet", "'s3://bucket/c.parquet' is an address, and only files on this machine are read"),
        ("file:///data/c.csv", "is an address of a file; name the file itself: /data/c.csv."),
    ],
)
def test_an_address_is_no_file(typed: Typed, name: str, said: str) -> None:
    for words in (("data", name), ("train", "--data", name), ("shard", name, "--tasks", 2, "--out", "shards")):
        done = typed(*words)
        assert (done.code, said in done.sentence) == (2, True), done.sentence


@pytest.mark.parametrize("command", ["data", "shard", "train"])
def test_the_column_to_predict_is_the_label_and_a_target_is_a_metric_and_a_value(
    typed: Typed, shop: Path, command: str
) -> None:
    words = ("--data", shop) if command == "train" else (shop,)
    done = typed(command, *words, "--target", "bought")
    assert (done.code, done.sentence) == (
        2,
        "erasurehead: There is no option --target here: it is the METRIC=VALUE of compare and plan. The column to"
        " predict is --label, and the metric at which training ends --until.",
    )


def test_what_cannot_be_read_is_said(typed: Typed, shop: Path) -> None:
    done = typed("data", shop)
    assert done.code == 2
    assert "column 'town'" in done.sentence


def test_options_that_take_lists_add_up_however_they_are_given(typed: Typed, tmp_path: Path) -> None:
    rows = "".join(f"{row},{row % 5},{row % 3 - 9},{'un' if row % 7 else row},{row % 2}\n" for row in range(40))
    (tmp_path / "five.csv").write_text(f"id,city,far,size,y\n{rows}")
    one = ("--drop", "id,city", "--missing", "un,-9", "--one-hot", "far,size")
    several = (
        "--drop",
        "id",
        "--missing",
        "un",
        "--one-hot",
        "far",
        "--drop",
        "city",
        "--missing=-9",
        "--one-hot=size",
    )
    assert typed("data", "five.csv", *several, "--json").json == typed("data", "five.csv", *one, "--json").json
    for number, options in enumerate((one, several)):
        typed("shard", "five.csv", "--tasks", 4, "--out", f"shards{number}", *options, "-q")
        typed("train", "--data", "five.csv", "--engine", "virtual", "--steps", 2, "--out", f"run{number}", *options)
    assert Path("shards0/encoding.json").read_text() == Path("shards1/encoding.json").read_text()
    assert 'drop = ["id", "city"]' in Path("run1/config.toml").read_text()
    assert (
        "--drop must name columns of five.csv, got 'none'"
        in typed("data", "five.csv", "--drop", "id", "--drop", "none").sentence
    )
    drawn = ("drill", "--seconds", 1, "--seed", 7, "--kinds", "kill", "--kinds", "storm")
    assert re.search(r"--kinds must be among kill, stop, .*, but it is 'kill,storm'", typed(*drawn).sentence)


def test_columns_whose_names_have_ends_of_lines_can_be_named(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text('"a\nb",c,y\n' + "".join(f"{row},{row % 3},{row % 2}\n" for row in range(20)))
    (facts,) = typed("data", "odd.csv", "--drop", '"a\nb"', "--json").json["data"]
    assert [use["becomes"] for use in facts["table"]] == ["left out", "number", "label"]
    shown = typed("data", "odd.csv").out
    assert re.search(r"^a\\nb +number ", shown, re.MULTILINE)
    assert "--drop must name columns of odd.csv, got 'a'" in typed("data", "odd.csv", "--drop", "a\nb").err


def test_long_names_do_not_make_the_table_wide(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "long.csv").write_text(
        f"{'n' * 120},\tc\t\x1b[31m,y\n" + "".join(f"{row},{row % 3},{row % 2}\n" for row in range(20))
    )
    _, _, *table = typed("data", "long.csv").out.splitlines()
    assert max(map(len, table)) <= 80
    assert sum("n" * 40 in line for line in table) == 3
    assert any(r"\x1b[31m" in line for line in table)


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("erasurehead.cli._wording.at_a_terminal", lambda: True)


@pytest.mark.usefixtures("at_a_terminal")
@pytest.mark.parametrize("command", ["train", "data"])
def test_at_a_terminal_a_file_that_needs_it_gets_the_whole_command(typed: Typed, command: str) -> None:
    rng = np.random.default_rng(0)
    lines = ["name,town,street,said,size,y"]
    for row in range(400):
        said = " ".join(rng.choice(["it", "works", "well", "broke", "soon", "and", "late"], 6))
        lines.append(f"n{row},{'AB'[row % 2]},s{rng.integers(150)},{said},{row / 7:.2f},{row % 2}")
    Path("t.csv").write_text("\n".join(lines) + "\n")
    first = ("train", "--data", "t.csv") if command == "train" else ("data", "t.csv")
    refused = typed(*first, "--label", "y")
    assert refused.code == 2
    assert "column 'name': 'n0' is not a number; name the column in one_hot" in refused.err
    assert "This command takes the file as it is:\n" in refused.err
    words = shlex.split(refused.sentence)
    assert words[:2] == ["erasurehead", command]
    assert words[2:] == [
        *first[1:],
        "--label",
        "y",
        "--categorical",
        "--drop",
        "name,town",
        "--count",
        "street",
        "--text",
        "said",
    ]
    assert typed(*words[1:]).code == 0


@pytest.mark.usefixtures("at_a_terminal")
def test_what_no_option_would_help_is_proposed_nothing(typed: Typed, shop: Path) -> None:
    shop.write_text(shop.read_text().replace("yes", "").replace("no", ""))
    refused = typed("train", "--data", shop)
    assert refused.code == 2
    assert "takes the file as it is" not in refused.err
    assert "takes the file as it is" not in typed("train", "--label", "town").err


def test_in_a_pipe_there_is_the_sentence_alone(typed: Typed, shop: Path) -> None:
    refused = typed("train", "--data", shop)
    assert refused.code == 2
    assert "takes the file as it is" not in refused.err

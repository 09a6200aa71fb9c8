"""`erasurehead data`: what is there, where it was looked for, and what is in a file."""

from __future__ import annotations

from pathlib import Path

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
    assert "not there (--twin stands in)" in shown


def test_it_describes_a_file(typed: Typed, shop: Path) -> None:
    done = typed("data", shop, "--target", "bought", "--one-hot", "town", "--json")
    (facts,) = done.json["data"]
    assert (facts["task"], facts["train_rows"], facts["test_rows"], facts["columns"]) == ("logistic", 192, 48, 6)
    assert "logistic, 192 x 6 for training" in typed("data", shop, "--one-hot", "town").out


def test_what_cannot_be_read_is_said(typed: Typed, shop: Path) -> None:
    done = typed("data", shop)
    assert done.code == 2
    assert "column 'town'" in done.sentence

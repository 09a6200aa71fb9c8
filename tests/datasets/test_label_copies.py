"""Columns that say what the label says are warned of, whole files and blocks alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead import datasets
from erasurehead.datasets import shard
from erasurehead.datasets._preprocessing.label_copies import LabelCopy
from erasurehead.datasets._readers import csv
from erasurehead.datasets._readers.table import Column, NumberColumn
from erasurehead.datasets._readers.values import column_of

N = 40


def said(column: Column, label: Column, rows: int = N) -> str:
    copy = LabelCopy()
    for start in range(0, N, rows):
        part = np.arange(start, min(N, start + rows))
        copy.add(column.take(part), label.take(part))
    return copy.warning("it", "y")


@given(st.integers(0, 10_000), st.integers(2, 8), st.sampled_from([N, 7, 1]))
def test_a_column_is_a_copy_if_each_value_has_a_label_of_its_own(seed: int, n_classes: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, n_classes, N)
    classes[:2] = 0, 1
    label = NumberColumn(classes.astype(np.float64))
    names = column_of([f"class {value * 7 % 11}" for value in classes.tolist()], "it", "here")
    assert "equals the label 'y'" in said(label, label, rows)
    assert "says what the label 'y' says" in said(names, label, rows)
    assert "says what the label 'y' says" in said(label, names, rows)
    holes = label.values.copy()
    holes[2:12] = np.nan
    assert "equals the label 'y'" in said(NumberColumn(holes), label, rows)
    spoilt = label.values.copy()
    spoilt[-1] = 1.0 - spoilt[-1] if spoilt[-1] in (0.0, 1.0) else 0.0
    assert not said(NumberColumn(spoilt), label, rows)


@pytest.mark.parametrize("rows", [N, 9])
def test_another_unit_of_a_quantity_is_a_copy_and_an_identifier_is_none(rows: int) -> None:
    rng = np.random.default_rng(0)
    price = np.round(rng.normal(300.0, 40.0, N), 2)
    assert "in other words or units" in said(NumberColumn(price * 1e-3 + 5.0), NumberColumn(price), rows)
    for other in (rng.permutation(N) * 1.0, np.ones(N), price + rng.normal(0.0, 1e-3, N), price**2):
        assert not said(NumberColumn(other), NumberColumn(price), rows)
    far = price + 1e12  # seconds, or what else is far from 0
    assert "in other words or units" in said(NumberColumn(price), NumberColumn(far), rows)
    assert not said(NumberColumn(rng.normal(0.0, 1.0, N)), NumberColumn(far), rows)
    assert not said(
        NumberColumn(np.arange(N) * 1.0), column_of([f"name {row}" for row in range(N)], "it", "here"), rows
    )


def test_few_rows_or_few_values_say_nothing() -> None:
    label = NumberColumn(np.arange(N) % 2.0)
    assert not said(NumberColumn(np.where(np.arange(N) < 25, np.nan, label.values)), label)
    copy = LabelCopy()
    copy.add(label.take(np.arange(9)), label.take(np.arange(9)))
    assert not copy.warning("it", "y")


def test_whole_files_and_shards_warn_of_the_same_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    sold = rng.integers(0, 2, N)
    lines = [f"{value},{['no', 'yes'][value]},{bool(value)},{rng.normal():.3f},{value}" for value in sold.tolist()]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["twin,word,truth,size,sold", *lines]) + "\n")
    monkeypatch.setattr(csv, "_CHUNK_FIELDS", 30)
    whole = datasets.read(path, categorical=True)
    assert [warning.partition(":")[0] for warning in whole.warnings] == ["twin", "word", "truth"]
    assert whole.warnings[0] == (
        "twin: equals the label 'sold' in every row that has a value; unless it is known before the label is, leave "
        "the column out (--drop twin)"
    )
    assert set(whole.warnings) <= set(shard(path, 2, tmp_path / "shards", categorical=True).manifest.notes)


def test_blocks_in_which_nothing_varies_are_compared_with_those_in_which_something_does() -> None:
    label = np.repeat([1.0, 1.0, 2.0, 5.0], 10)
    column = np.repeat([0.0, 0.0, 10.0, 40.0], 10)  # the label, less 1, times 10
    assert "in other words or units" in said(NumberColumn(column), NumberColumn(label), 10)
    column[:10] = 7.0
    assert not said(NumberColumn(column), NumberColumn(label), 10)
    assert not said(NumberColumn(np.repeat([0.0, 5.0, 10.0, 40.0], 10)), NumberColumn(label), 10)

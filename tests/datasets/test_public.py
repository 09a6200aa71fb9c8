from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead.datasets import load, synthetic
from erasurehead.datasets._published import public
from erasurehead.datasets._published.fetching import fetch_public
from erasurehead.datasets._published.public import NAMES, published
from erasurehead.datasets._published.recipe import Recipe
from erasurehead.datasets._published.search import VARIABLE
from erasurehead.datasets._published.synthetic import kc_housing_table
from erasurehead.datasets._readers.table import Table
from erasurehead.errors import DataError, InvalidArgument


def _no_network(recipe: Recipe) -> Table:
    raise DataError("scikit-learn's fetch_openml failed (URLError: Name or service not known)")


@pytest.fixture(autouse=True)
def _nothing_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "scikit"))


def test_without_file_and_network_one_sentence_says_what_was_tried_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(DataError) as caught:
        load("amazon", fetch=_no_network)
    said = str(caught.value)
    for part in (
        "There is no amazon data: looked for train.csv or amazon.csv (also .gz, .bz2)",
        f"in {tmp_path} (ERASUREHEAD_DATA)",
        "fetch_openml failed (URLError: Name or service not known)",
        "put the file into a folder that ERASUREHEAD_DATA names",
        "which need neither: datasets.synthetic('amazon'), or --synthetic always.",
    ):
        assert part in said
    assert said.count(". ") == 0


def test_a_network_that_is_not_to_be_used_is_not_used() -> None:
    with pytest.raises(DataError, match="the network may not be used"):
        load("covertype", fetch=None)


def test_a_path_that_does_not_hold_the_file_is_an_error_whatever_the_fallback(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"There is no kc_housing data: looked for kc_house_data\.csv or .* in .*nowhere"
    ):
        load("kc_housing", tmp_path / "nowhere", fallback="synthetic", fetch=_no_network)


@pytest.mark.slow
def test_synthetic_data_stand_in_and_say_so() -> None:
    data: Any = load("kc_housing", fallback="synthetic", seed=3, fetch=_no_network)
    assert (data.name, data.source) == ("kc_housing-synthetic", "synthetic stand-in of kc_housing, seed 3")
    assert data.source == "synthetic stand-in of kc_housing, seed 3"
    assert "URLError" in data.notes[-1]
    assert (data.X_train != synthetic("kc_housing", 3).X_train).nnz == 0


def test_what_is_fetched_goes_the_way_of_a_file() -> None:
    wanted = synthetic("kc_housing", 1, rows=600)

    def fetch(recipe: Recipe) -> Table:
        return kc_housing_table(np.random.default_rng(1), 600)

    data = load("kc_housing", fetch=fetch)
    assert (data.name, data.source) == ("kc_housing", "the synthetic stand-in")
    assert data.X_train.shape == wanted.X_train.shape


@pytest.mark.parametrize("fallback", ["triplet", True])
def test_other_fallbacks_are_refused(fallback: Any) -> None:
    with pytest.raises(InvalidArgument, match="fallback must be None or 'synthetic', but it is"):
        load("amazon", fallback=fallback)


def test_the_network_is_the_default_means() -> None:
    assert public.load.__kwdefaults__["fetch"] is fetch_public


def test_importing_it_imports_nothing_heavy() -> None:
    heavy = "{'sklearn', 'pyarrow', 'numba', 'matplotlib', 'pandas', 'scipy.stats'}"
    script = f"import sys, erasurehead.datasets; print(sorted({heavy} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_published_runs_have_the_settings_that_run_files_begin_with() -> None:
    assert {(published(name).n_workers, published(name).steps) for name in NAMES} == {(30, 100)}

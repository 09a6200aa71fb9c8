from __future__ import annotations

from pathlib import Path

import pytest

from erasurehead.datasets._published.public import NAMES, available, where
from erasurehead.datasets._published.recipes import AMAZON, COVERTYPE
from erasurehead.datasets._published.search import VARIABLE, locate
from erasurehead.errors import InvalidArgument


@pytest.fixture(autouse=True)
def _nothing_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "scikit"))


def _touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    return path


@pytest.mark.parametrize(
    "place", ["train.csv", "amazon/train.csv", "amazon/train.csv.gz", "amazon.csv", "train.csv.bz2"]
)
def test_a_folder_may_hold_the_file_or_a_subfolder_with_it(tmp_path: Path, place: str) -> None:
    file = _touch(tmp_path / "data" / place)
    assert locate(AMAZON, tmp_path / "data").file == file


def test_a_file_of_any_name_is_taken(tmp_path: Path) -> None:
    file = _touch(tmp_path / "whatever.txt")
    assert locate(AMAZON, file).file == file


def test_the_subfolder_named_after_the_set_is_preferred(tmp_path: Path) -> None:
    _touch(tmp_path / "train.csv")
    file = _touch(tmp_path / "amazon" / "train.csv")
    assert locate(AMAZON, tmp_path).file == file


def test_part_of_covertype_is_taken_only_where_the_whole_is_not(tmp_path: Path) -> None:
    part = _touch(tmp_path / "covertype" / "covtype.20k.data.gz")
    found = locate(COVERTYPE, tmp_path)
    assert (found.file, found.part[:26]) == (part, "only the first 20,000 rows")
    assert locate(COVERTYPE, part).part
    whole = _touch(tmp_path / "covtype.data.gz")
    assert (locate(COVERTYPE, tmp_path).file, locate(COVERTYPE, tmp_path).part) == (whole, "")


def test_the_environment_names_a_folder_and_a_path_goes_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "named"))
    file = _touch(tmp_path / "named" / "amazon" / "train.csv")
    assert where("amazon").file == file
    assert where("amazon").looked == (f"{tmp_path / 'named'} ({VARIABLE})",)
    found = where("amazon", tmp_path / "other")
    assert (found.file, found.looked) == (None, (str(tmp_path / "other"),))


def test_the_environment_does_not_name_one_file_for_all_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(_touch(tmp_path / "train.csv")))
    assert [place.file for place in available()] == [None, None, None]


def test_it_is_said_where_nothing_was_found() -> None:
    found = available()
    assert tuple(place.name for place in found) == NAMES == ("amazon", "kc_housing", "covertype")
    for place in found:
        assert (place.file, place.cache, place.looked) == (None, None, ("ERASUREHEAD_DATA, which is not set",))


def test_the_cache_of_scikit_learn_is_seen(tmp_path: Path) -> None:
    openml = _touch(tmp_path / "scikit/openml/openml.org/api/v1/json/data/4135.gz")
    _touch(tmp_path / "scikit/covertype/samples_py3")
    caches = {place.name: place.cache for place in available()}
    assert caches == {"amazon": openml, "kc_housing": None, "covertype": tmp_path / "scikit/covertype"}


def test_other_names_are_refused() -> None:
    with pytest.raises(
        InvalidArgument, match="name must be one of amazon, kc_housing, covertype, but it is 'mnist'; read"
    ):
        where("mnist")

"""Files that a user names: what is none is named in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from erasurehead._internal.user_files import readable
from erasurehead.errors import DataError


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"There is no file '.*nothing\.csv'"):
        readable(tmp_path / "nothing.csv")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a folder; name a file in it"):
        readable(tmp_path)

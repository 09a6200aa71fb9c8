"""What leads out of a folder is not the name of a file in it, wherever names are read from."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from erasurehead._internal.storage.folders import Folder
from erasurehead._internal.storage.names import is_name
from erasurehead.errors import DataError

HOSTILE: tuple[Any, ...] = (
    "",
    ".",
    "..",
    "/",
    "/etc/passwd",
    "a/b",
    "../a",
    "a/",
    "a\\b",
    "\\\\host\\share",
    "a\0b",
    "\0",
    "a\nb",
    "\x7f",
    "\ud800",
    "a" * 252,
    "é" * 126,
    None,
    3,
    True,
    ["a"],
    {"a": 1},
    b"a",
)


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_what_leads_elsewhere_is_no_name(tmp_path: Path, name: Any) -> None:
    assert not is_name(name)
    with Folder.open(tmp_path) as folder:
        for act in (folder.read, folder.remove, folder.inside, folder.kind, folder.writable, folder.remove_folder):
            with pytest.raises(DataError, match=r"is not the name of a file in"):
                act(name)
        with pytest.raises(DataError, match=r"is not the name of a file in"):
            folder.write_whole(name, [b""])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@given(st.text(max_size=20))
def test_a_name_never_has_a_folder_in_it(name: str) -> None:
    if is_name(name):
        assert Path("/somewhere", name).parent == Path("/somewhere")
        assert Path("/somewhere", name).name == name


def test_a_device_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    try:
        os.mknod(tmp_path / "null", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")
    with Folder.open(tmp_path) as folder, pytest.raises(OSError, match="it is a device, where a file should be"):
        folder.write_whole("null", [b"x"])
    assert [path.name for path in tmp_path.iterdir()] == ["null"]
    assert (tmp_path / "null").is_char_device()

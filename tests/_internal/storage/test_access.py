"""What a run leaves behind is its owner's, whatever the umask is, unless somebody says otherwise."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from erasurehead._internal.storage.access import ACCESS, FILE_MODES, FOLDER_MODES, Access
from erasurehead._internal.storage.folders import Folder
from erasurehead.datasets import shard
from erasurehead.runs import Experiment

LINES = "size,rooms,price\n" + "".join(f"{30 + n % 70},{1 + n % 6},{90 + 2 * (n % 70)}\n" for n in range(60))


@contextmanager
def umask(mask: int) -> Generator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes(folder: Path) -> tuple[set[int], set[int]]:
    """Return the modes of all folders, and of all files, in a folder; its own is among the first."""
    found: tuple[set[int], set[int]] = {stat.S_IMODE(folder.stat().st_mode)}, set()
    for path in folder.rglob("*"):
        found[path.is_file()].add(stat.S_IMODE(path.lstat().st_mode))
    return found


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize("access", [None, *ACCESS])
def test_runs_and_shards_have_the_modes_that_are_asked_for(tmp_path: Path, access: Access | None, mask: int) -> None:
    (tmp_path / "homes.csv").write_text(LINES)
    run = {"engine": "virtual", "preset": "paper", "workers": 2, "steps": 3, "out": str(tmp_path / "run")}
    tables = {
        "scheme": "uncoded",
        "data": {"source": str(tmp_path / "homes.csv")},
        "run": run if access is None else {**run, "access": access},
        "checkpoints": {"every_steps": 1, "behind": 0, "keep_finished": True},
    }
    with umask(mask):
        Experiment.from_config(tables).run()
        shard(tmp_path / "homes.csv", 2, tmp_path / "shards", **({} if access is None else {"access": access}))
    wanted = {FOLDER_MODES[access or "private"]}, {FILE_MODES[access or "private"]}
    assert modes(tmp_path / "run") == wanted
    assert modes(tmp_path / "shards") == wanted


def test_a_folder_that_is_there_keeps_its_mode_and_a_file_hands_its_own_on(tmp_path: Path) -> None:
    (tmp_path / "homes.csv").write_text(LINES)
    for name in ("run", "shards"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o751)
    tables = {
        "scheme": "uncoded",
        "data": {"source": str(tmp_path / "homes.csv")},
        "run": {"engine": "virtual", "preset": "paper", "workers": 2, "steps": 3, "out": str(tmp_path / "run")},
        "checkpoints": {"every_steps": 1, "keep_finished": True},
    }
    Experiment.from_config(tables).run()
    shard(tmp_path / "homes.csv", 2, tmp_path / "shards")
    assert modes(tmp_path / "run") == ({0o751, 0o700}, {0o600})
    assert modes(tmp_path / "shards") == ({0o751}, {0o600})
    (tmp_path / "run" / "model.safetensors").chmod(0o644)
    Experiment.resume(tmp_path / "run", {"run": {"steps": 5}}).run()
    assert stat.S_IMODE((tmp_path / "run" / "model.safetensors").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o751


@pytest.mark.parametrize("access", ACCESS)
def test_parents_that_are_made_are_as_closed_as_the_folder(tmp_path: Path, access: Access) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there").chmod(0o751)
    with umask(0):
        Folder.made(tmp_path / "there" / "runs" / "of" / "today", access).close()
    assert modes(tmp_path / "there") == ({0o751, FOLDER_MODES[access]}, set())


def test_new_files_stay_those_of_a_shared_folders_group(tmp_path: Path) -> None:
    tmp_path.chmod(0o2770)
    with Folder.made(tmp_path / "run", "group") as folder:
        folder.write_whole("file", [b""])
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o2750

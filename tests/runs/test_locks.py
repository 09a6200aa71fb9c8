"""One run at a time in a folder, and none after a crash."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from erasurehead.errors import InvalidArgument
from erasurehead.runs import RunFolder
from erasurehead.runs._locks import FolderLock, check_unlocked


def test_a_lock_names_its_holder_and_is_gone_when_released(tmp_path: Path) -> None:
    path = tmp_path / "run" / ".lock"
    path.parent.mkdir()
    lock = FolderLock(path)
    for asked in (FolderLock, check_unlocked):
        with pytest.raises(InvalidArgument, match=rf"'{path.parent}' is still going on \(process {os.getpid()}\)"):
            asked(path)
    lock.release()
    lock.release()
    assert not path.exists()
    check_unlocked(path)
    FolderLock(path).release()
    check_unlocked(path)
    assert not path.exists()


def test_a_lock_dies_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    ready, told = os.pipe()
    child = os.fork()
    if not child:
        FolderLock(path)
        os.write(told, b"!")
        signal.pause()
    assert os.read(ready, 1) == b"!"
    with pytest.raises(InvalidArgument, match=f"process {child}"):
        FolderLock(path)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for end in (ready, told):
        os.close(end)
    assert path.exists()
    FolderLock(path).release()


def test_the_folder_of_a_living_run_is_not_overwritten(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    lock = FolderLock(folder.path / ".lock")
    with pytest.raises(InvalidArgument, match="is still going on"):
        RunFolder.create(tmp_path / "run", overwrite=True)
    lock.release()
    RunFolder.create(tmp_path / "run", overwrite=True)

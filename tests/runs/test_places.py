"""Folders for runs: a used one is refused, an earlier run is removed only on demand, and nothing else ever is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from erasurehead.errors import InvalidArgument
from erasurehead.runs._locks import FolderLock
from erasurehead.runs._names import STEPS, check_free, make_folder, next_free


def leave_a_run(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in (STEPS, "summary.json", ".summary.json.new"):
        (folder / name).write_text("{}\n")


def test_a_used_folder_is_refused_and_stays_as_it_was(tmp_path: Path) -> None:
    leave_a_run(tmp_path / "run")
    with pytest.raises(InvalidArgument, match="is already in use: it is not empty"):
        make_folder(tmp_path / "run")
    assert (tmp_path / "run" / STEPS).exists()


def test_a_run_that_ended_before_its_first_step_is_in_nobodys_way(tmp_path: Path) -> None:
    place = tmp_path / "run"
    leave_a_run(place)
    (place / STEPS).write_text("")
    (place / "notes.txt").write_text("mine")
    with pytest.raises(InvalidArgument, match="which no run wrote there"):
        make_folder(place)
    (place / "notes.txt").unlink()
    (place / "checkpoints").mkdir()
    with pytest.raises(InvalidArgument, match="is already in use"):
        make_folder(place)
    (place / "checkpoints").rmdir()
    assert list(make_folder(place).iterdir()) == []


def test_an_earlier_run_is_removed_on_demand(tmp_path: Path) -> None:
    leave_a_run(tmp_path / "run")
    assert list(make_folder(tmp_path / "run", overwrite=True).iterdir()) == []


def test_an_earlier_comparison_is_removed_on_demand(tmp_path: Path) -> None:
    leave_a_run(tmp_path / "exact")
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "speed_up.png").write_text("")
    (tmp_path / "comparison.json").write_text("")
    assert list(make_folder(tmp_path, overwrite=True).iterdir()) == []


def test_what_a_run_leaves_behind_that_was_killed_is_removed_on_demand(tmp_path: Path) -> None:
    leave_a_run(tmp_path / "run")
    checkpoints = tmp_path / "run" / "checkpoints"
    checkpoints.mkdir()
    for name in ("step-0000007.json", "tensors-0000003.safetensors", ".step-0000008.json.new"):
        (checkpoints / name).write_text("")
    (tmp_path / "run" / ".lock").write_text("1\n")
    (tmp_path / "run" / ".erasurehead-x1y2").mkdir()
    assert list(make_folder(tmp_path / "run", overwrite=True).iterdir()) == []


def test_a_comparison_with_a_run_that_is_going_on_is_not_removed(tmp_path: Path) -> None:
    leave_a_run(tmp_path / "exact")
    lock = FolderLock(tmp_path / "exact" / ".lock")
    with pytest.raises(InvalidArgument, match=f"The run in '{tmp_path}/exact' is still going on"):
        make_folder(tmp_path, overwrite=True)
    lock.release()


@pytest.mark.parametrize(
    "strange",
    ["thesis.tex", "figures/thesis.tex", "exact/thesis.tex", "photos/steps.txt", "exact/checkpoints/thesis.tex"],
)
def test_what_no_run_wrote_is_never_removed(tmp_path: Path, strange: str) -> None:
    leave_a_run(tmp_path / "exact")
    (tmp_path / strange).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / strange).write_text("mine")
    with pytest.raises(InvalidArgument, match="which no run wrote there"):
        make_folder(tmp_path, overwrite=True)
    assert (tmp_path / strange).read_text() == "mine"
    assert (tmp_path / "exact" / STEPS).exists()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    leave_a_run(tmp_path / "precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "exact").symlink_to(tmp_path / "precious")
    with pytest.raises(InvalidArgument, match="holds 'exact', which no run wrote there"):
        make_folder(tmp_path / "run", overwrite=True)
    assert (tmp_path / "precious" / STEPS).exists()


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="is a file"):
        make_folder(tmp_path / "file")
    with pytest.raises(InvalidArgument, match=r"cannot be written to: .*file' is a file"):
        make_folder(tmp_path / "file" / "run")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InvalidArgument, match=r"nothing can be made in .*Permission denied"):
        make_folder(tmp_path / "run")


def test_a_place_where_nobody_can_write_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="The run folder '/proc/run' cannot be written to"):
        check_free("/proc/run")


def test_checking_makes_nothing(tmp_path: Path) -> None:
    assert check_free(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert list(tmp_path.iterdir()) == []


def test_new_folders_are_numbered(tmp_path: Path) -> None:
    assert next_free(tmp_path, "run").name == "run-1"
    (tmp_path / "run-1").mkdir()
    assert next_free(tmp_path, "run").name == "run-2"

"""The page as a file: it needs nothing else, and what comes from files is text in it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from erasurehead.errors import DataError, InvalidArgument, RecordsError
from erasurehead.watch import write_report

from .conftest import trained

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&lt;\u2028\u202e\"'`"


def data_in(path: Path) -> dict[str, Any]:
    """Return the data of a report, as its script reads them."""
    (found,) = re.findall(
        r'<script id="data" type="application/json">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL
    )
    return dict(json.loads(found))


def test_a_report_is_one_file_that_asks_for_nothing(run_folder: Path, tmp_path: Path) -> None:
    path = write_report(run_folder, tmp_path / "run.html")
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_mode & 0o777 == 0o600
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!data:)""", text)
    assert "http://www.w3.org/2000/svg" in text
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text) == []
    data = data_in(path)
    assert data["live"] is False
    assert data["about"]["runs"][0]["steps"] == 30
    assert len(data["views"][0]["curves"]["loss"]["t"]) == 30


def test_the_policy_lets_only_the_own_script_run(run_folder: Path, tmp_path: Path) -> None:
    text = write_report(run_folder, tmp_path / "run.html").read_text(encoding="utf-8")
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    for name in ("style", "script"):
        (content,) = re.findall(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert "'unsafe" not in policy
    assert policy.startswith("default-src 'none';")


def test_hostile_names_are_text(tmp_path: Path) -> None:
    """In the data's name, in notices, in the name of the folder, and in whatever else a run file may hold."""
    folder = trained(tmp_path / "a<b>&'x", facts={"data": {"name": HOSTILE}})
    row = {
        "step": 30,
        "begin": 9.0,
        "end": 9.5,
        "notices": [{"kind": HOSTILE, "text": HOSTILE, "worker": 1, "time": 9.0}],
    }
    with (folder / "steps.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({**row, "metrics": {HOSTILE: 1.0}}) + "\n")
    path = write_report(folder, tmp_path / "run.html")
    text = path.read_text(encoding="utf-8")
    assert len(re.findall("<script", text)) == len(re.findall("</script", text)) == 2
    assert "<img" not in text
    run = data_in(path)["about"]["runs"][0]
    assert run["summary"]["data"]["name"] == HOSTILE
    assert run["notices"][-1]["text"] == HOSTILE
    assert run["name"] == "a<b>&'x"
    assert "innerHTML" not in text
    assert "insertAdjacentHTML" not in text


def test_what_stands_there_already_is_kept(run_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    path.write_text("mine")
    with pytest.raises(InvalidArgument, match="is already there; name another file"):
        write_report(run_folder, path)
    assert path.read_text() == "mine"
    assert "mine" not in write_report(run_folder, path, overwrite=True).read_text()


def test_bad_places_are_sentences(run_folder: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidArgument, match=r"pipe' is not a file, and cannot be replaced by one; name another"):
        write_report(run_folder, tmp_path / "pipe", overwrite=True)
    assert (tmp_path / "pipe").is_fifo()
    with pytest.raises(DataError, match="does not exist"):
        write_report(tmp_path / "nowhere", tmp_path / "x.html")
    with pytest.raises(RecordsError, match="cannot be written: No such file or directory"):
        write_report(run_folder, tmp_path / "no" / "x.html")
    assert not (tmp_path / "x.html").exists()


def test_the_record_of_a_team(team_record: Path, tmp_path: Path) -> None:
    data = data_in(write_report(team_record, tmp_path / "team.html", access="all"))
    assert (tmp_path / "team.html").stat().st_mode & 0o777 == 0o644
    assert data["about"]["runs"][0]["kind"] == "team"

"""`erasurehead watch` and `erasurehead report`, as they are typed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from ..bounded import PATIENCE
from .shop import SMALL, Typed


@pytest.fixture
def trained(typed: Typed, shop: Path) -> str:
    """The folder of a small run."""
    assert shop.exists()
    done = typed("train", "--data", "shop.csv", "--label", "bought", "--categorical", *SMALL[1:], "--out", "runs/shop")
    assert done.code == 0, done.err
    return "runs/shop"


def test_a_report_has_the_name_of_the_folder(typed: Typed, trained: str) -> None:
    done = typed("report", trained)
    assert (done.code, done.out) == (0, "the report is in shop.html\n")
    assert "<!doctype html>" in Path("shop.html").read_text()
    again = typed("report", trained)
    assert again.code == 2
    assert (
        again.sentence == "erasurehead: 'shop.html' is already there; name another file (--out), or give --overwrite."
    )
    assert typed("report", trained, "--overwrite", "--json").json == {"report": "shop.html", "warnings": []}


@pytest.mark.parametrize("command", ["watch", "report"])
def test_bad_input_is_a_sentence(typed: Typed, command: str) -> None:
    Path("empty").mkdir()
    Path("file").write_text("hello\n")
    for name, said in (
        ("nowhere", "'nowhere' is not a run folder: it does not exist."),
        ("empty", "'empty' is not the folder of a run, a comparison or a drill: neither it nor a folder in it has"),
        ("file", "'file' is not the record of a team of networks"),
    ):
        done = typed(command, name)
        assert done.code == 2
        assert done.sentence.startswith(f"erasurehead: {said}")


def test_ports_that_cannot_be_had(typed: Typed, trained: str) -> None:
    done = typed("watch", trained, "--port", 70000)
    assert done.code == 2
    assert done.sentence == (
        "erasurehead: Port 70000 cannot be used: there is no such port; name another (--port), or leave it out for "
        "a free one."
    )


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_watch(trained: str, number: signal.Signals) -> None:
    watch = subprocess.Popen(
        [sys.executable, "-m", "erasurehead", "watch", trained, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert watch.stdout is not None
    said = ""
    while "}" not in said:
        said += watch.stdout.readline()
    told = json.loads(said)
    assert told["runs"] == ["shop"]
    with urllib.request.urlopen(told["address"], timeout=PATIENCE) as page:
        assert b"ErasureHead" in page.read()
    with urllib.request.urlopen(f"{told['address']}events", timeout=PATIENCE) as stream:  # a page that is open
        assert stream.readline().startswith(b"data: ")
        shutil.rmtree(trained)
        watch.send_signal(number)
        _, err = watch.communicate(timeout=PATIENCE)
    assert watch.returncode == 130
    assert "Traceback" not in err

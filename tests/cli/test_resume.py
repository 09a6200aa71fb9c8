"""`erasurehead train --resume`: after Ctrl-C, after a full disk, and after what cannot be continued."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from erasurehead.runs import RunFolder

from ..bounded import PATIENCE
from ..forks import Forked
from ..typed import other
from .shop import SMALL, Typed

NAMES = ("steps.jsonl", "arrivals.jsonl", "evaluations.jsonl", "model.safetensors")


def content(folder: str) -> dict[str, bytes]:
    return {name: (Path(folder) / name).read_bytes() for name in NAMES}


def started(*arguments: object, before: str = "pass") -> Forked:
    """Start a command in a process of its own, with a statement before it."""
    return Forked(
        f"import sys; from erasurehead.cli import main; {before}; sys.argv[0] = 'erasurehead'; main()", *arguments
    )


def wait_for_steps(folder: str, process: Forked, least: int = 20) -> None:
    """Wait until a run has recorded some steps, and has a checkpoint."""
    end = time.monotonic() + PATIENCE
    path = Path(folder)
    while not ((path / "checkpoints").is_dir() and (path / "steps.jsonl").read_bytes().count(b"\n") >= least):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.01)


LONG = (*SMALL[:-3], 60, *SMALL[-2:], "--evaluate-every", 25)
HALFWAY = """
import os, signal
from erasurehead.runs import Recorder
on_step_end = Recorder.on_step_end
reader, writer = os.pipe()
os.set_blocking(writer, False)
signal.set_wakeup_fd(writer)
def waiting(recorder, row, x):
    on_step_end(recorder, row, x)
    if row.step == 30:
        os.read(reader, 1)
Recorder.on_step_end = waiting
"""
"""After half of its steps a run waits for a signal. `signal.pause` would miss one that has come within this step."""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_run_that_is_ended_in_the_middle_goes_on_to_the_same_bits(typed: Typed, shop: Path, how: int) -> None:
    typed("train", "--data", shop, *LONG, "--out", "whole", "--quiet")
    options = ("train", "--data", shop, *LONG, "--out", "run", "--checkpoint-every", 5)
    process = started(*options, before=f"exec({HALFWAY!r})")
    wait_for_steps("run", process)
    refused = typed("train", "--resume", "run")
    assert refused.code == 2
    assert f"is still going on (process {process.pid})" in refused.sentence
    process.send_signal(how)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == (-how if how == signal.SIGKILL else 130)
    if how != signal.SIGKILL:
        assert RunFolder.open("run").summary["status"] == "interrupted"
        assert "To resume it from its last checkpoint: erasurehead train --resume run" in said
    done = typed("train", "--resume", "run")
    assert done.code == 0
    assert re.search(r"shop: .*; resumed after step \d+", done.out)
    assert content("run") == content("whole")
    assert sorted(path.name for path in Path("run").iterdir()) == sorted(
        [*NAMES, "checkpoints", "checksums.json", "config.toml", "encoding.json", "summary.json"]
    )


@pytest.mark.slow
def test_a_full_disk_is_a_sentence_and_the_run_goes_on_when_there_is_room(typed: Typed, shop: Path) -> None:
    typed("train", "--data", shop, *other(SMALL, "--steps", 60), "--out", "whole", "--quiet")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))"
    options = ("train", "--data", shop, *other(SMALL, "--steps", 60), "--out", "run", "--checkpoint-every", 1)
    full = started(*options, before=limit)
    _, said = full.communicate(timeout=PATIENCE)
    assert full.returncode == 1
    sentence = said.rstrip("\n").rpartition("\n")[2]
    found = re.fullmatch(
        r"erasurehead: run/arrivals.jsonl cannot be written: File too large\. "
        r"The last good checkpoint is that of step (\d+)\.",
        sentence,
    )
    assert found, sentence
    assert "Traceback" not in said
    assert len(RunFolder.open("run").run.steps) >= int(found[1]) > 10
    assert RunFolder.open("run").x.any()
    done = typed("train", "--resume", "run", "--json")
    assert done.json["resumed"] == [int(found[1])]
    assert content("run") == content("whole")

    optional = started(*options, "--overwrite", "--records", "optional", before=limit)
    _, said = optional.communicate(timeout=PATIENCE)
    assert optional.returncode == 0
    assert said.count("Training goes on without records.") == 1
    assert RunFolder.open("run").x.tobytes() == RunFolder.open("whole").x.tobytes()


def test_what_cannot_be_gone_on_from_is_a_sentence(typed: Typed, shop: Path) -> None:
    typed("train", "--data", shop, *SMALL, "--out", "run", "--quiet")
    typed("train", "--data", shop, *SMALL, "--out", "bare", "--quiet", "--no-keep-checkpoints")
    Path("empty").mkdir()
    for arguments, said in (
        (("--resume", "run"), "run.steps must be more than the 12 steps after which the run in 'run' finished"),
        (("--resume", "run", "--seed", 5), "--seed was 0 and is 5. Restore that, or begin a new run."),
        (
            ("--resume", "run", "--scheme", "exact(load=2)"),
            "The run cannot be continued, as what it depends on has changed: --scheme was '",
        ),
        (("--resume", "run"), "before it had converged; to go on: erasurehead train --resume run --steps 24."),
        (("--resume", "run", "--steps", 20, "--max-seconds", 1e-3), "--max-seconds must be more than the "),
        (
            ("--resume", "run", "--steps", 20, "--max-seconds", 1e-3),
            "the limit is one on the whole run, with",
        ),
        (("--resume", "bare", "--steps", 20), "The run in 'bare' is finished, and its last checkpoint is gone"),
        (("--resume", "empty"), "'empty' is not a run folder: there is no steps.jsonl in it"),
        (("--resume", "nowhere"), "'nowhere' is not a run folder: it does not exist"),
        (("--resume", "shop.csv"), "'shop.csv' is not a run folder: it is a file"),
        (("run",), "The run file 'run' is a folder. To resume the run in it: erasurehead train --resume FOLDER."),
        (("--resume", "run", "--out", "other"), "--out must be left out when a run is resumed in its own folder"),
        (("--resume", "run", "--overwrite"), "--overwrite must be left out when a run is resumed in its own folder"),
        (("run/config.toml", "--resume", "run"), "RUN_FILE must be left out with --resume"),
        (("--resume", "run", "--steps", 20, "--l2", 0.5), "what it depends on has changed: --l2 was "),
        (("--resume", "run", "--steps", 20, "--l2", 0.5), " and is 0.5. Restore that"),
        (("--resume", "run", "--steps", 20, "--class-weight", "balanced"), "--class-weight was not set and is "),
        (
            ("--resume", "run", "--steps", 20, "--seed", 5, "--delays", "none()"),
            "has changed: --delays was 'exponential(mean=0.5, seed=0)' and is 'none()'; --seed was 0 and is 5",
        ),
        (("--resume", "run", "--checkpoint-every", -1), "--checkpoint-every must be"),
        (("--resume", "run", "--records", "never"), "--records must be 'required' or 'optional'"),
    ):
        done = typed("train", *arguments)
        assert done.code == 2, done.err
        assert said in done.sentence
    assert not Path("other").exists()


def test_a_finished_run_can_be_continued(typed: Typed, shop: Path) -> None:
    typed("train", "--data", shop, *SMALL, "--out", "run", "--quiet")
    done = typed("train", "--resume", "run", "--steps", 20, "--json")
    assert (done.json["steps"], done.json["resumed"]) == (20, [12])
    typed("train", "--data", shop, *other(SMALL, "--steps", 20), "--out", "whole", "--quiet")
    assert content("run") == content("whole")
    assert os.listdir("run/checkpoints")


AT_START = """
import signal
from erasurehead.training._workers import WorkerPool
start = WorkerPool.start
def struck(pool):
    signal.raise_signal(signal.{name})
    return start(pool)
WorkerPool.start = struck
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGHUP", "SIGKILL"])
def test_a_run_that_is_ended_before_its_first_step_says_how_to_begin_it_and_can_be_resumed(
    typed: Typed, shop: Path, name: str
) -> None:
    before = f"exec({AT_START.format(name=name)!r})"
    ended = started("train", "--data", shop, *SMALL, "--out", "run", before=before)
    _, said = ended.communicate(timeout=PATIENCE)
    assert ended.returncode == (-signal.SIGKILL if name == "SIGKILL" else 130)
    if name != "SIGKILL":
        assert "It had not begun yet; to start it: erasurehead train --resume run" in said
    assert typed("train", "--resume", "run", "--quiet").code == 0
    typed("train", "--data", shop, *SMALL, "--out", "whole", "--quiet")
    assert content("run") == content("whole")


IN_STEP = """
import signal
from erasurehead.runs import Checkpointer
on_state = Checkpointer.on_state
def struck(self, step, state):
    if step == 1:
        signal.raise_signal(signal.{name})
    on_state(self, step, state)
Checkpointer.on_state = struck
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGKILL"])
def test_a_run_that_is_ended_in_its_first_step_can_be_gone_on_with_or_says_how_to_begin_it_again(
    typed: Typed, shop: Path, name: str
) -> None:
    before = f"exec({IN_STEP.format(name=name)!r})"
    ended = started("train", "--data", shop, *SMALL, "--out", "run", before=before)
    ended.communicate(timeout=PATIENCE)
    done = typed("train", "--resume", "run")
    if name == "SIGKILL":
        assert done.code == 2
        assert done.sentence.endswith("erasurehead train run/config.toml --out run --overwrite")
        done = typed("train", "run/config.toml", "--out", "run", "--overwrite")
    assert done.code == 0
    typed("train", "--data", shop, *SMALL, "--out", "whole", "--quiet")
    assert content("run") == content("whole")


TROUBLE = """
import shutil
from erasurehead.runs import Recorder
on_step_end = Recorder.on_step_end
def struck(recorder, row, x):
    if row.step == 5:
        {act}
    on_step_end(recorder, row, x)
Recorder.on_step_end = struck
"""


@pytest.mark.slow
def test_a_model_is_not_lost_with_its_folder(typed: Typed, shop: Path) -> None:
    """The folder is removed while the run goes on without records."""
    typed("train", "--data", shop, *SMALL, "--out", "whole", "--quiet")
    before = f"exec({TROUBLE.format(act='shutil.rmtree(recorder.folder.path)')!r})"
    gone = started("train", "--data", shop, *SMALL, "--out", "run", "--records", "optional", "--json", before=before)
    out, said = gone.communicate(timeout=PATIENCE)
    assert gone.returncode == 0, said
    assert "the model could not be saved in run; it is in" in said
    told = json.loads(out)
    assert told["workers_waited_for"] > 0
    assert RunFolder.open(told["model"]).x.tobytes() == RunFolder.open("whole").x.tobytes()
    scores = typed("evaluate", told["model"], shop, "--json")
    assert scores.json == typed("evaluate", "whole", shop, "--json").json


@pytest.mark.slow
def test_a_disk_that_is_full_for_good_leaves_the_figures_and_says_that_the_model_is_lost(
    typed: Typed, shop: Path
) -> None:
    full = "__import__('resource').setrlimit(__import__('resource').RLIMIT_FSIZE, (0, 0))"
    before = f"exec({TROUBLE.format(act=full)!r})"
    lost = started("train", "--data", shop, *SMALL, "--out", "run", "--records", "optional", before=before)
    out, said = lost.communicate(timeout=PATIENCE)
    assert lost.returncode == 1
    assert "no folder: it is lost" in out
    assert "test rows: auc " in out
    assert "Traceback" not in said
    assert said.rstrip().endswith(
        "erasurehead: The trained model is lost: nothing could be written, neither in the run folder nor elsewhere."
    )


def test_a_resumed_run_names_its_data_as_a_whole_one_does(typed: Typed, shop: Path) -> None:
    """Where it was found again was said in place of what had been typed."""
    words = ("train", "--data", shop.name, *SMALL, "--out", "run", "--quiet")
    typed(*words)
    whole = RunFolder.open("run").summary
    typed(*other(words, "--steps", 6), "--overwrite")
    assert typed("train", "--resume", "run", "--steps", 12).code == 0
    resumed = RunFolder.open("run").summary
    assert resumed["data"] == whole["data"]
    assert resumed["data"]["source"] == str(shop)

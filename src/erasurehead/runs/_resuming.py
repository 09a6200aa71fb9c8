"""Whether a run can be continued, and from what: its checkpoint, and the rows until then."""

from __future__ import annotations

import os
import shlex
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from erasurehead._internal.documents import Entries
from erasurehead._internal.user_files import StrPath
from erasurehead.errors import DataError, ErasureHeadError, InvalidArgument, invalid
from erasurehead.runs._checkpoints.store import Checkpoint, CheckpointStore
from erasurehead.runs._config.checking import build_config
from erasurehead.runs._fingerprints import MEANING, check_same, of_encoding
from erasurehead.runs._folder import RunFolder
from erasurehead.runs._locks import check_unlocked
from erasurehead.runs._names import ARRIVALS, CONFIG, ENCODING, LOCK, STEPS, check_tame, has_checkpoints
from erasurehead.runs._rows import RowsInFolder
from erasurehead.training import ArrivalRow, Resumption, StepRow

if TYPE_CHECKING:
    from erasurehead.datasets._preprocessing.encoding import Encoding


def resumption(folder: RunFolder, checkpoint: Checkpoint) -> Resumption:
    """Return the state from which the training loop continues.

    Raises:
        DataError: if the records are not those of the checkpoint's steps.
    """
    steps = RowsInFolder(StepRow, folder.path / STEPS)
    arrivals = RowsInFolder(ArrivalRow, folder.path / ARRIVALS)
    for rows, name in ((steps, STEPS), (arrivals, ARRIVALS)):
        rows.stored = folder.stored_lines(name, checkpoint.records[name])
    numbers = [row.step for row in steps]
    ascending = all(one < two for one, two in pairwise([-1, *numbers, checkpoint.step]))
    if not ascending or len(numbers) != checkpoint.step:
        raise DataError(
            f"{folder.path / STEPS} does not hold the {checkpoint.step} steps up to the checkpoint, one line each."
        )
    for _ in arrivals:  # which raises for one that is not a record
        pass
    return Resumption(checkpoint.state, steps, arrivals)


def opened_to_go_on(path: StrPath) -> RunFolder:
    """Open the folder of a run that is to be continued.

    Raises:
        DataError: if there is no run in it, something else has the name of one of its files, it has no settings, or
            none of its checkpoints can be used: an earlier version may have called settings otherwise.
        InvalidArgument: if the run is still running.
    """
    opened = RunFolder.open(path)
    check_tame(opened.path)
    check_unlocked(opened.path / LOCK)
    if not opened.tables:
        raise DataError(
            f"There is no {CONFIG} in {os.fspath(path)!r}: a run that was started from Python is resumed from Python."
        )
    if has_checkpoints(opened.path):
        CheckpointStore(opened.path).newest()
    return opened


def check_unchanged(opened: RunFolder, before: Entries, now: Entries, encoding: Encoding) -> None:
    """Raise if a run that is to be continued depends on something that has changed.

    Arguments:
        opened: its folder.
        before: the facts in its checkpoint.
        now: the facts as they are.
        encoding: how raw rows become rows of the design matrix now. Changes of it are named, where the folder says how
            it was; otherwise its fingerprint among the facts tells only that there are some.

    Raises:
        InvalidArgument: if so; the error names the changes.
        DataError: if the encoding in the folder is damaged.
    """
    named = opened.has(ENCODING)
    check_same(before, {key: fact for key, fact in now.items() if not (named and key == MEANING)})
    if named:
        check_same(of_encoding(opened.encoding), of_encoding(encoding))


def can_be_resumed(path: Path) -> bool:
    """Return whether a folder holds a run that can be resumed from a checkpoint."""
    try:
        folder = RunFolder.open(path)
        check_tame(path)
        build_config(folder.tables)
        resumption(folder, CheckpointStore(path).load())
        whole = not folder.has(ENCODING) or not folder.damage(ENCODING)
    except (ErasureHeadError, OSError):
        return False
    return whole and bool(folder.tables)


def check_unfinished(folder: RunFolder, steps: int, seconds: float | None) -> None:
    """Raise if there is nothing left to do in a run of this total number of steps and seconds.

    Arguments:
        folder: of the run.
        steps: most steps.
        seconds: most seconds of training, if another limit is set than that of before; None if not.

    Raises:
        InvalidArgument: if it has finished that many steps or more, has taken that long, or its checkpoints were
            removed when it finished.
    """
    try:
        summary = folder.summary
    except DataError:  # the summary is not needed, and will be written again
        return
    taken = float(summary.get("seconds") or 0.0)
    if seconds is not None and seconds <= taken:
        rule = f"must be more than the {taken:.3g} s that the run in {str(folder.path)!r} has taken"
        instead = "the limit is one on the whole run, with the seconds before it was resumed"
        raise invalid("run.max_seconds", rule, seconds, instead)
    if summary.get("status") != "finished":
        return
    done = int(summary.get("steps", 0))
    if steps <= done:
        instead = "nothing is left to do"
        if summary.get("ended") == "steps":
            way_on = f"erasurehead train --resume {shlex.quote(str(folder.path))} --steps {2 * done}"
            instead = f"it ended at that limit, before it had converged; to go on: {way_on}"
        rule = f"must be more than the {done} steps after which the run in {str(folder.path)!r} finished"
        raise invalid("run.steps", rule, steps, instead)
    if not has_checkpoints(folder.path):
        raise InvalidArgument(
            "resume",
            "must have a checkpoint to go on from",
            str(folder.path),
            sentence=f"The run in {str(folder.path)!r} is finished, and its last checkpoint is gone: there is nothing "
            "to resume. It stays unless a run is trained with checkpoints.keep_finished = false "
            f"(--no-keep-checkpoints). A new run can begin with its model: --initial {shlex.quote(str(folder.path))}.",
        )

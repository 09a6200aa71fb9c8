"""The rows of a run with a folder are those that a run without one has, and take no memory."""

from __future__ import annotations

import copy
import gc
import pickle
import tracemalloc
from pathlib import Path

import pytest

from erasurehead import delays, engines, optimizers, schemes, training
from erasurehead.errors import DataError
from erasurehead.runs import Checkpointer, Recorder, RunFolder
from erasurehead.runs._names import STEPS
from erasurehead.runs._rows import RowsInFolder
from erasurehead.testing._problems import Quadratic
from erasurehead.training import Callback, Run


def trained(folder: Path | None, steps: int = 40, *watching: Callback) -> Run:
    problem = Quadratic.random(24, 6, seed=1, l2=0.01)
    recorder = None if folder is None else Recorder(RunFolder.create(folder))
    recording = [] if recorder is None else [recorder, Checkpointer(recorder, every_steps=500)]
    return training.train(
        problem,
        schemes.erasurehead(6, load=2, wait_for=3),
        optimizers.GradientDescent(problem.initial(), 1e-5),
        engines.VirtualEngine(delays.Exponential(mean=0.5, seed=3), "carry"),
        steps,
        [*recording, *watching],
        evaluate_every=0,
        tolerance=None,
    )


@pytest.mark.slow
def test_rows_are_read_from_the_folder_as_they_would_be_in_memory(tmp_path: Path) -> None:
    inside, kept = trained(tmp_path / "run", 200), trained(None, 200)
    assert isinstance(inside.steps, RowsInFolder)
    for stored, rows in ((inside.steps, list(kept.steps)), (inside.arrivals, list(kept.arrivals))):
        assert len(stored) == len(rows) > 64  # more than one place that is marked
        assert stored == rows
        assert rows == stored
        assert stored != rows[1:]
        assert list(stored) == list(reversed(list(reversed(stored)))) == rows
        for place in (0, 63, 64, len(rows) - 1, -1, -len(rows)):
            assert stored[place] == rows[place]
        for some in (slice(60, 70), slice(None), slice(-3, None), slice(5, 2), slice(None, None, -7), slice(0, 10**9)):
            assert stored[some] == rows[some]
        for place in (len(rows), -len(rows) - 1):
            with pytest.raises(IndexError):
                stored[place]
        assert pickle.loads(pickle.dumps(stored)) == copy.deepcopy(stored) == rows
        assert rows[7] in stored
        assert stored.index(rows[7]) == 7
    assert (inside.seconds, inside.times.tolist(), inside.losses.tolist(), inside.rise) == (
        kept.seconds,
        kept.times.tolist(),
        kept.losses.tolist(),
        kept.rise,
    )


def test_rows_outlive_their_folder_but_not_what_is_done_to_their_file(tmp_path: Path) -> None:
    gone, changed = trained(tmp_path / "gone"), trained(tmp_path / "changed")
    (tmp_path / "gone" / STEPS).unlink()
    assert [row.step for row in gone.steps] == list(range(40))
    data = (tmp_path / "changed" / STEPS).read_bytes()
    (tmp_path / "changed" / STEPS).write_bytes(data[: data.index(b'"step":7,')])
    assert changed.steps[6].step == 6
    with pytest.raises(DataError, match="was changed by another program"):
        changed.steps[7]


class _Memory(Callback):
    """Measures the memory of Python's objects after some steps."""

    def __init__(self, *steps: int) -> None:
        self.found = dict.fromkeys(steps, 0)

    def on_state(self, step: int, state: object) -> None:
        if step in self.found:
            gc.collect()
            self.found[step] = tracemalloc.get_traced_memory()[0]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_steps_of_a_run_that_has_a_folder(tmp_path: Path) -> None:
    memory = _Memory(200, 599)
    tracemalloc.start()
    try:
        run = trained(tmp_path / "run", 600, memory)
    finally:
        tracemalloc.stop()
    assert len(run.steps) == 600
    drawn = 1 << 18  # bytes of draws that are kept for steps to come
    assert memory.found[599] - memory.found[200] < 400 * 100 + drawn, memory.found

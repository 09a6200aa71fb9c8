"""`erasurehead resize`: more or fewer workers for a run that is going on."""

from __future__ import annotations

import json
from pathlib import Path

from erasurehead.cli._train import workers_text
from erasurehead.runs import Experiment
from erasurehead.training import Callback, StepRow

from ..arrays import Array
from ..run_files import read_config
from .shop import SMALL, Typed


class _Resizes(Callback):
    """Types the command in the middle of a run."""

    def __init__(self, typed: Typed, wishes: dict[int, int]) -> None:
        self.typed, self.wishes = typed, wishes
        self.codes: list[int] = []

    def on_step_end(self, row: StepRow, x: Array) -> None:
        if row.step in self.wishes:
            self.codes.append(self.typed("resize", "going", str(self.wishes[row.step])).code)


def test_a_run_that_is_going_on_gets_more_and_fewer_workers(typed: Typed, shop: Path) -> None:
    assert typed("train", "--data", shop, *SMALL, "--scheme", "exact(load=2)", "--out", "steady").code == 0
    config = read_config("steady/config.toml")
    experiment = Experiment.from_config(
        config.model_copy(update={"run": config.run.model_copy(update={"out": "going"})})
    )
    resizes = _Resizes(typed, {2: 9, 6: 4})
    run = experiment.run([resizes])
    assert resizes.codes == [0, 0]
    assert [row.workers for row in run.steps] == [6] * 3 + [9] * 4 + [4] * 5
    steady = Experiment.from_config(
        config.model_copy(update={"run": config.run.model_copy(update={"out": "again"})})
    ).run()
    assert (workers_text(run), workers_text(steady)) == ("4 to 9 workers", "6 workers")
    assert abs(run.losses - steady.losses).max() < 1e-9
    lines = [json.loads(line) for line in Path("going/steps.jsonl").read_text().splitlines()]
    assert [notice["data"]["n_workers"] for notice in lines[3]["notices"] if notice["kind"] == "resized"] == [9]


def test_where_no_run_is_going_on_nobody_is_asked(typed: Typed, shop: Path) -> None:
    typed("train", "--data", shop, *SMALL, "--out", "over")
    done = typed("resize", "over", "4")
    assert done.code == 2
    assert done.err.startswith("erasurehead: No run is under way in 'over', so nothing would use the workers; ")
    assert not Path("over/control.json").exists()
    assert typed("resize", "over", "0").code == 2


class _Asks(Callback):
    def __init__(self, typed: Typed) -> None:
        self.typed = typed
        self.said = ""

    def on_step_end(self, row: StepRow, x: Array) -> None:
        if row.step == 2:
            done = self.typed("resize", "going", "1000")
            assert done.code == 2
            self.said = done.err


def test_more_workers_than_the_tasks_can_use_are_refused_before_any_is_started(typed: Typed, shop: Path) -> None:
    assert typed("train", "--data", shop, *SMALL, "--scheme", "exact(load=2)", "--out", "steady").code == 0
    config = read_config("steady/config.toml")
    run = config.run.model_copy(update={"out": "going"})
    asks = _Asks(typed)
    done = Experiment.from_config(config.model_copy(update={"run": run})).run([asks])
    assert "333 workers would hold each of its 6 tasks; at most 18 workers are of use." in asks.said
    assert {row.workers for row in done.steps} == {6}

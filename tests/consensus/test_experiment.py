"""Runs from run files: records, models that predict, going on to the bit, and bad input in the user's words."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead import consensus
from erasurehead._internal.atomic_files import unwritable
from erasurehead.consensus import ConsensusCallback, _recorder as recorder
from erasurehead.consensus._experiment import ConsensusExperiment
from erasurehead.consensus._plans import ConsensusPlan
from erasurehead.consensus._recorder import PeerRecording
from erasurehead.consensus._result import ConsensusRun
from erasurehead.consensus._rows import MeanRow, PeerRow, ViewChangeRow
from erasurehead.engines._base import NoRoom
from erasurehead.errors import DataError, Diverged, InvalidArgument, RecordsError
from erasurehead.problems import Problem
from erasurehead.runs import Experiment, RunFolder, TrainedModel
from erasurehead.training import Notice

from ..bounded import in_time
from ..typed import typed

QUICK = ("consensus", "--peers", 4, "--graph", "ring()", "--steps", 3, "--no-against-full", "--quiet")
"""A run of a fraction of a second."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((160, 3))
    y = (X @ [1.0, -2.0, 0.5] + 0.3 * rng.standard_normal(160) > 0).astype(int)
    place = tmp_path_factory.mktemp("data") / "rows.csv"
    lines = ["a,b,c,y", *(",".join(map(str, [*x, label])) for x, label in zip(X.round(4), y, strict=True))]
    place.write_text("\n".join(lines))
    return place


def tables(rows: Path, out: Path, **more: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "consensus": {"peers": 5, "graph": "ring()", "rate": 0.3, "batch": 8},
        "data": {"source": str(rows)},
        "run": {"steps": 20, "out": str(out), "evaluate_every": 5.0},
        "checkpoints": {"every_steps": 5},
    }
    for section, keys in more.items():
        made[section] = made.get(section, {}) | keys
    return made


def test_a_run_leaves_rows_and_a_model_that_predicts(rows: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = ConsensusExperiment.from_tables(tables(rows, out)).run()
    opened = RunFolder.open(out)
    kept = opened.rows("peers.jsonl", PeerRow)
    assert len(kept) == done.steps
    assert 100 <= done.steps < 105
    assert [row.time for row in opened.rows("means.jsonl", MeanRow)] == [row.time for row in done.means]
    assert opened.summary["status"] == "finished"
    assert opened.summary["messages"] == done.messages
    assert (opened.x == done.x).all()
    assert TrainedModel.load(out).evaluate(rows).metrics["accuracy"] > 0.85
    for name in ("peers.jsonl", "means.jsonl", "view_changes.jsonl", "config.toml"):
        assert opened.damage(name) == ""
    with pytest.raises(InvalidArgument, match=r"must be a run with a coordinator .*; erasurehead consensus draws such"):
        opened.plot()


class Killed(ConsensusCallback):
    """Ends training as Ctrl-C does, in the middle."""

    def on_mean(self, row: MeanRow) -> None:
        if row.step >= 10:
            raise KeyboardInterrupt


def run_to_the_end(rows: Path, out: Path, **more: dict[str, Any]) -> ConsensusRun:
    return ConsensusExperiment.from_tables(tables(rows, out, **more)).run()


class _Refuses(ConsensusCallback):
    """Objects to a run before its first step: before it begins, or when its first model has been evaluated."""

    def __init__(self, evaluated: bool) -> None:
        self.evaluated = evaluated

    def on_begin(self, plan: ConsensusPlan, steps: int) -> None:
        if not self.evaluated:
            raise InvalidArgument("this", "must not be", 1)

    def on_mean(self, row: MeanRow) -> None:
        raise NoRoom("worker 3 cannot be started.")


@pytest.mark.parametrize("evaluated", [False, True])
def test_a_run_that_ends_by_an_error_before_its_first_step_leaves_nothing_behind(
    rows: Path, tmp_path: Path, evaluated: bool
) -> None:
    said = r"their number is consensus\.peers \(--peers\)\.$" if evaluated else "this must not be"
    with pytest.raises(NoRoom if evaluated else InvalidArgument, match=said):
        ConsensusExperiment.from_tables(tables(rows, tmp_path / "deep" / "run")).run([_Refuses(evaluated)])
    assert list(tmp_path.iterdir()) == []


class _Changes(ConsensusCallback):
    """Changes a file of rows at step 10, and ends training at another step; keeps what it is told."""

    def __init__(self, change: Callable[[], object], end: float) -> None:
        self.change: Callable[[], object] | None = change
        self.end = end
        self.told: list[Notice] = []

    def on_mean(self, row: MeanRow) -> None:
        if row.step >= 10 and self.change is not None:
            self.change()
            self.change = None
        if row.step >= self.end:
            raise KeyboardInterrupt

    def on_notice(self, notice: Notice) -> None:
        self.told.append(notice)


def _empty(path: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.parametrize("name", ["peers.jsonl", "means.jsonl"])
@pytest.mark.parametrize("change", [_empty, Path.unlink])
def test_a_run_whose_rows_were_changed_ends_with_a_sentence(
    rows: Path, tmp_path: Path, name: str, change: Callable[[Path], object]
) -> None:
    cut = tmp_path / "cut"
    with pytest.raises(RecordsError, match=f"{name} cannot be written"):
        ConsensusExperiment.from_tables(tables(rows, cut)).run([_Changes(lambda: change(cut / name), 15)])
    assert f"{name} cannot be written" in RunFolder.open(cut).summary["reason"]


def test_a_model_for_which_there_is_no_room_is_saved_elsewhere(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, write, watching = tmp_path / "run", RunFolder.write_model, _Changes(lambda: None, 1e9)

    def full(folder: RunFolder, x: Any) -> None:
        if folder.path == out:
            raise unwritable(out / "model.safetensors", OSError(errno.ENOSPC, "No space left on device"))
        write(folder, x)

    monkeypatch.setattr(RunFolder, "write_model", full)
    with pytest.raises(RecordsError, match=r"No space left on device\. The last good checkpoint is that of step 20\.$"):
        ConsensusExperiment.from_tables(tables(rows, out)).run([watching])
    (moved,) = (notice for notice in watching.told if notice.kind == "model_moved")
    assert Path(moved.data["folder"]).parent == tmp_path
    assert TrainedModel.load(moved.data["folder"]).evaluate(rows).metrics["accuracy"] > 0.85
    assert RunFolder.open(out).summary["status"] == "records"


@pytest.mark.parametrize("policy", ["dynamic()", "local()", "full()"])
def test_a_run_that_was_cut_off_goes_on_to_the_bit(rows: Path, tmp_path: Path, policy: str) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    more = {"consensus": {"policy": policy, "algorithm": "gradient_tracking()", "rate": 0.05}}
    run_to_the_end(rows, whole, **more)
    with pytest.raises(KeyboardInterrupt):
        ConsensusExperiment.from_tables(tables(rows, cut, **more)).run([Killed()])
    assert RunFolder.open(cut).summary["status"] == "interrupted"
    done = ConsensusExperiment.resume(cut).run()
    assert not done.stopped
    assert (RunFolder.open(cut).x == RunFolder.open(whole).x).all()
    assert RunFolder.open(cut).rows("peers.jsonl", PeerRow) == RunFolder.open(whole).rows("peers.jsonl", PeerRow)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("a,b,", "b,a,", "column 1 was 'a' and is 'b'"),
        ("a,b,", "a,b2,", "column 2 was 'b' and is 'b2'"),
        ("\n0.", "\n7.", r"data was '\d+ x \d.*' and is '\d+ x "),
    ],
)
@pytest.mark.parametrize("encoding", [True, False])
def test_a_run_does_not_go_on_with_other_data(
    rows: Path, tmp_path: Path, old: str, new: str, said: str, encoding: bool
) -> None:
    own = tmp_path / "own.csv"
    own.write_text(rows.read_text())
    with pytest.raises(KeyboardInterrupt):
        ConsensusExperiment.from_tables(tables(own, tmp_path / "cut")).run([Killed()])
    assert old in own.read_text()
    own.write_text(own.read_text().replace(old, new, 1))
    if not encoding:
        (tmp_path / "cut" / "encoding.json").unlink()
        said = said if said.startswith("data") else "what the columns and labels mean was"
    with pytest.raises(InvalidArgument, match=f"cannot be continued, as what it depends on has changed: {said}"):
        ConsensusExperiment.resume(tmp_path / "cut").run()


def test_a_run_does_not_go_on_with_another_schedule_of_faults_or_other_delays(rows: Path, tmp_path: Path) -> None:
    schedule, trace = tmp_path / "faults.toml", tmp_path / "trace.csv"

    def written(at: float, slowest: float) -> None:
        schedule.write_text(f"[[fault]]\nkind = 'kill'\nat = {at}\nworker = 0\n")
        waits = [f"{step},{peer},{slowest - 0.1 * peer + step:.1f}" for step in range(4) for peer in range(5)]
        trace.write_text("\n".join(["step,worker,seconds", *waits]))

    changes = [((60.0, 1.0), "what consensus.faults schedules was"), ((50.0, 2.0), "what delays.model draws")]
    for changed, said in changes:
        written(50.0, 1.0)
        out = tmp_path / f"cut{changed[0]:g}"
        more = {"consensus": {"faults": str(schedule)}, "delays": {"model": f"trace({str(trace)!r})"}}
        with pytest.raises(KeyboardInterrupt):
            ConsensusExperiment.from_tables(tables(rows, out, **more)).run([Killed()])
        written(*changed)
        with pytest.raises(InvalidArgument, match=said):
            ConsensusExperiment.resume(out).run()


def test_a_finished_run_takes_more_steps(rows: Path, tmp_path: Path) -> None:
    short, whole = tmp_path / "short", tmp_path / "long"
    run_to_the_end(rows, short)
    run_to_the_end(rows, whole, run={"steps": 30})
    ConsensusExperiment.resume(short, {"run": {"steps": 30}}).run()
    assert (RunFolder.open(short).x == RunFolder.open(whole).x).all()
    for steps in (10, 30):
        with pytest.raises(InvalidArgument, match=r"run\.steps must be more than the 30 steps that each peer has"):
            ConsensusExperiment.resume(short, {"run": {"steps": steps}})
    with pytest.raises(InvalidArgument, match=r"consensus\.policy must be left out"):
        ConsensusExperiment.resume(short, {"consensus": {"policy": "full()"}})


def test_faults_come_from_a_schedule(rows: Path, tmp_path: Path) -> None:
    schedule = tmp_path / "faults.toml"
    kill, stop = "kind = 'kill'\nat = 5.0\nworker = 0", "kind = 'stop'\nat = 8.0\nworker = 2\nlasting = 10.0"
    schedule.write_text(f"[[fault]]\n{kill}\n[[fault]]\n{stop}\n")
    out = tmp_path / "run"
    done = run_to_the_end(rows, out, consensus={"faults": str(schedule), "orphans": "taken over"})
    assert done.present == [1, 2, 3, 4]
    changes = RunFolder.open(out).rows("view_changes.jsonl", ViewChangeRow)
    assert [row.gone for row in changes] == [[0], [0, 2], [0]]
    assert changes[0].shares == "taken over"
    schedule.write_text("[[fault]]\nkind = 'coordinator'\nat = 5.0\n")
    with pytest.raises(InvalidArgument, match="kill, stop, disconnect for peers"):
        ConsensusExperiment.from_tables(tables(rows, tmp_path / "other", consensus={"faults": str(schedule)}))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"consensus": {"graph": "edges(['a-b', 'c-d', 'd-e'])"}}, "must be connected"),
        ({"consensus": {"policy": "static(backup=2)"}}, "must leave every peer a neighbour"),
        ({"consensus": {"peers": 1}}, "consensus.peers must be"),
        ({"consensus": {"polcy": "full()"}}, "did you mean 'policy'"),
        ({"consensus": {"mixing": "mean()"}}, "consensus.mixing must be one of"),
        ({"consensus": {"split": "dirichlet(alpha=0.0001)"}}, "at least one sample"),
        ({"consensus": {"graph": "edges([1, 2])"}}, "every edge must be a pair such as 'a-b', but it is 1"),
        ({"consensus": {"graph": "edges([])"}}, "must name at least one edge"),
        ({"consensus": {"peers": 129}}, "consensus.peers must be at most the number of training samples, 128"),
        (
            {"consensus": {"policy": "bounded_staleness(steps=-1)"}},
            "consensus.policy 'bounded_staleness(steps=-1)': steps",
        ),
        ({"consensus": {"policy": "static()"}}, "consensus.policy 'static()': static needs exactly one"),
        ({"consensus": {"split": "even(seed=-1)"}}, "consensus.split 'even(seed=-1)': seed must be"),
        ({"consensus": {"algorithm": "momentum(momentum=2)"}}, "consensus.algorithm 'momentum(momentum=2)': momentum"),
        ({"data": {"source": "cifar100"}}, "or one of mnist, cifar10"),
        ({"run": {"engine": "ray"}}, "run.engine must be"),
        ({"delays": {"latency": -1.0}}, "delays.latency must be"),
    ],
)
def test_what_cannot_be_is_said_of_the_key(rows: Path, tmp_path: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises((InvalidArgument, DataError)) as caught:
        ConsensusExperiment.from_tables(tables(rows, tmp_path / "run", **more))
    assert said in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_network_of_two_layers_learns_classes(rows: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = run_to_the_end(rows, out, consensus={"hidden": 6, "rate": 0.3}, run={"steps": 60})
    assert done.objective < 0.7 * done.means[0].objective
    assert done.means[-1].metrics["accuracy"] > 0.8
    trained = TrainedModel.load(out)
    assert trained.evaluate(rows).metrics["accuracy"] > 0.8
    predictions = trained.predict(rows)
    assert set(predictions.values) == {"0", "1"}
    assert predictions.probabilities is not None
    assert np.allclose(predictions.probabilities.sum(axis=1), 1.0)
    with pytest.raises(DataError, match="has no coefficients"):
        trained.coefficients()
    with pytest.raises(InvalidArgument, match="which is not a linear model"):
        trained.initial(trained.encoding, "logistic")
    numbers = tmp_path / "numbers.csv"
    numbers.write_text("\n".join(["a,b,y", *(f"{i % 7},{i % 5},{i / 3:.3f}" for i in range(90))]))
    with pytest.raises(InvalidArgument, match=r"consensus\.hidden must be 0 for a target that is not a class"):
        ConsensusExperiment.from_tables(tables(numbers, tmp_path / "other", consensus={"hidden": 6}))


def test_the_model_of_one_peer_is_saved_where_that_is_asked_for(rows: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = run_to_the_end(rows, out, run={"model_of": 3})
    assert (RunFolder.open(out).x == done.models[3]).all()
    assert RunFolder.open(out).summary["model_of"] == 3
    assert RunFolder.open(out).summary["model_distance"] == pytest.approx(np.linalg.norm(done.models[3] - done.x))
    with pytest.raises(InvalidArgument, match=r"run\.model_of must be a peer, 0 to 4, but it is 5"):
        run_to_the_end(rows, tmp_path / "other", run={"model_of": 5})
    with pytest.raises(InvalidArgument, match="peer must be"):
        done.model(5)


def test_real_peers_promise_no_checkpoints(rows: Path, tmp_path: Path) -> None:
    with pytest.raises(
        InvalidArgument, match=r"checkpoints\.every_steps must be left out on processes, got 5; only runs"
    ):
        ConsensusExperiment.from_tables(tables(rows, tmp_path / "run", run={"engine": "processes"}))


def test_a_linear_model_has_no_hidden_units(rows: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"consensus\.hidden must be 0 for a linear model"):
        run_to_the_end(rows, tmp_path / "run", consensus={"model": "linear", "hidden": 4})


def test_only_runs_of_peers_go_on_here(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a run folder"):
        ConsensusExperiment.resume(tmp_path)
    other = RunFolder.create(tmp_path / "other")
    with pytest.raises(DataError, match=r"There is no config\.toml in"):
        ConsensusExperiment.resume(tmp_path / "other")
    other.write("config.toml", "scheme = 'uncoded'")
    with pytest.raises(DataError, match="is not a run without a coordinator"):
        ConsensusExperiment.resume(tmp_path / "other")
    RunFolder.create(tmp_path / "peers").write(
        "config.toml", "[consensus]\npeers = 6\n[delays]\nseconds_per_step = 1.0"
    )
    with pytest.raises(DataError, match=r"a run without a coordinator; erasurehead consensus --resume resumes it\.$"):
        Experiment.resume(tmp_path / "peers")


def test_the_command_says_what_was_saved(rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from ..typed import command_line

    words = [
        "consensus",
        "--data",
        str(rows),
        "--peers",
        "4",
        "--graph",
        "ring()",
        "--steps",
        "8",
        "--rate",
        "0.3",
        "--out",
        str(tmp_path / "run"),
        "--no-pictures",
        "--json",
    ]
    command_line()(words, standalone_mode=False)
    out, aside = capsys.readouterr()
    told = json.loads(out)
    assert 32 <= told["steps"] < 36
    assert told["against_full"]["seconds_full"]
    assert told["slowest"]["peer"] == 0
    assert 0 < told["slowest"]["rounds"] < told["slowest"]["of"]
    assert told["slowest"]["times"] > 2.0
    assert "4 peers on ring()" in aside


def test_the_command_names_the_peer_whose_model_it_saved(rows: Path, tmp_path: Path) -> None:
    words = ("consensus", "--data", rows, "--peers", 4, "--graph", "ring()", "--steps", 2, "--no-pictures", "--quiet")
    assert "records, the mean model in" in typed(*words, "--out", tmp_path / "mean").out
    assert "records, the model of peer 2 in" in typed(*words, "--out", tmp_path / "two", "--model-of", 2).out


def test_no_peer_is_called_slow_where_all_are_alike(rows: Path, tmp_path: Path) -> None:
    """One that took 1 times as long as the others was named."""
    words = ("consensus", "--data", rows, "--peers", 4, "--graph", "ring()", "--steps", 2, "--no-pictures", "--quiet")
    assert "times as long as the others'" in typed(*words, "--out", tmp_path / "slow").out
    assert "the others'" not in typed(*words, "--out", tmp_path / "alike", "--delays", "fixed([[1.0] * 4])").out


def test_a_run_whose_objective_is_no_number_has_diverged_though_its_models_are_finite(
    rows: Path, tmp_path: Path
) -> None:
    """It was finished, and a TypeError when it was drawn: the squares of the penalty had overflowed."""
    words = ("consensus", "--data", rows, "--peers", 4, "--graph", "ring()", "--steps", 1, "--rate", 1e300)
    done = typed(*words, "--out", tmp_path / "run")
    assert (done.code, done.sentence) == (
        1,
        "erasurehead: The peers' models are no longer finite: the rate is too large.",
    )
    assert RunFolder.open(tmp_path / "run").summary["status"] == "diverged"


@pytest.mark.parametrize("engine", ["virtual", pytest.param("processes", marks=pytest.mark.slow)])
def test_a_run_that_made_its_models_far_worse_has_diverged_though_they_are_finite(
    engine: str, squares: Problem
) -> None:
    with pytest.raises(Diverged, match=r"^The peers' models are worse than the first one.*take a smaller step size"):
        consensus.train(squares, "ring()", "full()", peers=3, steps=20, rate=3.0, engine=engine)


def test_a_run_folder_says_that_its_run_has_diverged(rows: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(Diverged, match="worse than the first one"):
        ConsensusExperiment.from_tables(tables(rows, out, consensus={"rate": 1e3})).run()
    assert RunFolder.open(out).summary["status"] == "diverged"


def test_a_resumed_run_has_the_summary_of_a_whole_one(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said how it had begun for the second time, and where its data were once they had been found again."""
    monkeypatch.chdir(rows.parent)
    words = ("consensus", "--data", rows.name, "--peers", 4, "--graph", "ring()", "--no-pictures", "--json", "--quiet")
    whole = typed(*words, "--steps", 30, "--out", tmp_path / "run").json
    before = RunFolder.open(tmp_path / "run").summary
    typed(*words, "--steps", 12, "--out", tmp_path / "run", "--overwrite", "--no-against-full")
    again = typed("consensus", "--resume", tmp_path / "run", "--steps", 30, "--no-pictures", "--json")
    resumed = again.json
    after = RunFolder.open(tmp_path / "run").summary
    assert resumed == whole
    assert resumed["against_full"]["seconds"] < resumed["against_full"]["seconds_full"]
    assert "full waiting on the same delays, to compare" in again.err
    assert after == before
    assert after["data"]["source"] == str(rows)
    assert after["first_objective"] == pytest.approx(np.log(2.0))


@pytest.mark.parametrize("kind", ["link", "file"])
def test_pictures_are_not_drawn_elsewhere(rows: Path, tmp_path: Path, kind: str) -> None:
    """A run folder may come from somebody else, with a link where its pictures belong."""
    out, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    typed(*QUICK, "--data", rows, "--out", out, "--no-pictures")
    elsewhere.mkdir()
    if kind == "link":
        (out / "figures").symlink_to(elsewhere)
    else:
        (out / "figures").write_text("no folder")
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    refused = typed("consensus", "--resume", out, "--steps", 6)
    assert refused.code == 2
    why = "it is a link, and links in this folder are not followed" if kind == "link" else "Not a directory"
    assert refused.sentence == f"erasurehead: {out / 'figures'} cannot be used: {why}."
    assert not list(elsewhere.iterdir())
    assert before == {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}


@pytest.mark.slow
def test_pictures_replace_what_has_their_names(rows: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out, other = tmp_path / "run", tmp_path / "other.txt"
    typed(*QUICK, "--data", rows, "--out", out, "--no-pictures")
    other.write_text("precious")
    (out / "figures").mkdir()
    (out / "figures" / "consensus.svg").symlink_to(other)
    (out / "figures" / "consensus.png").hardlink_to(other)
    os.mkfifo(out / "figures" / "links.svg")
    with in_time():
        assert typed("consensus", "--resume", out, "--steps", 6).code == 0
    assert other.read_text() == "precious"
    drawn = [path for path in (out / "figures").iterdir() if path.is_file() and not path.is_symlink()]
    assert sorted(path.name for path in drawn) == ["consensus.png", "consensus.svg", "links.png", "links.svg"]


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("engine", ["virtual", "processes"])
def test_a_run_whose_folder_is_moved_ends_with_that(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """Peers on processes trained to the end, and then found no folder for their model."""
    monkeypatch.setattr(recorder, "_FLUSH_INTERVAL", 0.0)
    out, steps = tmp_path / "run", list[PeerRow]()

    class Moves(ConsensusCallback):
        def on_step(self, row: PeerRow) -> None:
            steps.append(row)
            if len(steps) == 5:
                out.rename(tmp_path / "elsewhere")

    more: dict[str, Any] = {"engine": engine, "steps": 2_000, "evaluate_every": 1_000.0}
    made = tables(rows, out, run=more, delays={"model": "exponential(mean=0.005)"}, checkpoints={"every_steps": 0})
    with pytest.raises(RecordsError, match=r"jsonl cannot be written: .*moved"):
        ConsensusExperiment.from_tables(made).run([Moves()])
    assert len(steps) < 50


@pytest.mark.slow
def test_a_link_that_comes_while_peers_train_costs_the_pictures_alone(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    out, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    elsewhere.mkdir()
    finish = PeerRecording.finish

    def finished(recording: PeerRecording, *more: Any) -> None:
        finish(recording, *more)
        (out / "figures").symlink_to(elsewhere)

    monkeypatch.setattr(PeerRecording, "finish", finished)
    done = typed(*QUICK, "--data", rows, "--out", out)
    assert done.code == 0
    assert f"No pictures: {out / 'figures'} cannot be written: it is a link" in done.err
    assert "mean model: objective" in done.out
    assert not list(elsewhere.iterdir())

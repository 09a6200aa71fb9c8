"""One changed bit in whatever a run left behind is noticed by whoever reads it, or it changes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from erasurehead.delays._fixed import Recorded
from erasurehead.errors import DataError, InvalidArgument
from erasurehead.runs import Experiment, RunFolder, TrainedModel, replay
from erasurehead.runs._checkpoints.store import CheckpointStore
from erasurehead.runs._config.checking import build_config
from erasurehead.training import Callback, Notice

LINES = "size,town,sold\n" + "".join(f"{n % 7},{('Ely', 'Rye', 'Ayr')[n % 3]},{n * n % 5 % 2}\n" for n in range(60))


class _Stop(Callback):
    def on_state(self, step: int, state: object) -> None:
        if step == 4:
            raise KeyboardInterrupt


class _Notices(Callback):
    def __init__(self) -> None:
        self.said: list[str] = []

    def on_notice(self, notice: Notice) -> None:
        self.said.append(notice.text)


def experiment(place: Path, out: str, **checkpoints: Any) -> Experiment:
    return Experiment.from_config(
        build_config(
            {
                "scheme": "uncoded",
                "data": {"source": str(place / "homes.csv"), "categorical": True},
                "run": {"engine": "virtual", "preset": "paper", "workers": 2, "steps": 6, "out": str(place / out)},
                "delays": {"model": "exponential(mean=0.5, seed=1)"},
                "checkpoints": {"every_steps": 1, "behind": 0, **checkpoints},
            }
        )
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run, which kept its checkpoints, and one that was stopped."""
    place = tmp_path_factory.mktemp("runs")
    (place / "homes.csv").write_text(LINES)
    experiment(place, "done", keep_finished=True).run()
    experiment(place, "cut").run([_Stop()])
    return place


@pytest.fixture(scope="module")
def honest(runs: Path) -> list[object]:
    """All that the finished run says of itself, undamaged."""
    return _everything(runs / "done", runs / "homes.csv")


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def _everything(run: Path, data: Path) -> list[object]:
    """Return all that the readers of a finished run make of it."""
    folder = RunFolder.open(run)
    found, model = folder.run, TrainedModel.load(run)
    checkpoint = CheckpointStore(run).load()
    assert checkpoint.passed_over == (), checkpoint.passed_over
    return [
        found.steps,
        found.arrivals,
        found.evaluations,
        found.x.tobytes(),
        folder.summary,
        folder.tables,
        folder.encoding.to_json(),
        repr(model.predict(str(data))),
        replay(run).table.tolist(),
        Recorded.from_file(str(run / "arrivals.jsonl")).table.tolist(),
        checkpoint.step,
        repr(checkpoint.state),
        dict(checkpoint.facts),
        dict(checkpoint.records),
    ]


@pytest.mark.slow
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_one_changed_bit_is_noticed_or_changes_nothing(
    runs: Path, honest: list[object], tmp_path: Path, data: st.DataObject
) -> None:
    run = tmp_path / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(runs / "done", run)
    path = data.draw(st.sampled_from(sorted(path for path in run.rglob("*") if path.is_file())))
    flip(path, data.draw(st.integers(0, 8 * path.stat().st_size - 1)))
    try:
        found = _everything(run, runs / "homes.csv")
    except (DataError, AssertionError) as error:
        assert path.name in str(error)  # noqa: PT017
    else:
        assert found == honest


READERS: dict[str, Callable[[Path, Path], object]] = {
    "predict": lambda run, data: TrainedModel.load(run).predict(str(data)),
    "evaluate": lambda run, data: TrainedModel.load(run).evaluate(str(data)),
    "resume": lambda run, data: Experiment.resume(run).run(),
}


@pytest.mark.parametrize(
    ("name", "readers"),
    [
        ("model.safetensors", ("predict", "evaluate")),
        ("encoding.json", ("predict", "evaluate", "resume")),
        ("config.toml", ("predict", "evaluate", "resume")),
        ("checksums.json", ("predict", "evaluate", "resume")),
        ("steps.jsonl", ("resume",)),
        ("arrivals.jsonl", ("resume",)),
    ],
)
@pytest.mark.parametrize("how", ["cut", "a digit"])
def test_damage_is_named_by_each_that_reads_it(
    runs: Path, tmp_path: Path, name: str, readers: tuple[str, ...], how: str
) -> None:
    for reader in readers:
        run = tmp_path / reader
        shutil.copytree(runs / "cut", run)
        content = (run / name).read_bytes()
        if how == "cut":
            (run / name).write_bytes(content[: len(content) // 3])
        else:
            place = len(content) // 3
            while not content[place : place + 1].isdigit():
                place += 1
            flip(run / name, 8 * place)
        with pytest.raises((DataError, InvalidArgument)) as caught:
            READERS[reader](run, runs / "homes.csv")
        assert name in str(caught.value) or (name == "config.toml" and " was " in str(caught.value))


@pytest.mark.slow
def test_a_damaged_summary_does_not_keep_a_run_from_going_on(runs: Path, tmp_path: Path) -> None:
    whole = Experiment.resume(shutil.copytree(runs / "cut", tmp_path / "whole")).run()
    for number, content in enumerate((b"", b"{", b"[]", b"\xff\xfe", b'{"status":"finished","steps":4}')):
        run = shutil.copytree(runs / "cut", tmp_path / str(number))
        (run / "summary.json").write_bytes(content)
        with pytest.raises(DataError, match=r"summary\.json"):
            _ = RunFolder.open(run).summary
        notices = _Notices()
        assert Experiment.resume(run).run([notices]).x.tobytes() == whole.x.tobytes()
        assert any("summary.json" in said for said in notices.said)
        assert RunFolder.open(run).summary["status"] == "finished"


def test_an_encoding_that_was_removed_is_written_anew(runs: Path, tmp_path: Path) -> None:
    run = shutil.copytree(runs / "cut", tmp_path / "run")
    before = (run / "encoding.json").read_bytes()
    (run / "encoding.json").unlink()
    Experiment.resume(run).run()
    assert (run / "encoding.json").read_bytes() == before
    assert TrainedModel.load(run).predict(str(runs / "homes.csv")).values


def test_rows_of_the_last_checkpoint_that_are_damaged_are_taken_again(runs: Path, tmp_path: Path) -> None:
    whole = Experiment.resume(shutil.copytree(runs / "cut", tmp_path / "whole")).run()
    run = shutil.copytree(runs / "cut", tmp_path / "run")
    flip(run / "arrivals.jsonl", 8 * (CheckpointStore(run).load().records["arrivals.jsonl"] - 60))
    notices = _Notices()
    assert Experiment.resume(run).run([notices]).x.tobytes() == whole.x.tobytes()
    assert any("arrivals.jsonl is damaged" in said for said in notices.said)
    assert (run / "arrivals.jsonl").read_bytes() == (tmp_path / "whole" / "arrivals.jsonl").read_bytes()


def test_a_folder_of_an_earlier_format_is_refused(runs: Path, tmp_path: Path) -> None:
    run = shutil.copytree(runs / "cut", tmp_path / "run")
    sums = run / "checksums.json"
    sums.write_text(sums.read_text().replace('"version":2', '"version":1', 1))
    for act in READERS.values():
        with pytest.raises(DataError, match=r"version 1 of the format, .* reads 2; go on with the version that"):
            act(run, runs / "homes.csv")


def test_a_folder_without_checksums_is_of_an_earlier_version(runs: Path, tmp_path: Path) -> None:
    run = shutil.copytree(runs / "cut", tmp_path / "run")
    (run / "checksums.json").unlink()
    for act in READERS.values():
        with pytest.raises(DataError, match=r"There is no checksums\.json in .* use it with the version that wrote it"):
            act(run, runs / "homes.csv")

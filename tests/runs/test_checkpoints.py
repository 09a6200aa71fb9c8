"""The store of checkpoints: what was saved comes back, or an older one does, or a sentence; never anything else."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from erasurehead._internal.storage.checksums import Checksum
from erasurehead._internal.storage.folders import Folder
from erasurehead.errors import DataError, InvalidArgument
from erasurehead.runs._checkpoints.manifests import read_manifest
from erasurehead.runs._checkpoints.store import CheckpointStore

FACTS = {"code": "a code", "resumed": [3]}


def make(run: Path, keep: int = 2) -> CheckpointStore:
    run.mkdir(exist_ok=True)
    (run / "rows").write_text('{"n":1}\n{"n":2}\n')
    return CheckpointStore(run, keep)


def state_of(step: int, **more: Any) -> dict[str, Any]:
    return {"step": step, "x": np.full(4, step / 7), "time": step * 0.1, "rest": [None, True, "text", 1 << 70], **more}


def files(run: Path) -> set[str]:
    return {path.name for path in (run / "checkpoints").iterdir()}


def fill(run: Path, steps: int = 3) -> CheckpointStore:
    store = make(run)
    for step in range(1, steps + 1):
        store.save(step, state_of(step), {"rows": 8 * min(step, 2)}, FACTS)
    return store


def check(state: Mapping[str, Any], step: int) -> None:
    expected = state_of(step)
    assert list(state) == list(expected)
    assert state["x"].tobytes() == expected["x"].tobytes()
    assert {**state, "x": 0} == {**expected, "x": 0}


def test_what_was_saved_comes_back(tmp_path: Path) -> None:
    store = fill(tmp_path / "run")
    assert store.step == 3
    found = CheckpointStore(tmp_path / "run").load()
    check(found.state, 3)
    assert (found.step, found.records, found.facts, found.passed_over) == (3, {"rows": 16}, FACTS, ())


def test_the_newest_are_kept_and_nothing_else(tmp_path: Path) -> None:
    fill(tmp_path / "run", 9)
    names = files(tmp_path / "run")
    assert {name for name in names if name.endswith(".json")} == {"step-0000008.json", "step-0000009.json"}
    assert len(names) == 4


def test_an_array_is_written_once_however_often_it_is_saved(tmp_path: Path) -> None:
    store = make(tmp_path / "run")
    models = [np.random.default_rng(step).standard_normal(50_000) for step in range(30)]
    for step in range(30):
        flying = [[number, models[number]] for number in range(max(0, step - 9), step + 1)]
        store.save(step, {"points": flying, "again": models[step]}, {}, FACTS)
    sizes = [path.stat().st_size for path in (tmp_path / "run" / "checkpoints").iterdir()]
    assert sum(sizes) < 12 * models[0].nbytes
    found = CheckpointStore(tmp_path / "run").load().state
    assert found["again"] is found["points"][-1][1]
    assert all(array.tobytes() == models[number].tobytes() for number, array in found["points"])


@pytest.mark.slow
@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(0, 40), max_size=12), min_size=1, max_size=40), st.integers(1, 3))
def test_disk_use_is_bounded_by_what_is_kept(
    tmp_path_factory: pytest.TempPathFactory, held: list[list[int]], keep: int
) -> None:
    run = tmp_path_factory.mktemp("store") / "run"
    store = make(run, keep)
    arrays: dict[int, np.ndarray[Any, Any]] = {}
    for step, numbers in enumerate(held):
        arrays = {number: arrays[number] if number in arrays else np.full(1000, number) for number in numbers}
        store.save(step, {str(number): array for number, array in arrays.items()}, {}, FACTS)
        needed = [sum(8000 for _ in set(numbers)) for numbers in held[max(0, step + 1 - keep) : step + 1]]
        used = sum(path.stat().st_size for path in run.rglob("*.safetensors"))
        assert used <= 2 * sum(needed) + 2000 * len(files(run))
    found = CheckpointStore(run).load().state
    assert {int(number): int(array[0]) for number, array in found.items()} == {number: number for number in held[-1]}
    shutil.rmtree(run)


@pytest.mark.slow
def test_many_small_arrays_end_up_in_few_files(tmp_path: Path) -> None:
    store = make(tmp_path / "run", keep=1)
    kept: list[Any] = []
    for step in range(300):
        kept.append(np.full(3, float(step)))
        store.save(step, {"kept": list(kept)}, {}, FACTS)
        assert len(files(tmp_path / "run")) < 40
    found = CheckpointStore(tmp_path / "run").load().state["kept"]
    assert [array[0] for array in found] == list(range(300))


def test_what_was_read_is_not_written_again(tmp_path: Path) -> None:
    fill(tmp_path / "run")
    store = CheckpointStore(tmp_path / "run")
    state = {**store.load().state, "step": 4}
    before = {name for name in files(tmp_path / "run") if name.startswith("tensors")}
    store.save(4, state, {"rows": 16}, FACTS)
    assert {name for name in files(tmp_path / "run") if name.startswith("tensors")} <= before
    assert CheckpointStore(tmp_path / "run").load().state["x"].tobytes() == state_of(3)["x"].tobytes()


def test_numbers_are_not_mixed_up_when_an_older_one_is_gone_on_from(tmp_path: Path) -> None:
    fill(tmp_path / "run")
    path = tmp_path / "run" / "checkpoints" / "step-0000003.json"
    path.write_bytes(path.read_bytes()[:-9])
    store = CheckpointStore(tmp_path / "run")
    found = store.load()
    check(found.state, 2)
    assert "step-0000003.json is damaged" in found.passed_over[0]
    store.save(3, state_of(3, again=found.state["x"]), {"rows": 16}, FACTS)
    again = CheckpointStore(tmp_path / "run").load()
    assert again.passed_over == ()
    assert again.state["again"].tobytes() == state_of(2)["x"].tobytes()
    assert len(files(tmp_path / "run")) == 4


def test_what_was_passed_over_is_removed_before_the_records_go_on(tmp_path: Path) -> None:
    fill(tmp_path / "run")
    (tmp_path / "run" / "rows").write_text('{"n":1}\n')
    written = Checksum.of(b'{"n":1}\n').as_plain()
    forged(tmp_path / "run", put("checkpoint", "records", {"rows": written}), step=2)
    store = CheckpointStore(tmp_path / "run")
    assert store.load().step == 2
    store.tidy()
    (tmp_path / "run" / "rows").write_text('{"n":1}\n{"n":5}\n')  # of the same length, and of another run
    assert CheckpointStore(tmp_path / "run").load().step == 2


def test_records_that_are_too_short_are_no_basis(tmp_path: Path) -> None:
    fill(tmp_path / "run")
    (tmp_path / "run" / "rows").write_text('{"n":1}\n')
    with pytest.raises(DataError, match=r"No checkpoint .* can be used\. .*rows has 8 bytes, where"):
        CheckpointStore(tmp_path / "run").load()


def test_where_there_is_none_that_is_said(tmp_path: Path) -> None:
    for asked in (CheckpointStore.load, CheckpointStore.newest):
        with pytest.raises(DataError, match="There is no checkpoint in"):
            asked(make(tmp_path / "run"))
    CheckpointStore(tmp_path / "run").clear()
    fill(tmp_path / "run").clear()
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_what_is_no_plain_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="a state must consist of"):
        make(tmp_path / "run").save(1, state_of(1, bad=print), {}, FACTS)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidArgument, match=r"an array of a state must be of bool, .*complex128"):
        make(tmp_path / "run").save(1, {"z": np.zeros(3, dtype=complex)}, {}, FACTS)
    with pytest.raises(InvalidArgument, match="keep must be at least 1"):
        make(tmp_path / "run", keep=0)


# --- damage ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("whole") / "run"
    fill(run)
    return run


def loaded_or_refused(run: Path) -> int | None:
    """Return the step of the checkpoint that is found to be good, whose state must then be right; None if none is."""
    try:
        found = CheckpointStore(run).load()
    except DataError:
        return None
    check(found.state, found.step)
    assert len(found.passed_over) == 3 - found.step
    return found.step


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damage_is_noticed_whatever_it_is(whole: Path, tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    run = tmp_path_factory.mktemp("damaged") / "run"
    shutil.copytree(whole, run)
    path = data.draw(st.sampled_from(sorted((run / "checkpoints").iterdir())))
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans(), label="cut"):
        path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    else:
        bit = data.draw(st.integers(0, 8 * len(content) - 1))
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
    assert loaded_or_refused(run) in (2, 3)
    shutil.rmtree(run)


JSON = st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda value: json.dumps(value).encode())


@given(st.binary(max_size=60) | JSON)
def test_a_manifest_that_is_something_else_is_a_sentence(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "step-0000001.json").write_bytes(data)
    with (
        Folder.open(folder) as opened,
        pytest.raises(DataError, match="is damaged, or is not a checkpoint of erasurehead"),
    ):
        read_manifest(opened, "step-0000001.json")


def forged(run: Path, change: Any, step: int = 3) -> None:
    """Change what a manifest says, and give it the checksum of what it then says."""
    path = run / "checkpoints" / f"step-{step:07d}.json"
    document = json.loads(path.read_text())
    change(document)
    body = json.dumps(document["checkpoint"], separators=(",", ":"))
    document["sha256"] = hashlib.sha256(body.encode()).hexdigest()
    path.write_text(json.dumps(document))


def put(*path: Any) -> Any:
    *keys, last, value = path

    def change(document: Any) -> None:
        place = document
        for key in keys:
            place = place[key]
        place[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put("version", 1), "has version 1 of the format, of which this version of erasurehead reads 16"),
        (put("format", "pickle"), "its format is 'pickle'"),
        (put("checkpoint", "step", 4), "it is that of step 4"),
        (put("checkpoint", "step", -1), "step must be a whole number of at least 0"),
        (
            put("checkpoint", "files", {"../../passwd": {"bytes": 0, "sha256": "", "tensors": {}}}),
            "no checkpoint has a file '../../passwd'",
        ),
        (
            put("checkpoint", "records", {"/etc/passwd": [5, "0" * 64]}),
            "'/etc/passwd' is not the name of a rows file",
        ),
        (put("checkpoint", "records", {"passwd": [5, "0" * 64]}), "passwd cannot be read: No such file"),
        (
            put("checkpoint", "records", {"rows": [17, "0" * 64]}),
            "rows has 16 bytes, where the checkpoint says that 17",
        ),
        (put("checkpoint", "records", {"rows": [9, "0" * 64]}), "no line ends at byte 9"),
        (put("checkpoint", "records", {"rows": [16, "0" * 64]}), "rows is damaged: its first 16 bytes are not those"),
        (put("checkpoint", "records", {"rows": [16, "0" * 63]}), "no checksum"),
        (put("checkpoint", "records", {"rows": 16}), "(an entry is not what it should be)"),
        (put("checkpoint", "records", True), "records must be an object with keys"),
        (
            put(
                "checkpoint", "files", {"tensors-0.safetensors": {"bytes": 0, "sha256": "", "tensors": {"0": ["<f8"]}}}
            ),
            "(an entry is not what it should be)",
        ),
        (put("checkpoint", "state", {"x": {"$tensor": 99}}), "there is no tensor 99"),
        (put("checkpoint", "state", {"x": {"$tensor": [1]}}), "holds no state"),
        (put("checkpoint", "state", {"x": {"$float": "__import__"}}), "holds no state"),
        (put("checkpoint", "state", [1, 2]), "holds no state"),
        (put("checkpoint", "next_file", "7"), "next_file must be a whole number"),
        (lambda document: document["checkpoint"].pop("facts"), "facts is missing"),
    ],
)
def test_a_forged_manifest_is_passed_over(tmp_path: Path, change: Any, said: str) -> None:
    fill(tmp_path / "run")
    forged(tmp_path / "run", change)
    found = CheckpointStore(tmp_path / "run").load()
    check(found.state, 2)
    assert said in found.passed_over[0]


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("tensors", {}),
        ("tensors", {"2": ["float64", [5]]}),
        ("tensors", {"2": ["object", [4]]}),
        ("tensors", {"2": ["float64", [-4]]}),
        ("bytes", 1 << 50),
        ("sha256", "0" * 64),
    ],
)
def test_tensors_that_are_not_those_that_were_written_are_refused(tmp_path: Path, entry: str, value: object) -> None:
    fill(tmp_path / "run")
    with Folder.open(tmp_path / "run" / "checkpoints") as folder:
        (name,) = read_manifest(folder, "step-0000003.json").files
    forged(tmp_path / "run", put("checkpoint", "files", name, entry, value))
    assert CheckpointStore(tmp_path / "run").load().step == 2


def test_what_is_nested_too_deeply_is_passed_over(tmp_path: Path) -> None:
    fill(tmp_path / "run", 1)
    path = tmp_path / "run" / "checkpoints" / "step-0000001.json"
    path.write_text("[" * 100_000)
    assert loaded_or_refused(tmp_path / "run") is None

"""Figures for Prometheus: what they say, in a text that its rules allow and a strict parser reads back."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from erasurehead.runs import RunFolder
from erasurehead.watch._metrics import exposition

from .conftest import trained
from .test_runs import seen
from .test_server import ask, served

NAME, LABEL = r"[a-zA-Z_:][a-zA-Z0-9_:]*", r"[a-zA-Z_][a-zA-Z0-9_]*"
PAIR = re.compile(rf'({LABEL})="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(?:,|$)')
SAMPLE = re.compile(rf"({NAME})\{{(.*)\}} (\S+)")
UNESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

Labels = frozenset[tuple[str, str]]


def parsed(text: str) -> dict[str, dict[Labels, float]]:
    """Return the values by name and labels; raise where the format, 0.0.4, is not kept to."""
    assert text.endswith("\n")
    found: dict[str, dict[Labels, float]] = {}
    helped: list[str] = []
    typed: dict[str, str] = {}
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name = line.split(" ")[2]
            assert name not in helped
            helped.append(name)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == helped[-1]
            assert name not in typed
            assert kind in ("gauge", "counter")
            assert name.endswith("_total") == (kind == "counter")
            typed[name] = kind
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            name, inside, value = sample.groups()
            assert name == [*typed][-1], "samples of one name stand together, after its type"
            pairs, end = [], 0
            while end < len(inside):
                pair = PAIR.match(inside, end)
                assert pair, line
                pairs.append((pair[1], re.sub(r'\\[\\"n]', lambda one: UNESCAPED[one[0]], pair[2])))
                end = pair.end()
            assert len({label for label, _ in pairs}) == len(pairs)
            assert re.fullmatch(r"[+-]?Inf|NaN|[+-]?[0-9.]+(E[+-]?[0-9]+)?", value)
            assert frozenset(pairs) not in found.setdefault(name, {})
            found[name][frozenset(pairs)] = float(value)
    assert helped == [*typed] == [*found]
    return found


def labels(**given: str) -> Labels:
    return frozenset(given.items())


def test_a_run_that_is_over(run_folder: Path) -> None:
    run = RunFolder.open(run_folder).run
    found, last = parsed(seen(run_folder).metrics()), run.steps[-1]
    own = labels(run="run")
    expected = {
        "live": 0.0,
        "steps": 30.0,
        "seconds": last.end,
        "loss": last.loss,
        "wait_seconds": last.waited,
        "residual": last.residual,
        "received_bytes_total": sum(row.received for row in run.steps),
    }
    for name, value in expected.items():
        assert found[f"erasurehead_{name}"] == {own: pytest.approx(value, rel=1e-12)}
    auc = run.evaluations[-1].metrics["auc"]
    assert found["erasurehead_metric"][labels(run="run", metric="auc")] == auc
    states = {name: found["erasurehead_workers"][labels(run="run", state=name)] for name in ("late", "waiting", "dead")}
    assert states == {"late": len(last.missing), "waiting": 12 - len(last.missing) - len(last.dead), "dead": 0}
    assert sum(found["erasurehead_workers"].values()) == 12


def test_a_run_in_progress(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = RunFolder.open(run_folder).step_rows()
    (run_folder / ".lock").write_text("")
    monkeypatch.setattr("erasurehead.watch._runs.is_locked", lambda path: True)

    def states(waiting: Any) -> str:
        (run_folder / "waiting.json").write_text(waiting if isinstance(waiting, str) else json.dumps(waiting))
        watch = seen(run_folder)
        assert parsed(watch.metrics())["erasurehead_live"] == {labels(run="run"): 1.0}
        return str(watch.about()["runs"][0]["states"])

    late = [worker in rows[-1].missing for worker in range(12)]
    idle = "".join("l" if one else "w" for one in late)
    waiting = {"step": 30, "waited": 0.0, "missing": [0, 5, 11]}
    asked = ["-lw"[(worker in (0, 5, 11)) * (2 - late[worker])] for worker in range(12)]
    assert states(waiting) == "".join(asked)
    assert states({**waiting, "waited": 1e6}) == "".join("l" if worker in (0, 5, 11) else "-" for worker in range(12))
    assert states({**waiting, "missing": [0, 500]})[0] in "lw"
    strange = (
        "",
        "{",
        "[]",
        "3",
        {**waiting, "step": 29},
        {**waiting, "missing": ["x"]},
        {**waiting, "missing": -1},
    )
    for other in strange:
        assert states(other) == idle
    with (run_folder / "steps.jsonl").open("a", encoding="utf-8") as file:
        row = rows[-1].as_dict() | {"step": 30, "dead": [4], "missing": []}
        notices = [
            {"kind": "suspected", "worker": 7},
            {"kind": "lied", "worker": 8},
            {"kind": "lied", "worker": 900},
        ]
        file.write(json.dumps(row | {"notices": notices, "events": []}) + "\n")
    assert states("") == "wwwwxwwsawww"
    found = parsed(seen(run_folder).metrics())["erasurehead_workers"]
    assert {dict(one)["state"]: count for one, count in found.items()} == {
        "working": 9,
        "waiting": 0,
        "late": 0,
        "suspected": 1,
        "put aside": 1,
        "dead": 1,
    }


def test_a_comparison_has_a_sample_for_each_run(tmp_path: Path) -> None:
    for name in ("one", 'two "2"'):
        trained(tmp_path / name, steps=3)
    found = parsed(seen(tmp_path).metrics())
    assert found["erasurehead_steps"] == {labels(run="one"): 3.0, labels(run='two "2"'): 3.0}


def test_peers(tmp_path: Path) -> None:
    out = RunFolder.create(tmp_path / "run").path
    rows = [{"peer": peer, "begin": t, "ready": t + 0.5, "end": t + 1.0} for t in range(4) for peer in (0, 1)]
    (out / "peers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    means = {"time": 4.0, "objective": 0.25, "distance": 0.1, "metrics": {"auc": 0.9, 'hostile\n"': 1.0}}
    (out / "means.jsonl").write_text(json.dumps(means) + "\n")
    (out / "view_changes.jsonl").write_text('{"time":1.0,"gone":[1, 70]}\n')
    found = parsed(seen(out).metrics())
    own = labels(run="run")
    assert (found["erasurehead_loss"], found["erasurehead_wait_seconds"]) == ({own: 0.25}, {own: 0.5})
    assert found["erasurehead_metric"][labels(run="run", metric='hostile\n"')] == 1.0
    assert found["erasurehead_workers"][labels(run="run", state="dead")] == 1.0
    assert "erasurehead_received_bytes_total" not in found


def test_a_team(team_record: Path) -> None:
    found = parsed(seen(team_record).metrics())
    assert [*found] == [f"erasurehead_{name}" for name in ("live", "steps", "seconds", "wait_seconds", "workers")]


def test_a_run_without_steps(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run")
    found = parsed(seen(tmp_path / "run").metrics())
    assert found["erasurehead_steps"] == {labels(run="run"): 0.0}


@pytest.mark.parametrize("name", ["a\\b", 'a"b', "a\nb", "a},x{y", "größe 😀", "# TYPE x gauge"])
def test_labels_are_escaped(name: str) -> None:
    assert parsed(exposition([("loss", {"run": name}, 1.5)])) == {"erasurehead_loss": {labels(run=name): 1.5}}


def test_names_that_are_not_utf8_can_be_sent() -> None:
    assert exposition([("loss", {"run": "a\udcff"}, 1.0)]).encode().endswith(b'{run="a\\\\xff"} 1.0\n')


@pytest.mark.parametrize("value", [0.0, 1e300, -1e-300, 1 / 3, math.inf, -math.inf, 2.0**53, 123456789.0])
def test_values_are_exact(value: float) -> None:
    assert parsed(exposition([("loss", {}, value)])) == {"erasurehead_loss": {labels(): value}}


def test_the_server_asks_for_its_token(run_folder: Path) -> None:
    with served(run_folder) as (watch, _, port, path):
        answer = ask(port, f"{path}metrics")
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert parsed(answer.read().decode()) == parsed(watch.metrics())
        assert ask(port, "/metrics").status == 404
        assert ask(port, f"{path}metrics", host="evil.example").status == 421
        shutil.rmtree(run_folder)
        watch.read()
        assert ask(port, f"{path}metrics").status == 200

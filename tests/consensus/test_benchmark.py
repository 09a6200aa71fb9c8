"""The benchmark of consensus, as far as it takes seconds: what it is to reach is reached, and times are kept."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        spec = importlib.util.spec_from_file_location("consensus_benchmark", BENCHMARKS / "consensus.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["consensus_benchmark"] = module  # its workers look it up
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(BENCHMARKS))
    return module


@pytest.mark.slow
def test_what_it_is_to_reach_is_reached(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    benchmark.main(["--quick", "--jobs", "0"])
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["benchmark"] == "consensus quick"
    assert len(told["targets"]) == 4
    for key, target in told["targets"].items():
        assert benchmark.verdict(told["ratios"][key], target) == "met", key


def test_times_that_are_kept_are_not_measured_again(
    benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, setting = tmp_path / "times.jsonl", ("ring(6)", "none", "even()", "carry")
    times = [(1.0, 2.0), (1.5, float("inf"))]
    benchmark.Kept(str(place), 2).add(setting, "full()", times)
    assert benchmark.Kept(str(place), 2).found == {(setting, "full()"): times}
    assert benchmark.Kept(str(place), 3).found == {}
    here = benchmark.commit()
    monkeypatch.setattr(benchmark, "commit", lambda: "another")
    assert benchmark.Kept(str(place), 2).found == {}
    assert benchmark.Kept(str(place), 2, [here]).commits == {here: 1}

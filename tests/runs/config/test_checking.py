"""Keys and values of run files: what is allowed passes, and what is not is said with the key and what would do."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from erasurehead.errors import InvalidArgument
from erasurehead.runs._config import Config, merged, overridden, read_tables, to_toml
from erasurehead.runs._config.checking import build_config
from erasurehead.runs._config.resolving import resolve


def test_an_empty_file_has_the_settings_of_the_published_runs() -> None:
    config = resolve(build_config({"optimizer": {"name": "nesterov"}})).config
    assert config.data.source == "amazon"
    assert (config.run.workers, config.run.steps) == (30, 100)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"run": {"step": 3}}, r"There is no key 'step' in \[run\]; did you mean 'steps'\? .*engine, workers, steps"),
        ({"data": {"label": "y"}}, r"no key 'label' in \[data\]; did you mean 'target' in \[data\]\? The keys"),
        ({"data": {"task": "softmax"}}, r"no key 'task' in \[data\]; did you mean 'loss' in \[problem\]\? The keys of"),
        ({"faults": {"lost": "stop"}}, r"no key 'lost' in \[faults\]; did you mean 'on_loss' in \[faults\]\? The"),
        (
            {"faults": {"suspected": "ignore"}},
            r"no key 'suspected' in .*; did you mean 'on_suspicion' in \[faults\]\? The",
        ),
        ({"run": {"l2": 0.1}}, r"There is no key 'l2' in \[run\]; did you mean 'l2' in \[problem\]\? The keys of"),
        ({"data": {"scheme": "exact()"}}, r"in \[data\]; did you mean 'scheme' before all sections\? The keys of"),
        ({"run": {"rate": 1}}, r"in \[run\]; did you mean 'rate' in \[optimizer\]\? The keys of"),
        ({"data": {"problem": {"l2": 1}}}, r"There is no key 'problem' in \[data\]; did you mean \[problem\]\? The"),
        ({"data": {"header": "maybe"}}, r"data\.header must be 'yes' or 'no', but it is 'maybe'"),
        ({"run": {"colour": 3}}, r"There is no key 'colour' in \[run\]; the keys of \[run\] are engine"),
        ({"schemes": "exact"}, r"no key 'schemes' in the run file; did you mean 'scheme'\? .*scheme, data, problem"),
        ({"run": 3}, "run must be a section of keys, but it is 3"),
        ({"run": {"steps": "ten"}}, "run.steps must be a whole number, but it is 'ten'"),
        ({"run": {"steps": True}}, "run.steps must be a whole number, but it is True"),
        ({"run": {"steps": 0}}, "run.steps must be at least 1, but it is 0"),
        ({"run": {"workers": 0}}, "run.workers must be at least 1, but it is 0"),
        (
            {"run": {"engine": "spark"}},
            "run.engine must be 'processes', 'in_process', 'virtual', 'mpi' or 'ray', but it is 'spark'",
        ),
        ({"delays": {"late": "wait"}}, r"delays.late must be 'preempt' or 'carry' or 'drop\(R\)' with"),
        ({"optimizer": {"rate": [1]}}, r"optimizer.rate must be a number or a text, but it is \[1\]"),
        ({"optimizer": {"momentum": 1.0}}, "optimizer.momentum must be less than 1, but it is 1.0"),
        ({"data": {"one_hot": "town"}}, r"must be a list or 'all', but it is 'town'; write \[\"town\"\]\.$"),
        ({"data": {"drop": "town"}}, r"data\.drop must be a list, but it is 'town'; write \[\"town\"\]\.$"),
        ({"data": {"one_hot": 3}}, r"data.one_hot must be a list or 'all', but it is 3\.$"),
        ({"data": {"interactions": "town"}}, r"data.interactions must be a list, but it is 'town'\.$"),
        ({"data": {"test_fraction": 1}}, "data.test_fraction must be less than 1, but it is 1"),
        ({"problem": {"l2": -1}}, "problem.l2 must be at least 0 or 'tuned', but it is -1"),
        ({"problem": {"l2": float("nan")}}, "problem.l2 must be a finite number or 'tuned', but it is nan"),
        ({"problem": {"loss": "hinge"}}, "problem.loss must be one of logistic, least_squares, softmax, poisson"),
    ],
)
def test_what_is_wrong_is_said_with_the_key(tables: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said) as caught:
        build_config(tables)
    assert "\n" not in str(caught.value)


def test_a_frame_as_a_source_is_not_printed_as_a_whole() -> None:
    frame = pytest.importorskip("pandas").DataFrame({"a": range(40), "y": range(40)})
    with pytest.raises(
        InvalidArgument,
        match=r"^data\.source must be a text, but it is a DataFrame of shape \(40, 2\); write the frame to a file, or",
    ):
        build_config({"data": {"source": frame}})


def test_options_go_before_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(to_toml({"scheme": "uncoded", "run": {"steps": 7, "workers": 5}}))
    config = build_config(overridden(read_tables(path), {"run": {"steps": 9}}))
    assert (config.scheme, config.run.steps, config.run.workers) == ("uncoded", 9, 5)


def test_merging_changes_neither_side() -> None:
    below, above = {"a": {"b": 1}, "c": 2}, {"a": {"d": 3}, "c": {"e": 4}}
    assert merged(below, above) == {"a": {"b": 1, "d": 3}, "c": {"e": 4}}
    assert (below, above) == ({"a": {"b": 1}, "c": 2}, {"a": {"d": 3}, "c": {"e": 4}})


def test_a_configuration_survives_its_file() -> None:
    config = build_config(
        {
            "scheme": "custom(code='uncoded()', wait='first(3)')",
            "data": {"source": 'a "b" \\ c.csv', "one_hot": ["x", "y"], "interactions": [["x", "y"]]},
            "optimizer": {"rate": "geometric(0.1, 0.99)"},
            "problem": {"l2": 1e-5},
        }
    )
    assert build_config(tomllib.loads(to_toml(config.model_dump()))) == config


def test_a_configuration_does_not_change() -> None:
    section: Any = Config().run
    with pytest.raises(ValueError, match="frozen"):
        section.steps = 3


def test_another_engine_leaves_the_address_of_a_cluster_behind() -> None:
    file = {"run": {"engine": "ray", "address": "head:6379", "workers": 4}}
    assert overridden(file, {"run": {"engine": "processes"}}) == {"run": {"engine": "processes", "workers": 4}}
    assert overridden(file, {"run": {"workers": 5}})["run"]["address"] == "head:6379"
    assert overridden(file, {"run": {"engine": "ray"}})["run"]["address"] == "head:6379"
    contradictory = overridden(file, {"run": {"engine": "processes", "address": "auto"}})
    assert contradictory["run"]["address"] == "auto"  # so that it is refused
    assert overridden(file, {"run": 3}) == {"run": 3}
    assert file["run"]["address"] == "head:6379"

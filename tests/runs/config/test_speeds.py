"""`--speeds` and `[run] speeds`: tasks by the speed of each worker, from the command line and in run files."""

from __future__ import annotations

import pytest

from erasurehead.errors import InvalidArgument
from erasurehead.runs._config.checking import build_config
from erasurehead.runs._config.resolving import resolve, with_choices


def scheme(speeds: object, text: str | None = None, **run: object) -> tuple[str, int]:
    config = build_config(
        {"run": {"speeds": speeds, "engine": "virtual", **run}} | ({} if text is None else {"scheme": text})
    )
    resolved = resolve(config)
    assert resolved.config.run.speeds is None  # the scheme's text says it all
    assert resolve(resolved.config).config == resolved.config
    return resolved.config.scheme or "", resolved.config.run.workers


def test_speeds_choose_scheme_and_workers_unless_these_are_given() -> None:
    assert scheme("1,2, 4,4") == ("uncoded(speeds=[1, 2, 4, 4])", 4)
    assert scheme("1,2,4", "exact(load=2)") == ("exact(load=2, speeds=[1, 2, 4])", 3)
    assert scheme([1, 2.5, 4]) == ("uncoded(speeds=[1, 2.5, 4])", 3)  # as a run file may say it
    assert scheme("measured", "uncoded", workers=5) == ("uncoded(speeds='measured')", 5)


@pytest.mark.parametrize(
    ("speeds", "text", "said"),
    [
        ("1,0", None, r"run.speeds must be positive numbers with commas between them, or measured, .*such as 1,2,4,4"),
        ("1,inf", None, r"run.speeds must be positive numbers"),
        ("fast", None, r"run.speeds must be positive numbers"),
        ("", None, r"run.speeds must not be empty"),
        ("1,,2", None, r"run.speeds must be positive numbers"),
        ([1, "x"], None, r"run.speeds must be positive numbers"),
        (2, None, r"run.speeds must be a text"),
        ("1,2", "adaptive()", r"run.speeds must be for the scheme uncoded or exact.*'adaptive\(\)'"),
        ("1,2", "uncoded(speeds=[1, 2])", r"without speeds of its own.*leave out one of them"),
    ],
)
def test_what_they_cannot_be(speeds: object, text: str | None, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        scheme(speeds, text, workers=2)


def test_more_speeds_than_workers_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="one number for each of 2"):
        scheme("1,2,3", workers=2)


def test_data_that_are_computed_once_have_the_solver_with_nothing_to_set() -> None:
    config = with_choices(build_config({"scheme": "compute_once(load=2)", "run": {"workers": 4, "engine": "virtual"}}))
    assert (config.optimizer.name, config.run.steps) == ("quasi_newton", 5000)


def test_of_several_schemes_those_that_can_go_by_speed() -> None:
    config = build_config({"run": {"speeds": "1,2", "workers": 2, "engine": "virtual"}})
    assert with_choices(config, "adaptive()").scheme == "adaptive()"
    assert with_choices(config, "exact(load=2)").scheme == "exact(load=2, speeds=[1, 2])"

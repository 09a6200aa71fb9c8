"""Sizes that no machine has room for: refused in a sentence that names the argument."""

from __future__ import annotations

import inspect

import pytest

from erasurehead import planning, schemes
from erasurehead.codes import _bernoulli, _graph_codes, _registry as registry, _soft_designs
from erasurehead.delays import Exponential
from erasurehead.errors import DataError, InvalidArgument

SIZED = [
    (one.name, argument)
    for one in registry.FAMILIES
    for argument in ("n_workers", "n_tasks")
    if argument in inspect.signature(one.constructor).parameters and one.name not in {"refine", "heterogeneous_held"}
]
OTHERS = {
    "load": 2,
    "stragglers": 2,
    "corrupted": 1,
    "block": 2,
    "within": 0.5,
    "between": 0.5,
    "replication": 3,
    "straggling": 0.1,
    "density": 0.5,
    "n_pieces": 1,
}


@pytest.mark.parametrize(
    ("family", "own"),
    [
        ("cyclic_repetition", {"stragglers": 2}),
        ("exact_cyclic", {"stragglers": 2}),
        ("nested", {"stragglers": 2}),
        ("expander", {"load": 4}),
    ],
)
def test_codes_that_are_drawn_and_checked_say_at_once_for_how_many_workers(family: str, own: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument, match=r"n_workers must be at most 100000, but it is 1000000\."):
        registry.family(family).constructor(n_workers=10**6, **own)


@pytest.mark.parametrize("size", [10**8, 10**12, 10**30])
@pytest.mark.parametrize(("family", "argument"), SIZED)
def test_codes_refuse_more_than_ten_million(family: str, argument: str, size: int) -> None:
    constructor = registry.family(family).constructor
    needed = {
        name: OTHERS.get(name, 12)
        for name, spec in inspect.signature(constructor).parameters.items()
        if spec.default is spec.empty
    }
    if "probabilities" in needed:
        needed["probabilities"] = [0.1, 0.2, 0.3]
    with pytest.raises(InvalidArgument, match=f"{argument} must be at most (10000000|100000),"):
        constructor(**(needed | {argument: size}))


def test_schemes_and_plans_refuse_them() -> None:
    for call in (
        lambda: schemes.adaptive(10**12),
        lambda: schemes.erasurehead(10**30, load=3, wait_for=3),
        lambda: planning.plan(Exponential(mean=1.0), 10**12),
    ):
        with pytest.raises(InvalidArgument, match="n_workers must be at most 10000000"):
            call()


@pytest.mark.slow
def test_random_codes_say_how_much_memory_they_need() -> None:
    with pytest.raises(DataError, match="pairs of a worker and a task needs about"):
        _soft_designs.soft_design(5_000_000, load=6, density=0.5)
    with pytest.raises(DataError, match="pairs of a worker and a task needs about"):
        _bernoulli.stochastic_block(5_000_000, block=2, within=0.5, between=0.5)


def test_a_replication_beyond_the_workers_is_refused_at_once() -> None:
    with pytest.raises(InvalidArgument, match="replication must be at most 12"):
        _graph_codes.graph_code(12, replication=10**12)

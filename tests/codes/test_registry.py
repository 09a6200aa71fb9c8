"""The catalogue: every constructor has a full row, builds by name, and is what it says."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules

import numpy as np
import pytest

from erasurehead import codes
from erasurehead.codes import (
    _bernoulli,
    _communication_efficient,
    _expanders,
    _graph_codes,
    _heterogeneous,
    _registry,
    _several_messages,
)
from erasurehead.codes._families import Family
from erasurehead.errors import InvalidArgument

from .oracles import residuals

REGULAR = [2, 4, 5, 7, 6, 7, 1, 2, 0, 3, 1, 3, 0, 6, 4, 5]
BERNOULLI = [0, 2, 0, 1, 2, 4, 5, 1, 2, 3, 2, 4]
EDGES = [5, 4, 5, 1, 5, 2, 4, 3, 4, 2, 3, 0, 3, 1, 0, 1, 0, 2]
CYCLIC = [1.0, 0.880824505, 1.0, 1.090448093, 1.0, 1.149365429, 0.905831635, 1.0]

FAMILIES = pytest.mark.parametrize("family", codes.catalogue(), ids=lambda family: family.name)


def test_every_constructor_of_the_package_is_in_the_catalogue() -> None:
    files = [import_module(f"{codes.__name__}.{file.name}") for file in iter_modules(codes.__path__)]
    built = {
        name
        for file in files
        for name, member in vars(file).items()
        if inspect.isfunction(member)
        and member.__module__ == file.__name__
        and not name.startswith("_")
        and inspect.signature(member).return_annotation == "GradientCode"
    }
    of_other_codes = {"by_task", "resized", "shortened", "certified", "tolerated"}
    parts_of_constructors = {"build", "parse_code", "design_code", "one_message_code", "one_message_cyclic"}
    assert built - of_other_codes - parts_of_constructors == {family.name for family in codes.catalogue()}


@FAMILIES
def test_the_row_is_full(family: Family) -> None:
    row = json.loads(json.dumps(family.row()))
    for key in ("summary", "guarantee", "choose", "source"):
        assert len(row[key]) > 15, key
    assert row["summary"].endswith(".")
    assert list(row["arguments"]) == list(inspect.signature(family.constructor).parameters)
    assert all(len(text) > 5 for text in row["arguments"].values())
    assert row["decoder"]
    assert family.name in _registry.describe()
    page = " ".join(_registry.describe(family.name).split())  # long lines are wrapped
    assert all(text in page for text in (family.signature, family.summary, "Guarantees:", "Choose it:", "Source:"))


@FAMILIES
def test_the_example_is_built_again_from_its_name_and_parameters(family: Family) -> None:
    code = family.example_code
    parameters = json.loads(json.dumps(dict(code.parameters)))  # as they come back from a file
    again = codes.build(code.name, **parameters)
    assert (again.encoding != code.encoding).nnz == 0
    assert (again.owner == code.owner).all()
    assert again.tolerance == code.tolerance
    if family.name not in ("design_for", "exact_cyclic"):
        assert code.name == family.name


@FAMILIES
def test_the_example_is_what_its_status_says(family: Family) -> None:
    code = family.example_code
    if family.status == "exact":
        assert code.tolerance is not None
        assert code.tolerance > 0
    if family.status == "approximate":
        assert not code.tolerance
    if code.tolerance is not None:
        assert residuals(code, code.tolerance, at_most=50).max() < 1e-12 * code.n_tasks


@FAMILIES
def test_random_families_take_a_seed(family: Family) -> None:
    code = family.example_code
    if "seed" in code.parameters:
        parameter = inspect.signature(family.constructor).parameters["seed"]
        assert parameter.default == 0
        drawn = [codes.build(code.name, **{**code.parameters, "seed": seed}) for seed in (1, 1, 2)]
        assert (drawn[0].encoding != drawn[1].encoding).nnz == 0
        assert (drawn[0].encoding != drawn[2].encoding).nnz > 0 or code.name == "nested"


def test_the_same_numbers_on_every_machine() -> None:
    # Drawn once and written down: a change here changes published runs.
    assert _expanders.regular(8, 2, seed=0).encoding.indices.tolist() == REGULAR
    assert _bernoulli.bernoulli(6, 1.5, seed=1).encoding.indices.tolist() == BERNOULLI
    assert _graph_codes.graph_code(9, 3, seed=2).structure.edges.ravel().tolist() == EDGES
    assert np.asarray(codes.cyclic_repetition(4, 1, seed=3).encoding.data).round(9).tolist() == CYCLIC


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("cyclic_mdss", {}, "name must be a code of the catalogue, but it is 'cyclic_mdss'; the nearest is cyclic_mds"),
        ("xyz", {}, "there are uncoded, fractional_repetition"),
        ("uncoded", {}, r"uncoded needs n_workers: uncoded\(n_workers, n_tasks=None, speeds=None, pieces=None\)"),
        ("uncoded", {"workers": 3}, "uncoded has no parameter 'workers'; it has n_workers, n_tasks"),
        ("uncoded", {"n_workers": "3"}, "n_workers must be a number, but it is '3'"),
        ("uncoded", {"n_workers": True}, "n_workers must be a number, but it is True"),
        ("uncoded", {"n_workers": 3, "n_tasks": "x"}, "n_tasks must be a number, or be left out, but it is 'x'"),
        ("bernoulli", {"n_workers": 3, "load": 1, "nobody_idle": 1}, "nobody_idle must be true or false, but it is 1"),
        ("refine", {"code": "uncoded", "n_tasks": 3}, "code must be a code, or a mapping with the name and parameters"),
        ("refine", {"code": {"n_workers": 3}, "n_tasks": 3}, "code must be a code, or a mapping"),
        ("refine", {"code": {"name": "uncodde"}, "n_tasks": 3}, "the nearest is uncoded"),
    ],
)
def test_what_cannot_be_built(name: str, parameters: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        codes.build(name, **parameters)


def test_a_product_is_built_from_nested_names() -> None:
    plane = {"name": "projective_plane", "order": 2}
    code = codes.build("kronecker", first=plane, second={"name": "fractional_repetition", "n_workers": 2, "load": 2})
    assert (code.n_workers, code.load) == (14, 6)
    assert codes.build("kronecker", first=codes.uncoded(2), second=plane).n_workers == 14
    assert repr(code).startswith("kronecker(first=projective_plane(order=2), second=fractional_repetition(")


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: codes.uncoded(np.array([[1, 2]])), "n_workers"),
        (lambda: codes.fractional_repetition(6, load=2, sizes="x"), "sizes"),
        (lambda: codes.fractional_repetition(6, load=2, sizes=[2, 2, 1.5]), "sizes"),
        (lambda: _several_messages.partial_stragglers("x", slowness=2), "code"),
        (
            lambda: _several_messages.partial_stragglers(codes.fractional_repetition(6, load=2), slowness="x"),
            "slowness",
        ),
        (lambda: _communication_efficient.communication_efficient_groups(12, load=4, generator=[["a"]]), "generator"),
        (lambda: _graph_codes.edge_code([[0, 1], [1]]), "edges"),
        (lambda: _bernoulli.stochastic_block(30, block=5, within="x", between=0.04), "within"),
        (lambda: _heterogeneous.heterogeneous_staircase(["a"]), "probabilities"),
    ],
)
def test_what_is_of_another_type_is_named_by_its_argument(make: Callable[[], object], argument: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{argument} must be"):
        make()


def test_whole_numbers_may_be_floats_in_every_argument() -> None:
    code = _communication_efficient.communication_efficient_groups(12, load=4.0, n_pieces=np.float64(2.0))
    assert (
        code.encoding.shape
        == _communication_efficient.communication_efficient_groups(12, load=4, n_pieces=2).encoding.shape
    )

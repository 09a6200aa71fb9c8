"""Arguments and results keep their structure: empty containers, named tuples, ordered dicts, dataclasses."""

# ruff: noqa: E402

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="the decompiler needs JAX: pip install 'erasurehead[jax]'")
import jax.numpy as jnp

from erasurehead.decompile import DecompiledSource, decompile
from erasurehead.decompile._errors import Unsupported
from erasurehead.errors import InvalidArgument

pytestmark = pytest.mark.usefixtures("not_optimised")

V = np.arange(3, dtype=np.float32)
BACKENDS = ("jax", "numpy")


class Empty(NamedTuple):
    pass


class Moments(NamedTuple):
    mean: Any
    rest: Any


@partial(jax.tree_util.register_dataclass, data_fields=["w", "b"], meta_fields=["name"])
@dataclasses.dataclass(frozen=True)
class Layer:
    w: Any
    b: Any
    name: Any = "dense"


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (lambda x: (x, ()), (V,)),
        (lambda x: {"a": x, "b": {}, "c": [[], ((),), None]}, (V,)),
        (lambda x: (), (V,)),
        (lambda x: Moments(x, Empty()), (V,)),
        (lambda x: OrderedDict(b=x, a=()), (V,)),
        (lambda x: defaultdict(list, b=x, a=x + 1), (V,)),
        (lambda x, nothing, pair: (pair, nothing, x), (V, None, (None, ()))),
        (lambda state: Moments(state.mean * 2, state.rest), (Moments(V, Empty()),)),
        (lambda layer: Layer(layer.w * 2, (), "other"), (Layer(V, None),)),
        (lambda layers: {"last": layers[-1]}, ([Layer(V, V), (), OrderedDict(z=V, a=V)],)),
        (lambda a, b, c: (a * b, c), (2, np.float32(3), np.int8(4))),
        (lambda x: (x.sum(), jnp.sin(x), x @ x.T), (np.zeros((0, 3), np.float32),)),
    ],
)
def test_the_structure_is_that_of_the_function(function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    wanted = function(*arguments)
    for backend in BACKENDS:
        source = decompile(function, *arguments, backend=backend)
        result = source(*arguments)
        assert jax.tree.structure(result) == jax.tree.structure(wanted)
        assert all(map(np.array_equal, jax.tree.leaves(result), jax.tree.leaves(wanted)))


def test_a_network_with_empty_parameters_of_its_activations() -> None:
    def network(parameters: Any, x: Any) -> Any:
        (w, b), _, (v, c) = parameters
        return jnp.sum(jnp.maximum(x @ w + b, 0) @ v + c)

    parameters = [(np.ones((3, 2), "f4"), np.zeros(2, "f4")), (), (np.ones((2, 1), "f4"), np.zeros(1, "f4"))]
    for backend in BACKENDS:
        slopes = decompile(jax.grad(network), parameters, V, backend=backend)(parameters, V)
        assert jax.tree.structure(slopes) == jax.tree.structure(parameters)


def test_a_named_tuple_of_the_result_is_defined_in_the_text(tmp_path: Path) -> None:
    source = decompile(lambda x: Moments(x, Empty()), V, backend="numpy", check=False)
    assert 'Moments = namedtuple("Moments", ["mean", "rest"])' in source.text
    assert isinstance(source(V), Moments)
    again = DecompiledSource.load(source.save(tmp_path / "moments.py"))
    assert np.array_equal(again(V).mean, V)
    assert again.check(lambda x: Moments(x, Empty()), V, draws=1).passed
    edited = DecompiledSource(again.text.replace("rest=Empty()", "rest=[]"), again.name, "numpy")
    report = edited.check(lambda x: Moments(x, Empty()), V, draws=1)
    assert "the result should be (*, ()), but is (*, [])" in str(report)


@pytest.mark.parametrize(
    ("function", "argument", "said"),
    [
        (
            lambda x: {frozenset([1]): x},
            V,
            "must have dicts with keys, and classes with other fields, that are strings",
        ),
        (lambda layer: layer, Layer(V, V, jnp.tanh), "must have dicts with keys, and classes with other fields, that"),
        (lambda x: Layer(x, x), V, "the result is of a class that the source cannot import"),
        (lambda x: defaultdict(lambda: 0, a=x), V, "the result is of a class that the source cannot import"),
    ],
)
def test_what_has_no_source_is_refused(function: Callable[..., Any], argument: Any, said: str) -> None:
    with pytest.raises((InvalidArgument, Unsupported), match=said):
        decompile(function, argument, check=False)

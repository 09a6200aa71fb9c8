"""What cannot be decompiled is refused with a sentence that names it and the line of the user's."""

# ruff: noqa: E402

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="the decompiler needs JAX: pip install 'erasurehead[jax]'")
import jax.numpy as jnp

from erasurehead.decompile import decompile
from erasurehead.decompile._errors import Unsupported
from erasurehead.errors import InvalidArgument

from ..bounded import PATIENCE

V = np.arange(3, dtype=np.float32)
_counter = itertools.count()


def printing(x: Any) -> Any:
    jax.debug.print("x is {}", x)
    return x * 2


def changing(x: Any) -> Any:
    return x * float(next(_counter))


def calling(x: Any) -> Any:
    return jax.pure_callback(lambda a: np.asarray(a), jax.ShapeDtypeStruct((3,), jnp.float32), x)


def foreign(x: Any) -> Any:
    from jax.extend.core import Primitive

    primitive = Primitive("of_a_library")
    primitive.def_abstract_eval(lambda aval: aval)
    return primitive.bind(x)


def mutable(x: Any) -> Any:
    ref = jax.new_ref(x)
    ref[0] = 1.0
    return ref[...]


def uniform(x: Any) -> Any:
    return jax.lax.rng_uniform(jnp.float32(0), jnp.float32(1), (3,)) + x


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (
            printing,
            r"debug_print cannot be decompiled to jax: it is an effect.*test_bad_input.py, line \d+, in printing",
        ),
        (changing, "two traces of it differ"),
        (calling, r"pure_callback .* calls back into Python .*line \d+, in calling"),
        (foreign, r"of_a_library cannot be decompiled to jax: there is no rule .*line \d+, in foreign"),
        (mutable, "mutable reference"),
        (uniform, "hidden state"),
        (lambda x: x[x > 0], "JAX cannot trace it .*depend on the data"),
        (lambda x: x if x[0] > 0 else -x, "JAX cannot trace it"),
        (lambda x: x @ jnp.ones((4, 2)), "JAX cannot trace .* with these examples: TypeError"),
    ],
)
def test_refused_with_a_reason(function: Callable[..., Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        decompile(function, V, check=False)


def test_effects_are_kept_as_comments_on_wish() -> None:
    source = decompile(printing, V, effects="comment", check=False)
    assert "# debug_print: 'x is {}'" in source.text
    assert np.array_equal(source(V), V * 2)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: decompile(jnp.sin, V, backend="torch"), "backend must be 'jax' or 'numpy', but it is 'torch'"),
        (lambda: decompile(jnp.sin, V, effects="drop"), "effects must be 'error' or 'comment'"),
        (lambda: decompile(3, V), "function must be a function"),  # type: ignore[arg-type]
        (lambda: decompile(lambda x, y: x, V), "do not fit the function: missing a required argument: 'y'"),
        (lambda: decompile(lambda x, mode: x, V, "fast"), "mode must be an array or a number, but it is 'fast'"),
        (lambda: decompile(lambda x: x, np.array(["a"])), "x must be of a dtype that JAX knows"),
        (lambda: decompile(lambda x: x, np.array([None])), "x must be of a dtype that JAX knows"),
    ],
)
def test_bad_arguments(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        call()


def test_closures_over_huge_arrays_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("erasurehead.decompile._trace.LARGEST_CONSTANTS", 1000)
    table = np.ones((30, 30), np.float32)
    with pytest.raises(InvalidArgument, match=r"closes over arrays of .* pass them as arguments"):
        decompile(lambda x: x * table[0, 0] + jnp.asarray(table).sum(), V)


def test_a_result_of_a_class_that_the_source_cannot_know_is_refused() -> None:
    class Own:
        def __init__(self, a: Any) -> None:
            self.a = a

    jax.tree_util.register_pytree_node(Own, lambda own: ((own.a,), None), lambda _, parts: Own(*parts))
    with pytest.raises(Unsupported, match=r"Own .* of a class that the source cannot import"):
        decompile(lambda x: Own(x), V, check=False)
    with pytest.raises(InvalidArgument, match="must be made of arrays, numbers, dicts"):
        decompile(lambda own: own.a, Own(V), check=False)


@pytest.mark.slow
def test_several_devices_are_refused() -> None:
    program = """
import jax, jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from erasurehead.decompile._errors import Unsupported
from erasurehead.decompile import decompile
mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
f = jax.shard_map(lambda x: jax.lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P())
try:
    decompile(f, jnp.ones(4), check=False)
except Unsupported as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**__import__("os").environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
    )
    assert "shard_map cannot be decompiled to jax: it runs on 2 devices" in done.stdout, done.stderr[-500:]


@pytest.mark.slow
def test_importing_the_library_does_not_import_jax() -> None:
    code = "import sys, erasurehead.decompile, erasurehead.cli._app; print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout.strip() == "False"


def test_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    decompile(jnp.sin, V, check=False)
    assert not list(tmp_path.iterdir())


def test_donated_buffers_are_left_to_the_caller() -> None:
    given = jnp.arange(3.0)
    source = decompile(jax.jit(lambda x: x * 2 + 1, donate_argnums=0), given)
    assert source.report.passed
    assert not given.is_deleted()

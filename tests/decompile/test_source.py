"""Sources as things: names and forms in the text, saved, edited, loaded, checked."""

# ruff: noqa: E402

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="the decompiler needs JAX: pip install 'erasurehead[jax]'")
import jax.numpy as jnp
from jax import lax

from erasurehead.decompile import DecompiledSource, decompile
from erasurehead.decompile._errors import CheckFailed
from erasurehead.decompile._writing import text_of
from erasurehead.errors import DataError, InvalidArgument

from ..bounded import PATIENCE
from .programs import CASES

_random = np.random.default_rng(1)
X = _random.normal(size=(5, 3)).astype(np.float32)
V = _random.normal(size=3).astype(np.float32)
Y = np.sign(_random.normal(size=5)).astype(np.float32)


def body(source: DecompiledSource) -> list[str]:
    """The lines of the function."""
    return source.text.partition("\ndef ")[2].splitlines()[1:]


def loss(params: Any, x: Any, y: Any) -> Any:
    h = jnp.tanh(x @ params["w"] + params["b"])
    error = h - y
    return jnp.mean(error**2)


PARAMS = {"w": V, "b": np.float32(0.5)}


def test_a_gradient_reads_as_a_person_would_write_it() -> None:
    source = decompile(jax.value_and_grad(loss), PARAMS, X, Y, check=False)
    assert body(source) == [
        '    b = params["b"]',
        '    w = params["w"]',
        "    h = jnp.tanh(x @ w + b)",
        "    error = h - y",
        "    scaled = 0.2 * (2.0 * error) * (1.0 - h)",
        "    sum_ = scaled + scaled * h",
        '    return jnp.sum(error**2) / 5.0, {"b": jnp.sum(sum_), "w": sum_ @ x}',
    ]


@pytest.mark.parametrize(
    ("function", "of_jax", "of_numpy"),
    [
        (
            jax.vmap(jax.grad(lambda r: jnp.maximum(r, 0.0).sum())),
            "    return jnp.where(r == larger, 1.0, jnp.float32(0.0)) / chosen",
            "    return (r == larger).astype(np.float32) / chosen",
        ),
        (
            jax.grad(lambda x: jax.nn.relu(x).sum()),
            "    return jnp.where(x > 0.0, 1.0, jnp.float32(0.0))",
            "    return (x > 0.0).astype(np.float32)",
        ),
        (lambda x: jnp.where(x > 0, True, False), "    return x > 0.0", "    return x > 0.0"),
        (
            lambda x: jnp.where(x > 0, jnp.sum(x, 0), 0.5),
            "jnp.where(x > 0.0, jnp.sum(x, axis=0), 0.5)",
            "np.where(x > 0.0, np.sum(x, axis=0), 0.5)",
        ),
        (lambda x: x + jnp.broadcast_to(jnp.full((3,), 2.0), (5, 3)), "    return x + 2.0", "    return x + 2.0"),
        (lambda x: x @ jnp.eye(3), "x @ jnp.eye(3, dtype=jnp.float32)", "x @ np.eye(3, dtype=np.float32)"),
    ],
)
def test_masks_fills_and_identities_read_as_such(function: Any, of_jax: str, of_numpy: str) -> None:
    for backend, said in (("jax", of_jax), ("numpy", of_numpy)):
        source = decompile(function, X, backend=backend, check=False)
        assert said in source.text
        assert np.allclose(source(X), function(X), rtol=1e-6)


def test_names_of_the_user_survive_and_can_be_changed() -> None:
    def scaled(values: Any, factor: Any) -> Any:
        total = values.sum()
        share = values / total
        return share * factor

    text = decompile(scaled, V, 2.0, check=False).text
    assert "total = jnp.sum(values)" in text
    assert "share = values / total" in text
    renamed = decompile(scaled, V, 2.0, names={"values": "amounts", "total": "everything"}, check=False).text
    assert "def scaled(amounts, factor):" in renamed
    assert "everything = jnp.sum(amounts)" in renamed


def test_keywords_builtins_and_modules_are_no_names() -> None:
    def clashing(sum: Any, np: Any, jnp_: Any) -> Any:
        list = sum * 2
        lax = list + np
        return {"lambda": lax, "x": jnp_["class"] * list}

    for backend in ("jax", "numpy"):
        source = decompile(clashing, V, V, {"class": V}, backend=backend, check=False)
        result = source(V, V, {"class": V})
        assert np.allclose(result["lambda"], V * 3)
        assert np.allclose(result["x"], V * V * 2)


def test_comments_say_where_lines_come_from() -> None:
    source = decompile(loss, PARAMS, X, Y, comments=True, check=False)
    line = loss.__code__.co_firstlineno + 1
    assert f"    # {__file__}:{line}" in source.text
    assert np.allclose(source(PARAMS, X, Y), loss(PARAMS, X, Y))


def test_loops_of_python_for_numpy() -> None:
    def steps(x: Any, n: Any) -> Any:
        def body(c: Any, row: Any) -> Any:
            c = c * 0.5 + row
            return c, jnp.sum(c)

        last, sums = lax.scan(body, jnp.zeros(3), x)
        return lax.while_loop(lambda i: i < n, lambda i: i + 1, 0), lax.cond(sums[0] > 0, lambda: last, lambda: -last)

    text = decompile(steps, X, np.int32(4), backend="numpy", check=False).text
    assert "    for i in range(5):\n        row = x[i]\n" in text
    assert "    while i_2 < n:\n        i_2 = i_2 + 1\n" in text
    assert "\n    else:\n" in text


@jax.jit
def inner(x: Any) -> Any:
    return jnp.sin(x) * 2


@jax.custom_jvp
def softly(x: Any) -> Any:
    return jnp.log1p(jnp.exp(x))


@softly.defjvp
def _softly_rule(primals: Any, tangents: Any) -> Any:
    return softly(primals[0]), tangents[0] * jax.nn.sigmoid(primals[0])


@jax.custom_vjp
def clipped(x: Any) -> Any:
    return x * 1.0 + 0.0 * x


clipped.defvjp(lambda x: (x + 0.0 * x, x), lambda x, g: (jnp.clip(g, -0.1, 0.1) * (x > -9),))


@pytest.mark.slow
def test_calls_are_kept_as_functions_on_wish() -> None:
    def outer(x: Any) -> Any:
        return inner(x) + inner(x * 3) + softly(x) + clipped(x)

    inlined = decompile(outer, V, check=False)
    assert "inner" not in inlined.text
    kept = decompile(outer, V, inline=False, check=False)
    assert kept.text.count("def inner(") == 1
    assert kept.text.count("inner(") == 3
    for ours, theirs in ((kept, outer), (inlined, outer)):
        assert np.allclose(ours(V), theirs(V), rtol=1e-6)
    gradients = [jax.grad(lambda x, f=f: f(x).sum())(V) for f in (kept.function, outer)]
    assert np.allclose(*gradients, rtol=1e-6), "custom rules are kept with the functions"
    plain = decompile(outer, V, inline=False, backend="numpy", check=False)
    assert plain.text.count("def inner(") == 1
    assert np.allclose(plain(V), outer(V), rtol=1e-6)


class State(NamedTuple):
    count: Any
    mean: Any


def test_named_tuples_come_back_as_they_came() -> None:
    def update(state: State, x: Any) -> State:
        return State(state.count + 1, state.mean * 0.9 + x)

    for backend in ("jax", "numpy"):
        source = decompile(update, State(np.int32(1), V), V, backend=backend, check=False)
        result = source(State(np.int32(1), V), V)
        assert isinstance(result, State)
        assert np.allclose(result.mean, V * 1.9)


@pytest.mark.slow
def test_large_constants_go_beside_the_source(tmp_path: Path) -> None:
    table = jnp.asarray(_random.normal(size=(40, 3)), jnp.float32)
    few = jnp.asarray([1.5, 2.5, 3.5], jnp.float32)

    def lookup(x: Any) -> Any:
        return table @ (x * few)

    for backend in ("jax", "numpy"):
        source = decompile(lookup, V, backend=backend)
        assert "few = " in source.text
        assert 'constants["table"]' in source.text
        path = source.save(tmp_path / f"of_{backend}.py")
        assert path.with_suffix(".npz").is_file()
        again = DecompiledSource.load(path)
        assert again.hash == source.hash
        assert np.allclose(again(V), lookup(V), rtol=1e-5)
        done = subprocess.run(
            [sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, done.stderr


def test_the_same_call_gives_the_same_text_and_decompiling_again_does_too() -> None:
    for backend in ("jax", "numpy"):
        texts = {decompile(loss, PARAMS, X, Y, backend=backend, check=False).text for _ in range(2)}
        assert len(texts) == 1
    source = decompile(jax.grad(loss), PARAMS, X, Y, check=False)
    assert text_of(source.function, (PARAMS, X, Y)) == source.text


def test_checks_say_what_they_counted() -> None:
    source = decompile(jax.grad(loss), PARAMS, X, Y)
    assert source.report.passed
    assert source.report.counted == source.report.drawn == 4
    assert "on the examples and 4 of 4 draws" in str(source.report)
    constant = decompile(lambda x: jnp.zeros(3), V)
    assert constant.report.counted == 0
    assert "No draw can tell them apart" in str(constant.report)
    assert decompile(lambda x: jnp.log(-jnp.abs(x) - 1), V).report.counted == 0, "all NaN"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "kind", "said"),
    [
        ("2.0 * error", "2.01 * error", "value", "the tolerance apart"),
        ("h - y", "h + y", "value", "the tolerance apart"),
        ('"w": sum_ @ x', '"w": x.T', "shape", r"its shape should be \(3,\), but is \(3, 5\)"),
        ('"w": sum_ @ x', '"w": (sum_ @ x).astype(np.float64)', "dtype", "its dtype should be float32, but is float64"),
        ('"b": ', '"c": ', "structure", "the result should contain"),
        ("h = np.tanh", "h = np.nothing", "structure", "it raises AttributeError"),
    ],
)
def test_edits_that_change_something_are_found(tmp_path: Path, old: str, new: str, kind: str, said: str) -> None:
    gradient = jax.grad(loss)
    source = decompile(gradient, PARAMS, X, Y, backend="numpy", check=False)
    assert old in source.text
    path = source.save(tmp_path / "edited.py")
    path.write_text(path.read_text().replace(old, new))
    edited = DecompiledSource.load(path)
    assert edited.hash != source.hash
    report = edited.check(gradient, PARAMS, X, Y, draws=1)
    assert not report.passed
    assert report.differences[0].kind == kind
    with pytest.raises(CheckFailed, match=said):
        report.raise_if_wrong()


def test_edits_that_change_nothing_pass(tmp_path: Path) -> None:
    source = decompile(jax.grad(loss), PARAMS, X, Y, backend="numpy", check=False)
    path = source.save(tmp_path / "edited.py")
    path.write_text(path.read_text().replace("scaled + scaled * h", "scaled * (1.0 + h)"))
    assert DecompiledSource.load(path).check(jax.grad(loss), PARAMS, X, Y, draws=2).passed


def test_wrong_comparisons_are_no_flips() -> None:
    def ramp(x: Any) -> Any:
        return jnp.where(x > 0, x, 0.25)

    x = np.array([0.0, 1.0, -1.0], np.float32)
    source = decompile(ramp, x, backend="numpy", check=False)
    source.text = source.text.replace("x > 0.0", "x >= 0.0")
    report = source.check()
    assert not report.passed


def test_flips_within_rounding_are_found_and_said() -> None:
    """A sum that is zero but for rounding, and a comparison with zero: numpy adds up in another order than XLA."""
    x = np.full(1000, 0.1, np.float32)

    def jumping(x: Any) -> Any:
        return jnp.where(jnp.sum(x) - 1000 * 0.1 > 0, 1.0, -1.0) * x

    report = decompile(jumping, x, backend="numpy", check=False).check(draws=0)
    assert not report.passed
    assert "gt (" in str(report)
    assert "flips within rounding" in str(report)


def test_what_cannot_be_loaded_says_so(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("def f(:\n")
    with pytest.raises(DataError, match=r"broken.py, line 1: this is not Python"):
        DecompiledSource.load(broken)
    with pytest.raises(DataError, match="cannot be read"):
        DecompiledSource.load(tmp_path / "nothing.py")
    (tmp_path / "empty.py").write_text("x = 1\n")
    with pytest.raises(DataError, match="defines no function"):
        DecompiledSource.load(tmp_path / "empty.py")
    source = decompile(jnp.sin, V, check=False)
    with pytest.raises(InvalidArgument, match=r"must end with \.py"):
        source.save(tmp_path / "here")
    path = source.save(tmp_path / "sin.py")
    with pytest.raises(InvalidArgument, match="needs the function that it stands for"):
        DecompiledSource.load(path).check()


FORMATTED = [
    "value and grad",
    "grad of scan",
    "updates",
    "convolutions",
    "medians",
    "normal",
    "branch in a loop",
    "pads",
]


@pytest.mark.slow
def test_texts_are_formatted_as_ruff_would(tmp_path: Path) -> None:
    pytest.importorskip("ruff")
    for name in FORMATTED:
        case = CASES[name]
        for backend in ("jax", "numpy"):
            source = decompile(case.function, *case.arguments, backend=backend, check=False)
            source.save(tmp_path / f"{name.replace(' ', '_')}_{backend}.py")
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--diff", "--isolated", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout[:3000]

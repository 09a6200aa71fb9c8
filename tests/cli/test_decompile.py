"""`erasurehead decompile`: a function of the user's file, printed, written, refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from .shop import Typed

pytest.importorskip("jax", reason="the decompiler needs JAX: pip install 'erasurehead[jax]'")

MINE = """
import jax
import jax.numpy as jnp

def loss(w: "float32[3]", x: "float32[8,3]", y=2.0):
    return jnp.mean((x @ w - y) ** 2)

def untyped(x, n):
    return x * n

def printing(x: "float32[2]"):
    jax.debug.print("{}", x)
    return x
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


@pytest.mark.usefixtures("mine")
def test_a_gradient_is_printed(typed: Typed) -> None:
    done = typed("decompile", "mine.py:loss", "--grad")
    assert done.code == 0, done.err
    assert "def grad_loss(w, x, y):" in done.out
    assert "does the same on the examples and 4 of 4 draws" in done.err


@pytest.mark.usefixtures("mine")
def test_it_is_written_and_runs_without_jax(typed: Typed, tmp_path: Path) -> None:
    done = typed("decompile", "mine.py:loss", "--backend", "numpy", "--out", "loss_of_numpy.py", "-q")
    assert done.code == 0, done.err
    assert not done.out
    space: dict[str, object] = {}
    exec((tmp_path / "loss_of_numpy.py").read_text(), space)
    assert "jax" not in space
    assert space["loss"](np.zeros(3), np.ones((8, 3)), 3.0) == 9.0  # type: ignore[operator]


@pytest.mark.usefixtures("mine")
def test_examples_are_types_and_numbers(typed: Typed) -> None:
    for given in (("-e", "float32[4]", "-e", "3"), ("-e", "[1.0, 2.0]", "-e", "key")):
        done = typed("decompile", "mine.py:untyped", *given, "--no-check", "--json")
        assert done.code == (0 if "key" not in given else 2), done.err
        if done.code == 0:
            assert done.json["name"] == "untyped"
            assert len(done.json["hash"]) == 64


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("mine.py",), "TARGET must be MODULE:FUNCTION or FILE.py:FUNCTION"),
        (("nothing.py:f",), "There is no file 'nothing.py'"),
        (("mine.py:f",), "mine.py has no function f; it has loss, printing, untyped"),
        (("no_such_module:f",), "There is no module 'no_such_module'"),
        (("mine.py:untyped",), "No example is given for x; add --example"),
        (("mine.py:untyped", "-e", "floaty[3]", "-e", "1"), "--example must be a type, a number"),
        (("mine.py:untyped", "-e", "x.npy", "-e", "1"), "--example must be a type, a number"),
        *(
            (("mine.py:untyped", "-e", f"float32[{shape}]", "-e", "1"), "--example must be a type, a number")
            for shape in ("-3", "2.5", "'3'", "3:4", "{3}", "n", "1j", "None", "")
        ),
        (
            ("mine.py:untyped", "-e", "float32[99999999999999]", "-e", "1"),
            "The example 'float32[99999999999999]' needs about 800,000.0 GB of memory",
        ),
        (("mine.py:loss", "--backend", "torch"), "--backend must be 'jax' or 'numpy'"),
        (("mine.py:printing",), "debug_print cannot be decompiled to jax"),
        (("mine.py:loss", "--out", "loss.txt", "--no-check"), "--out must end with .py, got 'loss.txt'"),
    ],
)
def test_bad_input_is_a_sentence(typed: Typed, command: tuple[str, ...], said: str) -> None:
    done = typed("decompile", *command)
    assert done.code == 2
    assert done.sentence.startswith(f"erasurehead: {said}"), done.sentence


def test_a_file_that_fails_is_named(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("1 / 0\n")
    assert typed("decompile", "bad.py:f").sentence.startswith("erasurehead: bad.py fails when it is run: ZeroDivision")

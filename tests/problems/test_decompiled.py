"""Decompiled gradients put to use: on workers without JAX, and edited in place of JAX's own."""

from __future__ import annotations

import functools
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead import problems
from erasurehead.decompile import DecompiledSource, decompile
from erasurehead.errors import DataError, InvalidArgument
from erasurehead.problems import _jax_problem

from ..bounded import PATIENCE

jax = pytest.importorskip("jax", reason="problems.jax needs JAX: pip install 'erasurehead[jax]'")
jnp = jax.numpy

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((43, 3)), np.sign(RNG.standard_normal(43))
ROWS, TASKS = 10, [slice(0, 21), slice(21, 43)]


def network(p: Any, batch: Any) -> Any:
    hidden = jnp.tanh(batch["x"] @ p["v"] + p["b"])
    return jnp.mean((hidden @ p["w"][0] - batch["y"]) ** 2)


def steep(w: Any, batch: Any) -> Any:
    margin = batch[1] * (batch[0] @ w)
    return jnp.mean(jnp.log1p(jnp.exp(-margin)))


def parameters(dtype: str) -> Any:
    random = np.random.default_rng(1)
    return {
        "v": random.standard_normal((3, 4)).astype(dtype),
        "b": np.zeros(4, dtype),
        "w": [random.standard_normal(4).astype(dtype)],
        "activation": (),
    }


def made(dtype: str = "float64", loss: Any = network, **options: Any) -> _jax_problem.JaxProblem:
    return problems.jax(loss, parameters(dtype), {"x": X, "y": Y}, batch_size=ROWS, **options)


@functools.cache
def without_jax(dtype: str = "float64", accepted: bool = True) -> _jax_problem.JaxProblem:
    if not accepted:
        return made(dtype, worker_backend="numpy")
    hashes = [source.hash for source in without_jax(dtype, False).sources.values()]
    return made(dtype, worker_backend="numpy", hashes=hashes)


def sent(problem: _jax_problem.JaxProblem, step: int = 2) -> np.ndarray:
    out = np.empty(problem.n_parameters + 1)
    shard = problem.shard(TASKS)
    out[-1] = shard.combine(problem.initial(), np.array([1.0, -0.5]), step, out[:-1])
    return out


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "precision"), [("float64", 1e-13), ("float32", 1e-5)])
def test_workers_without_jax_send_the_same_messages_to_rounding(dtype: str, precision: float) -> None:
    reference = made(dtype)
    accepted = without_jax(dtype)
    assert set(accepted.sources) == {"loss_and_gradient"}
    for step in range(3):
        np.testing.assert_allclose(sent(accepted, step), sent(reference, step), rtol=precision, atol=precision / 10)
    assert not any("jax" in module for module in accepted.preload)


WORKER = """
import pickle, sys
sys.modules["jax"] = None
import numpy as np
shard, x = pickle.load(sys.stdin.buffer)
out = np.empty(len(x))
loss = shard.combine(x, np.array([1.0, -0.5]), 2, out)
sys.stdout.buffer.write(np.append(out, loss).tobytes())
"""


@pytest.mark.slow
def test_where_there_is_no_jax_the_source_runs() -> None:
    problem = without_jax()
    given = pickle.dumps((problem.shard(TASKS), problem.initial()))
    done = subprocess.run(
        [sys.executable, "-c", WORKER], input=given, capture_output=True, check=True, timeout=PATIENCE
    )
    assert done.stdout == sent(problem).tobytes()


@pytest.mark.slow
def test_no_source_runs_that_nobody_has_accepted() -> None:
    problem = without_jax(accepted=False)
    source = problem.sources["loss_and_gradient"]
    with pytest.raises(
        InvalidArgument, match=f"must name the source 'loss_and_gradient', whose SHA-256 is {source.hash}"
    ):
        problem.shard(TASKS)
    forged = pickle.dumps(without_jax().shard(TASKS)).replace(b"import numpy as np\n", b"import numpy as xp\n")
    with pytest.raises(InvalidArgument, match="must name the source"):
        pickle.loads(forged)


@functools.cache
def decompiled(backend: str, rows: int) -> DecompiledSource:
    with jax.enable_x64(True):
        batch = X[:rows], Y[:rows]
        return decompile(jax.grad(steep), np.zeros(3), batch, backend=backend, name="gradient", check=False)


def edited(tmp_path: Path, backend: str, rows: int = ROWS) -> tuple[DecompiledSource, Path]:
    source = decompiled(backend, rows)
    text, module = source.text, "jnp" if backend == "jax" else "np"
    text = text.replace(f"e = {module}.exp(-margin)", f"e = {module}.exp(-{module}.abs(margin))")
    text = text.replace("(e + 1.0) * e", f"(1.0 + e) * {module}.where(margin < 0, 1.0, e)")
    path = tmp_path / f"edited_{backend}.py"
    path.write_text(text)
    return source, path


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_an_edited_gradient_is_the_problems_gradient_and_stays_finite_where_jaxs_does_not(
    tmp_path: Path, backend: str
) -> None:
    source, path = edited(tmp_path, backend)
    assert path.read_text() != source.text
    plain = problems.jax(steep, np.zeros(3), (X, Y), batch_size=ROWS)
    problem = problems.jax(steep, np.zeros(3), (X, Y), batch_size=ROWS, gradient=path)
    np.testing.assert_allclose(sent(problem), sent(plain), rtol=1e-12)
    np.testing.assert_allclose(problem.gradient(np.ones(3)), plain.gradient(np.ones(3)), rtol=1e-12)
    far, coefficients, out = np.array([-900.0, 0.0, 0.0]), np.ones(2), np.empty(3)
    plain.shard(TASKS).combine(far, coefficients, 0, out)
    assert np.isnan(out).any()
    problem.shard(TASKS).combine(far, coefficients, 0, out)
    assert np.isfinite(out).all()


@pytest.mark.slow
def test_an_edited_gradient_runs_on_workers_without_jax(tmp_path: Path) -> None:
    _, path = edited(tmp_path, "numpy")
    given: dict[str, Any] = {"batch_size": ROWS, "gradient": path, "worker_backend": "numpy"}
    problem = problems.jax(steep, np.zeros(3), (X, Y), **given)
    assert set(problem.sources) == {"loss", "gradient"}
    hashes = [source.hash for source in problem.sources.values()]
    with pytest.raises(InvalidArgument, match="must name the source 'gradient'"):
        problems.jax(steep, np.zeros(3), (X, Y), **given, hashes=hashes[0]).shard(TASKS)
    problem = problems.jax(steep, np.zeros(3), (X, Y), **given, hashes=hashes)
    np.testing.assert_allclose(
        sent(problem), sent(problems.jax(steep, np.zeros(3), (X, Y), batch_size=ROWS)), rtol=1e-12
    )


@pytest.mark.slow
def test_edits_that_are_another_function_are_refused(tmp_path: Path) -> None:
    def refused(
        said: str, old: str = "", new: str = "", rows: int = ROWS, backend: str = "jax", **options: Any
    ) -> None:
        _, path = edited(tmp_path, backend, rows)
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        with pytest.raises(InvalidArgument, match=said):
            problems.jax(steep, np.zeros(3), (X, Y), **{"batch_size": ROWS, "gradient": path, **options})

    refused(r"gradient\[\d\] must be .*, as the loss's is", "-(", "-1.01 * (")
    refused(r"gradient\[\d\] must be .* was it made with batch_size\?", rows=11)
    refused("must have the shapes of the parameters", "return scaled @ batch_0", "return (scaled @ batch_0)[:2]")
    refused(
        "gradient: gradient.* fails on a batch, with NameError", "return scaled @ batch_0", "return scald @ batch_0"
    )
    refused("must return PyTreeDef", "return scaled @ batch_0", "return (scaled @ batch_0,)")
    refused("must be a source for numpy where worker_backend is 'numpy'", worker_backend="numpy")
    refused("batch_size must be given where gradients are sources", batch_size=None)
    with pytest.raises(DataError, match="cannot be read"):
        problems.jax(steep, np.zeros(3), (X, Y), batch_size=ROWS, gradient=tmp_path / "none.py")


@pytest.mark.slow
def test_what_cannot_be_is_refused_in_a_sentence() -> None:
    problem = without_jax()
    with pytest.raises(DataError, match="A task has 5 samples, and the decompiled source is for batches of 10"):
        problem.shard([slice(0, 38), slice(38, 43)])
    with pytest.raises(InvalidArgument, match="worker_backend must be 'jax' or 'numpy'"):
        made(worker_backend="torch")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidArgument, match="hashes must be SHA-256 sums"):
        made(worker_backend="numpy", hashes="abc")
    with pytest.raises(InvalidArgument, match="gradient must be the file of an edited gradient"):
        made(gradient=3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidArgument, match="approx_top_k"):
        made(worker_backend="numpy", loss=lambda p, b: jnp.mean(jax.lax.approx_max_k(b["x"] @ p["v"], 1)[0]))

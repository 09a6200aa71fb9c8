"""JAX on a GPU: a team comes to what it comes to on the host, and its ranks may share a card."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import erasurehead.jax as ehj

from ..bounded import PATIENCE
from .small import ADAM, MOMENTUM, Params, X, Y, batch, loss, net, weights

GPU = "gpu"


def found(platform: str) -> bool:
    try:
        return bool(jax.devices(platform))
    except RuntimeError:
        return False


pytestmark = [pytest.mark.timeout(300), pytest.mark.skipif(not found(GPU), reason="JAX finds no GPU here")]


def trained(platform: str, optimizer: Any, steps: int = 12, dtype: Any = np.float32, **options: Any) -> list[Any]:
    """Return what each rank of a team comes to, as one vector."""
    device = jax.devices(platform)[0]

    def first() -> Params:
        return jax.tree.map(lambda leaf: jax.device_put(jnp.asarray(leaf, dtype), device), net())

    def main() -> Any:
        with jax.default_device(device), jax.default_matmul_precision("highest"):
            team = ehj.join()
            step = team.step(loss, optimizer, **options)
            params, state = step.init(first())
            for number in range(steps):
                params, state, _ = step(params, state, batch(team.rank, number))
            assert {each.platform for leaf in jax.tree.leaves(params) for each in leaf.devices()} == {device.platform}
            return weights(team.params()).astype(np.float32)

    done = ehj.simulate(main, ranks=3, seconds_per_sample=[0.01, 0.01, 0.03])
    assert all(one is not None for one in done.returned)
    return list(done.returned)


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (MOMENTUM, {}),
        (optax.sgd(0.05, 0.9, nesterov=True), {}),
        (ADAM, {}),
        (MOMENTUM, {"way": "first-gradients"}),
        (ADAM, {"way": "first-gradients"}),
        (MOMENTUM, {"every": 4}),
    ],
)
def test_a_team_comes_to_the_same_on_a_gpu_as_on_the_host(optimizer: Any, options: dict[str, Any]) -> None:
    both = (trained(platform, optimizer, **options) for platform in (GPU, "cpu"))
    for one, other in zip(*both, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


def test_parameters_in_bfloat16_train() -> None:
    for one in trained(GPU, MOMENTUM, dtype=jnp.bfloat16):
        assert np.isfinite(one).all()


def coded(platform: str) -> list[Any]:
    device = jax.devices(platform)[0]

    def main() -> Any:
        with jax.default_device(device), jax.default_matmul_precision("highest"):
            team = ehj.join()
            step = team.step(loss, MOMENTUM, every="gradient", scheme="exact(load=2)")
            params, state = step.init(jax.tree.map(lambda leaf: jax.device_put(leaf, device), net()))
            for epoch in range(2):
                for own in team.batches((X[:192], Y[:192]), 48, epoch):
                    params, state, _ = step(params, state, own)
            return weights(team.params())

    return list(ehj.simulate(main, ranks=4, seconds_per_sample=0.01).returned)


def test_a_code_s_gradient_is_that_of_the_host() -> None:
    for one, other in zip(coded(GPU), coded("cpu"), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_a_team_of_one_goes_on_from_what_was_saved(tmp_path: Path) -> None:
    file, device = tmp_path / "team.safetensors", jax.devices(GPU)[0]

    def train(stop: int | None = None, resume: bool = False) -> Any:
        with jax.default_device(device):
            team = ehj.join()
            step = team.step(loss, ADAM)
            params, state = step.init(net())
            begin, made = 0, 0
            if resume:
                params, state, begin = team.load(file)
            for epoch in range(begin, 2):
                for own in team.batches((X[:192], Y[:192]), 16, epoch):
                    params, state, _ = step(params, state, own)
                    made += 1
                    if made == stop:
                        team.save(file)
                        return weights(params)
            return weights(params)

    whole = train()
    train(stop=7)
    np.testing.assert_allclose(train(resume=True), whole, rtol=1e-6, atol=1e-7)


SCRIPT = """
import json, os, signal, sys
import jax, optax
import jax.numpy as jnp
import numpy as np
import erasurehead.jax as ehj

def loss(params, batch):
    x, y = batch
    return optax.softmax_cross_entropy_with_integer_labels(jnp.tanh(x @ params["w"]) @ params["v"], y).mean()

team = ehj.join()
step = team.step(loss, optax.sgd(0.1, 0.9))
drawn = np.random.default_rng(0)
shapes = {"w": (64, 256), "v": (256, 2)}
params, state = step.init({n: drawn.normal(size=s).astype(np.float32) / s[0] ** 0.5 for n, s in shapes.items()})
for number in range(80):
    if number == 20 and team.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    x = np.random.default_rng((number, team.rank)).normal(size=(256, 64)).astype(np.float32)
    params, state, value = step(params, state, (x, (x[:, 0] > 0).astype(np.int32)))
platform = jax.tree.leaves(params)[0].device.platform
print(json.dumps({"rank": team.rank, "loss": float(value), "on": platform}), flush=True)
"""


@pytest.mark.processes
def test_ranks_that_share_a_card_survive_one_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "erasurehead.torch.run", "-n", "3", "--output", "plain", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert {one["rank"] for one in told} == {0, 2}, done.stderr
    assert all(one["loss"] < 0.5 and one["on"] == GPU for one in told)

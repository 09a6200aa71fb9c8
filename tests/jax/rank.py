"""A rank that trains until a file appears, and for enough steps; a line of JSON once it steps, and one at its end.

Argument: the file.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax

import erasurehead.jax as ehj

ENOUGH = 200  # steps, after which the loss is low whenever the file came


def loss(params: Any, batch: Any) -> Any:
    x, y = batch
    return jnp.mean((x @ params["w"] - y) ** 2)


def say(**what: object) -> None:
    os.write(1, (json.dumps(what) + "\n").encode())


def main(stop: Path) -> None:
    assert "torch" not in sys.modules
    drawn = np.random.default_rng(0)
    x = drawn.normal(size=(256, 8)).astype(np.float32)
    data = x, x @ np.arange(8, dtype=np.float32)
    team = ehj.join()
    step = team.step(loss, optax.sgd(0.02, 0.9))
    params, state = step.init({"w": np.zeros(8, np.float32)})
    while not stop.exists() or team.steps < ENOUGH:
        for batch in team.batches(data, 32):
            params, state, _ = step(params, state, batch)
            if team.steps == 3:
                say(up=team.rank, pid=os.getpid())
            time.sleep(0.01)
    say(
        ended=team.rank,
        steps=team.steps,
        loss=float(loss(team.params(), data)),
        memory=os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"],
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))

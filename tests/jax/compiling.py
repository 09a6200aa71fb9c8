"""A rank that says in JSON whether it has compiled its loss's gradient, or read it."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import erasurehead.jax as ehj

EVENTS: Counter[str] = Counter()


def loss(params: Any, batch: Any) -> Any:
    for layer in params:
        batch = jnp.tanh(batch @ layer)
    return (batch**2).mean()


def main() -> None:
    jax.monitoring.register_event_listener(lambda event, **_: EVENTS.update([event.rpartition("/")[2]]))
    step = ehj.join().step(loss, optax.sgd(0.1))
    params, state = step.init([np.full((8, 8), 0.1 + layer, np.float32) for layer in range(int(os.environ["LAYERS"]))])
    batch, room = np.ones((4, 8), np.float32), jax.tree.map(jnp.copy, params)
    before = EVENTS.copy()
    assert step._model is not None  # pyright: ignore[reportPrivateUsage]
    step._model.programs.gradients(room, params, batch, None)  # pyright: ignore[reportPrivateUsage]
    found = EVENTS - before
    step(params, state, batch)
    said = {
        "compiled": found["cache_misses"],
        "read": found["cache_hits"],
        "folder": jax.config.jax_compilation_cache_dir,
    }
    os.write(1, (json.dumps(said) + "\n").encode())


if __name__ == "__main__":
    main()

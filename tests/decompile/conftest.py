"""Hundreds of small functions are compiled here: XLA takes a quarter of the time if it does not optimise them."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

# Before JAX starts. Its loops are the same; only the compiler that makes them is another.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_use_fusion_emitters=false".strip()


@pytest.fixture(scope="module")
def not_optimised() -> Generator[None]:
    """Have JAX compile without most of its optimisations: a function and its source alike."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)

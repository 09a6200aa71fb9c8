"""What tests with JAX share: what has been compiled."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache


def configure(**settings: Any) -> None:
    compilation_cache.reset_cache()  # which is asked once in a process whether there is one
    for name, value in settings.items():
        jax.config.update(name, value)


@pytest.fixture(scope="session", autouse=True)
def programs_are_compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Let tests read what others in this process have compiled, which most of their time is taken by.

    Each process has a folder of its own, as JAX may read a file that is being written.
    """
    folder, seconds = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"
    before = {name: getattr(jax.config, name) for name in (folder, seconds)}
    configure(**{folder: str(tmp_path_factory.mktemp("compiled")), seconds: 0})
    yield
    configure(**before)

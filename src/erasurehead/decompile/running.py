"""Runs the text of a source."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Callable
from typing import Any

from erasurehead.decompile.assemble import LOAD


def run_text(text: str, name: str, constants: dict[str, Any], more: dict[str, Any] | None = None) -> Callable[..., Any]:
    """Run the text of a module, with additional global names, and return one of its functions."""
    runnable = text
    for module in ("np", "jnp"):
        runnable = runnable.replace(LOAD.format(module=module) + "\n", "\n")
    file = f"<decompiled {name} {hashlib.sha256(text.encode()).hexdigest()[:12]}>"
    linecache.cache[file] = (len(runnable), None, runnable.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": f"decompiled_{name}", "__file__": file, "constants": constants}
    space.update(more or {})
    exec(compile(runnable, file, "exec"), space)
    return space[name]

"""Runs the text of a source."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Callable, Mapping
from typing import Any

from erasurehead.decompile._assemble import LOAD


def run_text(
    text: str, name: str, constants: Mapping[str, Any], more: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Run the text of a module, and return one of its functions; it sees `more` in place of global names of its own."""
    runnable = text
    for module in ("np", "jnp"):
        runnable = runnable.replace(LOAD.format(module=module) + "\n", "\n")
    file = f"<decompiled {name} {hashlib.sha256(text.encode()).hexdigest()[:12]}>"
    linecache.cache[file] = (len(runnable), None, runnable.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": f"decompiled_{name}", "__file__": file, "constants": constants}
    exec(compile(runnable, file, "exec"), space)
    space.update(more or {})
    return space[name]

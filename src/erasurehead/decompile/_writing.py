"""From a function to the text of its source, without any check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from erasurehead.decompile._assemble import Assembled, assemble
from erasurehead.decompile._identities import with_identities
from erasurehead.decompile._installed import jax_module
from erasurehead.decompile._program import TracedFunction
from erasurehead.decompile._running import run_text
from erasurehead.decompile._trace import trace


def write_once(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    backend: str,
    inline: bool,
    effects: str,
    names: Mapping[str, str] | None,
    comments: bool,
    name: str | None,
) -> tuple[Assembled, TracedFunction]:
    """Trace a function once and write it; return what was written, and the program that it was written from."""
    program = trace(function, arguments, backend, inline, effects, names, name)
    if backend == "numpy":
        with_identities(program.block)
    assembled = assemble(program, backend, comments)
    if backend == "jax":
        jax = jax_module()

        results = jax.eval_shape(run_text(assembled.text, assembled.name, assembled.constants), *arguments)
        for i, (weak, got) in enumerate(zip(program.weak, jax.tree.leaves(results), strict=True)):
            if weak != bool(getattr(got, "weak_type", False)) and not program.block.results[i].type.is_key:
                program.casts[i] = weak
        if program.casts:
            assembled = assemble(program, backend, comments)
    return assembled, program


def text_of(function: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    """Return the text of a function's source for jax, without any check."""
    return write_once(function, arguments, "jax", True, "comment", None, False, None)[0].text

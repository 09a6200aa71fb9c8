"""`decompile`: a JAX function as Python source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from erasurehead.decompile._errors import Unsupported
from erasurehead.decompile._installed import jax_module
from erasurehead.decompile._source import DecompiledSource
from erasurehead.decompile._writing import write_once
from erasurehead.errors import invalid

BACKENDS = ("jax", "numpy")


def decompile(
    function: Callable[..., Any],
    *example_arguments: Any,
    backend: str = "jax",
    inline: bool = True,
    names: Mapping[str, str] | None = None,
    comments: bool = False,
    effects: str = "error",
    check: bool = True,
    name: str | None = None,
) -> DecompiledSource:
    """Return a JAX function as Python source that computes the same for arguments of the same shapes and dtypes.

    Arguments:
        function: the function to decompile: any that JAX can trace, such as `jax.grad(loss)`.
        example_arguments: arguments to trace it with: arrays, numbers, and dicts, lists and tuples of them.
        backend: `"jax"`, or `"numpy"` for a source that runs without JAX.
        inline: whether to inline functions that the user has jitted, and those with custom differentiation rules, in
            their callers; otherwise they stay functions.
        names: name in the source -> name to use instead, for arguments and variables.
        comments: whether lines name the line of the user's code that they come from.
        effects: `"error"`, or `"comment"` to keep `jax.debug.print` and the like as comments.
        check: whether to run the source and compare it with the function, as `DecompiledSource.check` does.
        name: name of the function in the source; by default its own.

    Returns:
        The source. Nothing is written to files.

    Raises:
        Unsupported: if some operation cannot be written as source; the error says which one and where.
        InvalidArgument: if an argument is wrong, or two traces of the function differ.
        CheckFailed: if the source computes something else: a bug of the decompiler.

    >>> import jax.numpy as jnp
    >>> print(decompile(lambda x: jnp.tanh(x) + 1.0, 0.5, name="shifted").text.split("@jax.jit")[1])
    <BLANKLINE>
    def shifted(x):
        return jnp.tanh(x) + 1.0
    <BLANKLINE>
    """
    if backend not in BACKENDS:
        raise invalid("backend", "must be 'jax' or 'numpy'", backend)
    if effects not in ("error", "comment"):
        raise invalid("effects", "must be 'error' or 'comment'", effects)
    if not callable(function):
        raise invalid("function", "must be a function", function)
    jax_module()
    (first, program), (second, _) = (
        write_once(function, example_arguments, backend, inline, effects, names, comments, name) for _ in range(2)
    )
    if first.text != second.text or not _same(first.constants, second.constants):
        raise Unsupported(
            program.name,
            backend,
            "two traces of it differ: it depends on a global, a clock or Python's random numbers, which JAX would see "
            "once only; pass what changes as an argument",
        )
    source = DecompiledSource(
        first.text, first.name, backend, first.constants, function, tuple(example_arguments), classes=first.classes
    )
    if check:
        source.report = source.check()
        source.report.raise_if_wrong()
    return source


def _same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(np.asarray(a[k]).tobytes() == np.asarray(b[k]).tobytes() for k in a)

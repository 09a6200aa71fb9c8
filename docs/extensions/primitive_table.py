"""Which of JAX's primitives the decompiler writes, per backend: read off the JAX that is installed."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Generator, Sequence
from typing import Any

from erasurehead.decompile import _expand as expand, _lower as lower, _operands as operands
from erasurehead.decompile._installed import jax_module
from erasurehead.decompile._primitives import primitives_of
from erasurehead.decompile._refusals import known_reason
from erasurehead.decompile._rules import BACKENDS as RULES

BACKENDS = ("jax", "numpy")


def listed() -> list[str]:
    """Return the names of the primitives in `jax.extend.core.primitives`."""
    module = importlib.import_module("jax.extend.core.primitives")
    return sorted({str(getattr(module, name).name) for name in dir(module) if name.endswith("_p")})


def status(op: str, backend: str) -> str:
    """Return what a backend does with a primitive.

    Returns:
        `"yes"`; `"inlined"` of calls; `"left out"` of what gives back what it is given; `"expanded"` of what is written
        as what JAX makes of it; `"no: "` and the reason of what is refused; `"gap"` of what nobody has thought about.
    """
    refused = known_reason(op, backend)
    if refused is not None:
        return f"no: {refused}"
    if op in RULES[backend].rules or op == "empty2":
        return "yes"
    if op == "custom_linear_solve" or lower.CALLS.get(op):
        return "inlined"
    if op in lower.COLLECTIVES:
        return "for one device"
    if op in operands.IDENTITIES or op == "platform_index" or (op == "optimization_barrier" and backend == "numpy"):
        return "left out"
    if op in ("random_gamma", "todense", *(expand.FUNCTIONS if backend == "numpy" else ())):
        return "expanded"
    if op.startswith(expand.BY_IMPLEMENTATION):
        return "expanded"
    return "gap"


MODULES = (
    "jax.lax",
    "jax.lax.linalg",
    "jax.numpy",
    "jax.numpy.linalg",
    "jax.numpy.fft",
    "jax.nn",
    "jax.random",
    "jax.scipy.special",
    "jax.scipy.linalg",
    "jax.scipy.signal",
    "jax.scipy.stats.norm",
    "jax.scipy.ndimage",
    "jax.scipy.fft",
    "jax.scipy.integrate",
    "jax.ops",
)


def explore(modules: Sequence[str] = MODULES) -> dict[str, str]:
    """Return what tracing the public functions of modules yields: each primitive with a function that yields it.

    Every public function is tried with arguments of many kinds, so that functions that a new JAX adds are tried too.
    """
    jax = jax_module()
    shape, jnp = jax.ShapeDtypeStruct, jax.numpy
    x, v, s = shape((4, 4), jnp.float32), shape((4,), jnp.float32), shape((), jnp.float32)
    i, b, c = shape((4, 4), jnp.int32), shape((4, 4), jnp.bool_), shape((4, 4), jnp.complex64)
    u, k = shape((4,), jnp.uint32), jax.eval_shape(lambda: jax.random.key(0))
    tries: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = [  # traced arguments, and what follows them
        ((x,), ()),
        ((x, x), ()),
        ((i,), ()),
        ((i, i), ()),
        ((x, v), ()),
        ((c,), ()),
        ((u, u), ()),
        ((k,), ()),
        ((k,), ((3,),)),
        ((k, s), ()),
        ((x, x, x), ()),
        ((b, x, x), ()),
        ((x,), (0,)),
        ((x,), (2,)),
        ((s, v), ()),
        ((v, v, v, x), ()),
        ((x,), ((2, 2),)),
    ]
    found: dict[str, str] = {}
    with _whole_tracebacks(jax):
        for name in modules:
            try:
                module = importlib.import_module(name)
            except ImportError:
                continue
            for attribute in sorted(dir(module)):
                function = getattr(module, attribute)
                if (
                    attribute.startswith("_")
                    or attribute.endswith("_p")
                    or not callable(function)
                    or isinstance(function, type)
                ):
                    continue
                for primitive in _tried(jax, function, tries):
                    found.setdefault(primitive, f"{name}.{attribute}")
    return found


@contextlib.contextmanager
def _whole_tracebacks(jax: Any) -> Generator[None]:
    """Have JAX leave tracebacks as they are: most tries end with one that nobody sees, and cutting it takes longest."""
    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "off")
    try:
        yield
    finally:
        jax.config.update("jax_traceback_filtering", before)


def _tried(jax: Any, function: Any, tries: Sequence[tuple[tuple[Any, ...], tuple[Any, ...]]]) -> set[str]:
    import warnings

    found: set[str] = set()
    fitting = 0
    for traced, rest in tries:

        def call(*arguments: Any, rest: tuple[Any, ...] = rest) -> Any:
            return function(*arguments, *rest)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found |= set(primitives_of(jax.make_jaxpr(call)(*traced).jaxpr))
            except Exception:  # most arguments fit no function
                continue
        fitting += 1
        if fitting >= 3:
            break
    return found


def table(ops: Sequence[str]) -> str:
    """Return the rows of the table in the documentation, and the shares."""
    lines = ["| primitive | jax | numpy |", "|---|---|---|"]
    lines += [f"| `{op}` | {status(op, 'jax')} | {status(op, 'numpy')} |" for op in sorted(set(ops))]
    for backend in BACKENDS:
        fine = sum(not status(op, backend).startswith(("no", "gap")) for op in set(ops))
        lines += ["", f"{backend}: {fine} of {len(set(ops))} ({fine / len(set(ops)):.0%})."]
    return "\n".join(lines)

"""Primitives that are written as what JAX itself makes of them: by tracing its own implementation."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from erasurehead.decompile._installed import jax_module

BY_IMPLEMENTATION = ("bcoo_", "bcsr_", "coo_", "csr_")

FUNCTIONS: dict[str, tuple[str, str]] = {
    "igamma_grad_a": ("jax._src.lax.special", "igamma_grad_a_impl"),
    "random_gamma_grad": ("jax._src.lax.special", "random_gamma_grad_impl"),
}
"""For numpy: what JAX lowers the primitive to, where that is a function of JAX."""


def expansion(op: str, backend: str, params: dict[str, Any], avals: Sequence[Any], primitive: Any) -> Any:
    """Return the closed jaxpr that a primitive stands for; None if it is written as it is."""
    jax = jax_module()

    if op == "random_gamma":
        return jax.make_jaxpr(partial(primitive.impl, **params))(*_examples(avals))
    if op.startswith(BY_IMPLEMENTATION) or op == "todense":
        return _of_sparse(op, params, avals)
    if backend == "numpy" and op in FUNCTIONS:
        module, name = FUNCTIONS[op]
        function: Callable[..., Any] | None = getattr(importlib.import_module(module), name, None)
        if function is None:
            return None

        def spread(*arrays: Any) -> Any:
            return function(*jax.numpy.broadcast_arrays(*arrays), dtype=avals[0].dtype)

        return jax.make_jaxpr(spread)(*_examples(avals))
    return None


def _examples(avals: Sequence[Any]) -> list[Any]:
    jax = jax_module()

    return [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]


def _of_sparse(op: str, params: dict[str, Any], avals: Sequence[Any]) -> Any:
    jax = jax_module()

    family = "bcoo" if op == "todense" else op.partition("_")[0]
    module = importlib.import_module(f"jax.experimental.sparse.{family}")
    implementation = getattr(module, f"_{op}_impl", None) or getattr(getattr(module, f"{op}_p", None), "impl", None)
    if implementation is None:
        return None
    closed = jax.make_jaxpr(partial(implementation, **params))(*_examples(avals))
    return None if any(equation.primitive.name == op for equation in closed.jaxpr.eqns) else closed


def rule_of(op: str, equation: Any) -> dict[str, Any]:
    """Return the differentiation rule of a call with a custom one, as closed jaxprs.

    Returns:
        Of `custom_jvp_call`: `jvp`, from primals and tangents to outputs and their tangents. Of `custom_vjp_call`:
        `fwd`, from primals to outputs and residuals, and `bwd`, from residuals and cotangents to cotangents.
    """
    jax = jax_module()

    avals = _examples([atom.aval for atom in equation.invars])

    core: Any = importlib.import_module("jax.extend.core")
    parameters = [core.Var(atom.aval) for atom in equation.invars]
    alone = equation.replace(invars=parameters)
    info: Any = type(jax.make_jaxpr(lambda: None)().jaxpr.debug_info)("jit", "rule", None, None)
    jaxpr = core.Jaxpr((), parameters, equation.outvars, [alone], debug_info=info)
    function: Any = core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, ()))

    def call(*arrays: Any) -> Any:
        results = function(*arrays)
        return results[0] if len(results) == 1 else tuple(results)

    if op == "custom_jvp_call":

        def rule(*both: Any) -> Any:
            return jax.jvp(call, both[: len(avals)], both[len(avals) :])

        return {"jvp": jax.make_jaxpr(rule)(*avals, *avals)}
    trees: list[Any] = []

    def forward(*arrays: Any) -> Any:
        outputs, pull = jax.vjp(call, *arrays)
        residuals, tree = jax.tree.flatten(pull)
        trees.append(tree)
        return outputs, residuals

    fwd, shapes = jax.make_jaxpr(forward, return_shape=True)(*avals)

    def backward(residuals: Any, cotangents: Any) -> Any:
        return jax.tree.unflatten(trees[-1], residuals)(cotangents)

    return {"fwd": fwd, "bwd": jax.make_jaxpr(backward)(shapes[1], shapes[0])}

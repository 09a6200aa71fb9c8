"""Primitives that are refused, and why."""

from __future__ import annotations

_EFFECT = "it is an effect: the order of the calls would matter"
_REFERENCE = "it works on a mutable reference, which is an effect"
_INTERNAL = "it exists only while JAX differentiates or compiles, not in functions that users trace"
_MEMORY = "its elements are uninitialised memory"
_CALLBACK = "it calls back into Python while it runs; do that outside of the function"
_FOREIGN = "it is a foreign function, not one of JAX"
_DEVICES = "it works across several devices, but sources run on one"

REASONS: dict[str, str] = {
    "rng_uniform": "its numbers come from a hidden state, so no two calls agree",
    "after_all": _EFFECT,
    "create_token": _EFFECT,
    "get": _REFERENCE,
    "swap": _REFERENCE,
    "addupdate": _REFERENCE,
    "empty_ref": _REFERENCE,
    "new_ref": _REFERENCE,
    "free_ref": _REFERENCE,
    "freeze": _REFERENCE,
    "accum_grad_in_ref": _REFERENCE,
    "run_state": _REFERENCE,
    "box_get": _REFERENCE,
    "box_set": _REFERENCE,
    "new_box": _REFERENCE,
    "log_extend": _EFFECT,
    "log_read": _EFFECT,
    "new_log": _EFFECT,
    "ragged_all_to_all": _DEVICES,
    "geqrf": "JAX has no public function for LAPACK's raw factors; use qr",
    "custom_lin": _INTERNAL,
    "empty": _MEMORY,
    "io_callback": _CALLBACK,
    "pure_callback": _CALLBACK,
    "ffi_call": _FOREIGN,
    "debug_callback": "it is an effect; leave it out, or have it kept as a comment with effects='comment'",
    "debug_print": "it is an effect; leave it out, or have it kept as a comment with effects='comment'",
    "select_and_scatter": "JAX has no public function for it with user-defined operations",
    "scaled_dot": "it is a product in formats for accelerators",
}

NUMPY: dict[str, str] = {
    "rng_bit_generator": "XLA's own generators have no counterpart in numpy; use keys of threefry2x32",
    "approx_top_k": "XLA's approximation has no counterpart in numpy; use top_k",
    "ragged_dot_general": "a product of ragged groups has no counterpart in numpy",
    "symmetric_product": "it fills one triangle only, and leaves the other undefined",
    "cholesky_update": "numpy and scipy have no function for it; factor the updated matrix with cholesky",
    "tridiagonal": "numpy has no function for it; use hessenberg, or eigh",
    "tridiagonal_solve": "numpy has no function for it; use solve with the whole matrix",
    "ormqr": "numpy and scipy have no function for LAPACK's product with reflectors; use householder_product",
}


def known_reason(op: str, backend: str) -> str | None:
    """Return why a primitive is refused, as a sentence without a full stop; None if no reason is known."""
    return (NUMPY.get(op) if backend == "numpy" else None) or REASONS.get(op)


def reason(op: str, backend: str) -> str:
    """Return why a primitive is refused, or that it is unknown."""
    return known_reason(op, backend) or (
        "there is no rule for this primitive: a newer JAX, another library or your own code has added it"
    )

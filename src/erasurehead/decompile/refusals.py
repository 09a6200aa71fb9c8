"""What is refused, by primitive, and why."""

from __future__ import annotations

_EFFECT = "it is an effect: the order of the calls would matter"
_DEVICES = "it works across several devices, and sources run on one"
_REFERENCE = "it works on a mutable reference, which is an effect"
_INTERNAL = "it only exists while JAX differentiates or compiles, and not in what a user traces"
_GPU = "it is a kernel for GPUs"

REASONS: dict[str, str] = {
    "rng_uniform": "its numbers come from a hidden state, so that no two calls agree",
    "after_all": _EFFECT, "create_token": _EFFECT, "get": _REFERENCE, "swap": _REFERENCE, "addupdate": _REFERENCE,
    "empty_ref": _REFERENCE, "new_ref": _REFERENCE, "free_ref": _REFERENCE, "freeze": _REFERENCE,
    "accum_grad_in_ref": _REFERENCE, "run_state": _REFERENCE, "box_get": _REFERENCE, "box_set": _REFERENCE,
    "new_box": _REFERENCE, "log_extend": _EFFECT, "log_read": _EFFECT, "new_log": _EFFECT, "core_map": _DEVICES,
    "all_to_all": _DEVICES, "ragged_all_to_all": _DEVICES, "ppermute": _DEVICES, "axis_index": _DEVICES,
    "reduce_scatter": _DEVICES, "psend": _DEVICES, "precv": _DEVICES, "all_gather": _DEVICES,
    "custom_lin": _INTERNAL, "empty2": "its elements are whatever memory holds",
    "empty": "its elements are whatever memory holds", "platform_index": "its result depends on the machine",
    "select_and_scatter": "JAX has no public function for it with operations of one's own",
}  # fmt: skip

NUMPY: dict[str, str] = {
    "rng_bit_generator": "XLA's own generators have no counterpart in numpy; use keys of threefry2x32",
    "approx_top_k": "XLA's approximation has no counterpart in numpy",
}


def reason(op: str, backend: str) -> str:
    """Return why a primitive is refused, as a sentence without a full stop."""
    known = (NUMPY.get(op) if backend == "numpy" else None) or REASONS.get(op)
    return known or "no rule is known for this primitive (JAX or a library has added it, or it is foreign code)"

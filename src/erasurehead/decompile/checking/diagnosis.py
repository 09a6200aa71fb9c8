"""Where two runs part: the first statement whose results differ, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from erasurehead.decompile.checking.compare import array_of, is_float
from erasurehead.decompile.checking.rounding import DISCRETE, Watched, distance, unit
from erasurehead.decompile.installed import jax_module
from erasurehead.decompile.program import Literal, Operand, Statement, Variable

FREE = {"svd", "eigh", "eig", "qr", "schur"}
"""Operations whose results are only fixed by what defines them: up to signs, phases and bases."""


@dataclass
class Diagnosis:
    """Why numpy's run ends elsewhere.

    Arguments:
        text: a sentence without a full stop; empty if nothing was found.
        flip: whether something jumps within rounding.
        free: whether factors of matrices differ, and both fulfil what defines them.
        given: JAX's values of these, by statement and output.
    """

    text: str = ""
    flip: bool = False
    free: bool = False
    given: dict[tuple[int, int], Any] = field(default_factory=lambda: dict[tuple[int, int], Any]())


def diagnose(watched: Watched, given: tuple[Any, ...], inputs: tuple[Any, ...]) -> Diagnosis:
    """Run a program statement by statement in both, and return where they part."""
    diagnosis = Diagnosis()
    numbers = {id(s): k for k, s in enumerate(watched.statements) if k in watched.top}
    env: dict[Variable, Any] = {}
    jax = jax_module()

    flat = jax.tree.leaves(inputs)
    for leaf, value in zip(watched.program.leaves, flat, strict=True):
        env[leaf.variable] = jax.numpy.asarray(value) if not hasattr(value, "dtype") else value

    def read(operand: Operand) -> Any:
        if isinstance(operand, Literal):
            return np.asarray(operand.value, operand.type.dtype)
        if operand.constant is not None:
            return operand.constant
        return env[operand]

    _, seen = watched.values(given, diagnosis.given)
    places = {
        o: (numbers[id(s)], i) for s in watched.program.block.statements if id(s) in numbers
        for i, o in enumerate(s.outputs)
    }  # fmt: skip
    grown = ""
    for statement in watched.program.block.statements:
        if statement.bound is None or statement.primitive is None:
            return diagnosis
        operands, params = statement.bound
        try:
            values = statement.primitive.bind(*[read(v) for v in operands], **params)
        except Exception:
            return diagnosis
        values = list(values) if statement.primitive.multiple_results else [values]
        k = numbers.get(id(statement))
        for output, value in zip(statement.bound_outputs, values, strict=True):
            env[output] = value
        if k is None:
            continue
        differs = [
            (i, o) for i, o in enumerate(statement.outputs)
            if (k, i) in seen and not _close(array_of(env[o]), np.asarray(seen[k, i]))
        ]  # fmt: skip
        if not differs:
            continue
        if statement.op in FREE and _defined(
            statement, read, [np.asarray(seen[k, i]) for i in range(len(statement.outputs)) if (k, i) in seen]
        ):
            diagnosis.free = True
            for i, output in enumerate(statement.outputs):
                if (k, i) in seen:
                    diagnosis.given[k, i] = array_of(env[output])
            _, seen = watched.values(given, diagnosis.given)
            continue
        place = f" ({statement.where})" if statement.where else ""
        before = _gap(watched, statement, env, seen, numbers)
        jumps = statement.op in DISCRETE or statement.op in ("sort", "argmax", "argmin", "top_k") or (
            statement.outputs[0].type.kind not in "fc" and any(v.type.kind in "fc" for v in statement.inputs)
        )  # fmt: skip
        if jumps and before > 0:
            diagnosis.flip = True
            diagnosis.text = (
                f"{statement.op}{place} flips within rounding: its operands differ by {before:.2g} of their size"
            )
            return diagnosis
        if not _right_by_itself(statement, read, seen, places, numbers):
            diagnosis.text = f"the first to differ is {statement.op}{place}"
            return diagnosis
        grown = grown or f"{statement.op}{place}"
    if grown:
        diagnosis.text = f"every statement alone is right, and rounding grows from {grown} on"
    return diagnosis


def _right_by_itself(
    statement: Statement, read: Any, seen: dict[tuple[int, int], Any], places: dict[Variable, tuple[int, int]],
    numbers: dict[int, int],
) -> bool:  # fmt: skip
    """Return whether JAX makes of numpy's operands what numpy makes of them."""
    assert statement.bound is not None
    operands, params = statement.bound
    values = [
        seen.get(places.get(v, (-1, -1))) if isinstance(v, Variable) else None for v in operands
    ]  # fmt: skip
    given = [read(v) if value is None else np.asarray(value) for v, value in zip(operands, values, strict=True)]
    try:
        made = statement.primitive.bind(*given, **params)
    except Exception:
        return False
    made = list(made) if statement.primitive.multiple_results else [made]
    k = numbers[id(statement)]
    by_output = dict(zip(statement.bound_outputs, made, strict=True))
    return all(
        (k, i) not in seen or _close(array_of(by_output[o]), np.asarray(seen[k, i]))
        for i, o in enumerate(statement.outputs)
    )


def _gap(
    watched: Watched,
    statement: Statement,
    env: dict[Variable, Any],
    seen: dict[tuple[int, int], Any],
    numbers: dict[int, int],
) -> float:
    """Return by how much the operands of a statement differ between both runs, relative to their size."""
    places = {
        o: (numbers[id(s)], i)
        for s in watched.program.block.statements
        if id(s) in numbers
        for i, o in enumerate(s.outputs)
    }
    most = 0.0
    for operand in statement.inputs:
        if (
            isinstance(operand, Variable)
            and operand in places
            and places[operand] in seen
            and operand.type.kind in "fc"
        ):
            a, b = array_of(env[operand]), np.asarray(seen[places[operand]])
            scale = (
                float(np.max(np.abs(a.astype(np.complex128)), initial=0.0, where=np.isfinite(a.astype(np.complex128))))
                or 1.0
            )
            most = max(most, float(np.max(distance(a, b), initial=0.0)) / scale)
    return most


def _close(a: Any, b: Any) -> bool:
    if a.shape != b.shape:
        return False
    if not is_float(a):
        return bool(np.array_equal(a, b))
    scale = (
        float(np.max(np.abs(a.astype(np.complex128)), initial=0.0, where=np.isfinite(a.astype(np.complex128)))) or 1.0
    )
    return bool(np.all(distance(a, b) <= 2**12 * unit(a.dtype) * scale))


def _defined(statement: Statement, read: Any, got: list[Any]) -> bool:
    """Return whether numpy's factors fulfil what defines them, as well as rounding allows."""
    if len(got) != len(statement.outputs):
        return False
    a = array_of(read(statement.inputs[0])).astype(np.complex128)
    parts = [g.astype(np.complex128) for g in got]
    bound = 256 * unit(got[0].dtype) * max(1.0, float(np.max(np.abs(a), initial=0.0))) * max(a.shape[-2:])

    def star(x: Any) -> Any:
        return np.conj(np.swapaxes(x, -1, -2))

    def small(x: Any) -> bool:
        return bool(np.max(np.abs(x), initial=0.0) <= bound)

    def unitary(x: Any) -> bool:
        n = x.shape[-1]
        return small(star(x) @ x - np.eye(n))

    op, p = statement.op, statement.params
    if op == "svd" and len(parts) == 3:
        s, u, v = parts
        k = s.shape[-1]
        return small((u[..., :k] * s[..., None, :]) @ v[..., :k, :] - a) and unitary(u) and unitary(star(v))
    if op == "eigh":
        v, w = parts
        lower = np.tril(a) if p.get("lower", True) else np.triu(a)
        whole = lower + star(lower) - np.eye(a.shape[-1]) * a
        return small(whole @ v - v * w[..., None, :]) and unitary(v)
    if op == "eig" and p.get("compute_right_eigenvectors") and len(parts) >= 2:
        w, v = parts[0], parts[-1]
        fine = small(a @ v - v * w[..., None, :])
        if p.get("compute_left_eigenvectors"):
            left = parts[1]
            fine = fine and small(star(left) @ a - w[..., :, None] * star(left))
        return fine and bool(np.allclose(np.linalg.norm(v, axis=-2), 1, atol=bound))
    if op == "qr" and len(parts) == 2:
        q, r = parts
        return small(q @ r - a) and unitary(q) and small(np.tril(r, -1))
    if op == "schur" and len(parts) == 2:
        t, z = parts
        return small(z @ t @ star(z) - a) and unitary(z)
    return False

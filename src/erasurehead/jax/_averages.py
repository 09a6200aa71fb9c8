"""What optimizers of optax average over steps: found in their state, tried out, and replaced by the team's.

Transformations hide their settings. So they are asked: what becomes of a small gradient and of a small average tells
decay and rate, and whether it is an average of gradients, or of their squares, at all. What is not is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, final

import numpy as np

from erasurehead.errors import first_line, invalid
from erasurehead.jax._form import PytreeForm, Transformation, jax, jnp, mapped

_SMALL = 1e-6  # what is asked with: nothing clips it, and its square is a number yet
_KNOWN = frozenset(
    map(frozenset[str], ({"trace"}, {"nu"}, {"count", "nu"}, {"count", "mu", "nu"}, {"count", "mu", "nu", "nu_max"}))
)

Change: TypeAlias = Callable[[str, Any], Any]
"""Path and value of a leaf to another value."""


def _small(n_axes: int) -> tuple[int, ...]:
    """Return the shape of one number that stands for an array; a number of its own is a counter."""
    return (1,) * max(n_axes, 1)


def _fields(part: Any) -> frozenset[str]:
    """Return the names of what a part of a state averages, and of its counter."""
    fields = frozenset[str](getattr(part, "_fields", ()))
    return fields if fields in _KNOWN else frozenset[str]()


def _parts(state: Any) -> tuple[list[Any], Any]:
    def whole(part: Any) -> bool:
        return bool(_fields(part))

    return jax.tree.flatten(state, is_leaf=whole)


def read(state: Any, field: str) -> dict[str, Any]:
    """Return the averages that have a name, by the paths of what they are of."""
    found = [getattr(part, field) for part in _parts(state)[0] if field in _fields(part)]
    every = [jax.tree_util.tree_flatten_with_path(tree)[0] for tree in found]
    return {jax.tree_util.keystr(path): leaf for leaves in every for path, leaf in leaves}


def _replaced(state: Any, **changes: Change) -> Any:
    """Return a state with other averages, by their names."""

    def changed(tree: Any, change: Change) -> Any:
        def own(path: Any, leaf: Any) -> Any:
            return change(jax.tree_util.keystr(path), leaf)

        return jax.tree_util.tree_map_with_path(own, tree)

    parts, tree = _parts(state)
    for place, part in enumerate(parts):
        names = _fields(part) & changes.keys()
        if names:
            parts[place] = part._replace(**{name: changed(getattr(part, name), changes[name]) for name in names})
    return jax.tree.unflatten(tree, parts)


@final
class Averages:
    """What an optimizer averages.

    Arguments:
        optimizer: of optax's form.
        form: of its parameters.

    Attributes:
        kind: "momentum", "moments", or "nothing"; "others" if its state has what is not known.
        first: whether there are first moments.
        decay: for each parameter, by what its first and its second moment are multiplied in a step.
        answers: what it first makes of a small gradient of each parameter, where parameters are 1.

    Raises:
        InvalidArgument: if it is no such optimizer.
    """

    def __init__(self, optimizer: Transformation, form: PytreeForm) -> None:
        self._optimizer, self._form = optimizer, form
        leaves = [jnp.zeros(_small(len(shape)), np.float32) for shape in form.shapes]
        self._zeros = jax.tree.unflatten(form.tree, leaves)
        try:
            answers, fresh, kept, both, old, new = (np.asarray(answer) for answer in jax.jit(self._asked)())
        except (TypeError, AttributeError, ValueError) as error:
            where = " where gradients have the form of all parameters" if isinstance(error, ValueError) else ""
            raise invalid(
                "optimizer",
                "must be one of optax that makes its step from gradients, state and parameters alone",
                type(optimizer).__name__,
                f"it ends with {first_line(error)}{where}",
            ) from None
        parts, _ = _parts(jax.eval_shape(optimizer.init, self._zeros))
        names = {_fields(part) - {"count", "nu_max"} for part in parts if _fields(part)}
        whole = (old + new)[old[:, 1] != 0.0]
        self.first = any("mu" in each for each in names)
        self.decay = [(float(first), float(second)) for first, second in old]
        self.answers: list[float] = answers.tolist()
        self.kind = "others"
        by_layer = any(not leaf.ndim for leaf in jax.tree.leaves([getattr(part, "nu", []) for part in parts]))
        if any(part.ndim for part in parts if not _fields(part)) or len(names) > 1 or by_layer:
            return
        if not names:
            self.kind = "nothing"
        elif names == {frozenset({"trace"})}:
            told = not ((fresh == 0.0) & (kept != 0.0)).any()  # what centralizes gradients makes nothing of small ones
            if told and np.allclose(2.0 * (fresh + kept), both, rtol=1e-4, atol=0.0):
                self.kind = "momentum"
        elif ((fresh != 0.0) & (kept == 0.0) & (old[:, 0] != 0.0)).any():
            pass  # a first moment that is taken from the second one, and makes no step by itself
        elif np.allclose(whole, [float(self.first), 1.0], rtol=0.0, atol=[1e-2, 1e-5]):  # the first may be bfloat16
            self.kind = "moments"

    # Asking

    def _made(self, gradient: float, average: float, state: Any = None, params: float = 0.0) -> tuple[Any, Any]:
        """Return what the optimizer makes of a gradient of one number everywhere, and its state after it.

        Arguments:
            gradient: the number.
            average: what averages are before; those of squares are its square.
            state: with the counters and whatever else it has; by default as it begins.
            params: what parameters are.
        """

        def all_of(value: float) -> Change:
            return lambda _, leaf: jnp.full(leaf.shape if state is None else _small(leaf.ndim), value, np.float32)

        one, square = all_of(average), all_of(average**2)
        small = _replaced(
            self._optimizer.init(self._zeros) if state is None else state, trace=one, mu=one, nu=square, nu_max=square
        )
        given = [
            mapped(lambda leaf, value=value: jnp.full_like(leaf, value), self._zeros) for value in (gradient, params)
        ]
        updates, after = self._optimizer.update(given[0], small, given[1])
        return jnp.stack([jnp.reshape(leaf, ()) for leaf in jax.tree.leaves(updates)]), after

    def _values(self, state: Any, field: str) -> Any:
        """Return one number of each parameter's average; 0 where there is none."""
        found = read(state, field)
        return jnp.stack([jnp.reshape(found.get(path, np.float32(0.0)), ()) for path in self._form.paths])

    def _asked(self) -> Any:
        answers, _ = self._made(_SMALL, 0.0, params=1.0)
        fresh, added = self._made(_SMALL, 0.0)
        kept, left = self._made(0.0, _SMALL)
        both, _ = self._made(2.0 * _SMALL, 2.0 * _SMALL)
        sizes = {"mu": _SMALL, "nu": _SMALL**2}
        moments = [
            jnp.stack([self._values(state, name) / size for name, size in sizes.items()], axis=1)
            for state in (left, added)
        ]
        return answers, fresh, kept, both, *moments

    def rates(self, state: Any) -> Any:
        """Return by what a step made in a state multiplies each momentum, and where that is Nesterov's, its decay."""
        fresh, added = self._made(_SMALL, 0.0, state)
        kept, after = self._made(0.0, _SMALL, state)
        decay, new = self._values(after, "trace"), self._values(added, "trace")  # which may be of scaled gradients
        plain, other = -kept / jnp.where(decay == 0.0, 1.0, decay), -fresh / jnp.where(new == 0.0, 1.0, new)
        nesterov = (jnp.abs(other - plain) > 1e-3 * jnp.abs(other)) & (decay != 0.0)
        rates = jnp.where(nesterov, other - plain, other)  # it multiplies a gradient by 1 + decay, and an average, too
        return jnp.stack([rates, jnp.where(nesterov, decay / _SMALL, 0.0)])

    # The team's averages

    def with_momentum(
        self, state: Any, before: Any, newest: Any, kept: dict[str, Any] | None, rates: Any, steps: Any
    ) -> tuple[Any, Any, Any]:
        """Return parameters, a state with the momentum by which so many steps lead to them, and its `rates`.

        Arguments:
            state: of a rank.
            before, newest: vectors of the parameters from which the steps lead, and to which.
            kept: the team's last momentum, by paths; None where no parameter's is Nesterov's.
            rates: those of the steps; a schedule may have others after them.
            steps: their number.
        """
        form = self._form
        back = [old - new for old, new in zip(form.parts(before), form.parts(newest), strict=True)]
        moved = dict(zip(form.paths, zip(back, 1.0 / (rates[0] * steps), rates[1], strict=True), strict=True))

        def momentum(path: str, leaf: Any) -> Any:
            by, scale, decay = moved[path]
            found = by * scale if kept is None else (by * scale + decay * kept[path]) / (1.0 + decay)
            return jnp.where(jnp.isfinite(scale), found, leaf).astype(leaf.dtype)

        return form.params(newest), _replaced(state, trace=momentum), self.rates(state)

    def with_moments(self, state: Any, newest: Any, steps: Any) -> tuple[Any, Any]:
        """Return parameters, and a state with other moments and another number of steps.

        Arguments:
            state: of a rank.
            newest: a vector of the parameters, their first moments if there are any, and their second ones.
            steps: the number.
        """
        form, length = self._form, sum(self._form.sizes)
        moments = [
            dict(zip(form.paths, form.parts(newest[begin : begin + length]), strict=True))
            for begin in range(length, (2 + self.first) * length, length)
        ]

        def first(path: str, leaf: Any) -> Any:
            return moments[0][path].astype(leaf.dtype)

        def second(path: str, leaf: Any) -> Any:
            return moments[-1][path].astype(leaf.dtype)

        def largest(path: str, leaf: Any) -> Any:
            return jnp.maximum(leaf, second(path, leaf))

        def count(_: str, leaf: Any) -> Any:
            return jnp.asarray(steps, leaf.dtype)

        return form.params(newest), _replaced(state, mu=first, nu=second, nu_max=largest, count=count)

    def prepared(self, params: Any, state: Any, gradients: Any, share: Any) -> tuple[Any, list[Any]]:
        """Return a state that will add a part of a gradient's square less, and what the optimizer will square."""

        def nothing(_: str, leaf: Any) -> Any:
            return jnp.zeros_like(leaf)

        _, after = self._optimizer.update(gradients, _replaced(state, mu=nothing, nu=nothing), params)
        firsts, seconds = read(after, "mu"), read(after, "nu")
        decay = dict(zip(self._form.paths, self.decay, strict=True))
        squared: dict[str, Any] = {}
        for path, leaf in zip(self._form.paths, jax.tree.leaves(gradients), strict=True):
            first, second = decay[path]
            squared[path] = jnp.zeros_like(leaf)
            if path in firsts:
                squared[path] = firsts[path] / (1.0 - first)
            elif path in seconds:
                squared[path] = jnp.sqrt(seconds[path] / (1.0 - second)) * jnp.sign(leaf)

        def tempered(path: str, leaf: Any) -> Any:
            second = decay[path][1]
            less = share * (1.0 - second) / second * squared[path] ** 2 if second else 0.0
            return (leaf - less).astype(leaf.dtype)

        return _replaced(state, nu=tempered), list(squared.values())

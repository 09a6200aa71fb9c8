"""A pytree of parameters and a state of optax, as meetings see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, final

import numpy as np

from erasurehead._internal.arrays import Array, finite
from erasurehead.jax._averages import read
from erasurehead.jax._form import PytreeForm, Transformation, jax, jnp, mapped
from erasurehead.jax._programs import Programs
from erasurehead.torch._rank_model import RankModel, TeamMoments, TeamMomentum
from erasurehead.torch._streams import subtract

_Version: TypeAlias = Callable[[Any, Any, Any, Any], tuple[Any, Any, Any]]
"""Parameters, state, and a gradient with its share, or None, to what `Programs.update` returns, of a version."""


def named(tree: Any) -> dict[str, Any]:
    """Return the leaves of a pytree as arrays of NumPy, by their paths; what NumPy does not know, as what it does."""

    def plain(leaf: Any) -> Any:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return np.asarray(jax.random.key_data(leaf))
        return np.asarray(leaf.astype(np.float32) if leaf.dtype == jnp.bfloat16 else leaf)

    found, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): plain(jnp.asarray(leaf)) for path, leaf in found}


def filled(tree: Any, leaves: Any) -> Any:
    """Return a pytree with other leaves, which `named` has returned of one like it."""

    def own(path: Any, leaf: Any) -> Any:
        value = jnp.array(leaves[jax.tree_util.keystr(path)])
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(value, impl=jax.random.key_impl(leaf))
        return value.astype(leaf.dtype)

    return jax.tree_util.tree_map_with_path(own, tree)


@final
class PytreeModel(RankModel):
    """Parameters and an optimizer's state as they are here; each step and each version of the team's replaces them.

    Arguments:
        programs: what is compiled.
        optimizer: of optax's form.
        form: of the parameters.
        params: the first ones.

    Attributes:
        written: the vector that parameters have been made of already, beside what is averaged.
        gradient: of the step under way.
        terms: of its sum, where it is one: by what each is multiplied, and gradients.
        squares: where the next step writes what its optimizer squares, and the share of that, if somebody wants it.
    """

    ends_step = "the team's step"
    weighs = "give team.step weighted=True, and let the loss return a sum and its weight"

    def __init__(self, programs: Programs, optimizer: Transformation, form: PytreeForm, params: Any) -> None:
        self.programs, self.form = programs, form
        self.dtype, self.n_tensors = form.wide, len(form.paths)
        self.n_parameters = self.length = sum(form.sizes)
        (self._device,) = jax.tree.leaves(params)[0].devices()
        self._params = mapped(jnp.copy, params)
        state = mapped(jnp.copy, optimizer.init(self._params))  # which may hold the parameters themselves
        self._state: Any = jax.device_put(state, self._device)  # so that all that is made of it stays there
        self._version: _Version | None = None  # that was taken, and that parameters and state are yet to become
        self.written: Array | None = None
        self.gradient: Any = None
        self.terms: list[tuple[float, Any]] = []
        self.squares: tuple[Array, float] | None = None
        self._lent: tuple[Any, Any] = None, None
        self._finite = True

    @property
    def params(self) -> Any:
        """The parameters as they are now."""
        self.settle()
        return self._params

    @property
    def state(self) -> Any:
        """The optimizer's state as it is now."""
        self.settle()
        return self._state

    @state.setter
    def state(self, state: Any) -> None:
        self._state = state

    def go_on_from(self, version: _Version, vector: Array) -> None:
        """Go on from a version that was taken, in one run with the step that may follow.

        Arguments:
            version: makes parameters and state those of the version.
            vector: which begins with its parameters.
        """
        self.own()
        self._version, self.written = version, vector

    def settle(self) -> None:
        """Be what the version is that was taken, if there is one."""
        version, self._version = self._version, None
        if version is not None:
            self._params, self._state, _ = version(self._params, self._state, None, None)

    # What the script gives and gets

    def lend(self) -> tuple[Any, Any]:
        """Return parameters and state for the script, which may read them until its next step."""
        self._lent = self.params, self.state
        return self._lent

    def take_back(self, params: Any, state: Any) -> None:
        """Go on from what the script has, if it is not what it was lent; else from what has become of that."""
        if params is not self._lent[0]:
            self._params = params
        if state is not self._lent[1]:
            self._state = state
        self._lent = None, None

    def own(self) -> None:
        """Let parameters and state be given away in a step: copies, if the script has them."""
        self.settle()
        if self._params is self._lent[0]:
            self._params = mapped(jnp.copy, self._params)
        if self._state is self._lent[1]:
            self._state = mapped(jnp.copy, self._state)

    def differentiate(self, batch: Any, words: Any) -> Any:
        """Compute the gradient; return what the loss returns."""
        room = mapped(jnp.copy, self.params) if self.gradient is None else self.gradient
        metrics, _, self.gradient, finite = self.programs.gradients(room, self.params, batch, words)
        self._finite = bool(finite)
        return metrics

    def add(self, batch: Any, words: Any, factor: float) -> tuple[Any, float]:
        """Add the gradient of some samples, times a factor; return what the loss returns, and its weight.

        The first ones begin a sum if `terms` are empty.
        """
        metrics, weight, gradient, finite = self.programs.sums(self.params, batch, words)
        self._finite = bool(finite) and (self._finite or not self.terms)
        self.terms.append((factor, gradient))
        return metrics, float(weight)

    def step(self) -> None:
        """Make the optimizer's step."""
        step, self._version = self._version or self.programs.update, None
        self.own()
        (out, share), self.squares = self.squares or (None, None), None
        self._params, self._state, squared = step(self._params, self._state, self.gradient, share)
        if out is not None:
            self.form.read(squared, out)

    def alone(self, batch: Any, words: Any) -> Any:
        """Do both at once, for a team of one."""
        self._params, self._state, metrics = self.programs.alone(self._params, self._state, batch, words)
        return metrics

    def at(self, vector: Array, room: Any = None) -> Any:
        """Return the parameters that lie in a vector; in the room of others, which are given away."""
        return self.programs.at(room, jax.device_put(vector[: self.length], self._device))

    # What meetings ask

    def moments(self) -> _Moments | None:
        return _Moments(self) if self.programs.averages.kind == "moments" else None

    def momentum(self) -> _Momentum | None:
        return _Momentum(self) if self.programs.averages.kind == "momentum" else None

    def check(self) -> None:
        pass

    def read(self, out: Array) -> Array:
        return self.form.read(jax.tree.leaves(self.params), out)

    def write(self, vector: Array) -> None:
        if vector is not self.written:
            self.own()
            self._params = self.at(vector, self._params)
        self.written = None

    def change(self, before: Array, out: Array) -> bool:
        base, parts = self.form.flat_parts(before[: self.length]), self.form.flat_parts(out)
        seen = (numbers.reshape(-1) for numbers in self.form.seen(jax.tree.leaves(self.params)))
        return subtract(zip(seen, base, parts, strict=True), out)

    def finite(self) -> bool:
        return finite(self.read(self.room()))

    def finite_gradients(self) -> bool:
        return self._finite

    def gradients(self, out: Array, present: Array) -> None:
        parts = self.form.parts(out)
        for place, (factor, gradient) in enumerate(self.terms or [(1.0, self.gradient)]):
            for numbers, part in zip(self.form.seen(jax.tree.leaves(gradient)), parts, strict=True):
                if place:
                    part += np.multiply(numbers, factor, dtype=part.dtype)
                else:
                    np.multiply(numbers, factor, out=part, dtype=part.dtype)
        present[:] = 1.0

    def set_gradients(self, vector: Array, present: Array) -> None:
        self.gradient = self.at(vector, self.gradient)

    def packed(self) -> Any:
        return named(self.state)

    def unpack(self, packed: Any) -> None:
        self.state = filled(self.state, packed)


@final
class _Momentum(TeamMomentum):
    def __init__(self, model: PytreeModel) -> None:
        super().__init__()
        self._model = model
        self._kept: dict[str, Any] = {}  # the team's last one
        self._rates: Any = None  # of the steps since then

    def keep(self) -> None:
        self._rates = self._model.programs.rates(self._model.state)
        self._copy()

    def _copy(self) -> None:
        self._kept = mapped(jnp.copy, read(self._model.state, "trace"))  # the state is given away

    def set(self, before: Array, newest: Array, steps: float) -> None:
        model = self._model
        model.settle()
        rates, nesterov = np.asarray(self._rates)
        kept = self._kept if nesterov.any() else None
        vectors = before[: model.length], newest[: model.length]

        def version(*given: Any) -> tuple[Any, Any, Any]:
            *made, self._rates = model.programs.with_momentum(*given, *vectors, kept, self._rates, steps)
            return made[0], made[1], made[2]

        model.go_on_from(version, newest)
        if kept is not None or not rates.all():  # at a rate of 0, it is not known whether it is Nesterov's
            self._copy()


@final
class _Moments(TeamMoments):
    def __init__(self, model: PytreeModel) -> None:
        self._model, self.n_parameters, self.first = model, model.length, model.programs.averages.first
        self._versions = 0.0

    @property
    def decay(self) -> tuple[tuple[int, float, float], ...]:
        every: list[Any] = self._model.programs.averages.decay
        ends = zip(np.cumsum(self._model.form.sizes).tolist(), every, [*every[1:], None], strict=True)
        return tuple((end, own[0], own[1]) for end, own, following in ends if own != following)

    def read(self, out: Array) -> None:
        state, form = self._model.state, self._model.form
        out[:] = 0.0
        for name, moments in zip(("nu", "mu"), reversed(np.split(out[:-1], 1 + self.first)), strict=False):
            own = read(state, name)
            for path, part in zip(form.paths, form.parts(moments), strict=True):
                part[...] = own.get(path, 0.0)
        out[-1] = max([self._versions, *(float(leaf) for leaf in read(state, "count").values())])

    def write(self, newest: Array) -> None:
        self._versions = float(newest[-1])
        programs, steps = self._model.programs, self._versions

        def version(*given: Any) -> tuple[Any, Any, Any]:
            return programs.with_moments(*given, newest, steps)

        self._model.go_on_from(version, newest)

    def prepare(self, out: Array, ranks: int) -> None:
        self._model.squares = out, (1.0 - 1.0 / ranks) * (self._versions > 0.0)  # in the run of the step itself

"""What a meeting needs of a model and its optimizer, whichever library trains them: vectors, and nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.torch._ways._busy import COUNTED


class TeamMoments(ABC):
    """The running means of gradients, where there are, and of their squares in an optimizer's state.

    Attributes:
        n_parameters: elements of each of them.
        first: whether there are first moments.
    """

    n_parameters: int
    first: bool

    @property
    def length(self) -> int:
        """Number of elements of all moments."""
        return (1 + self.first) * self.n_parameters

    @property
    @abstractmethod
    def decay(self) -> tuple[tuple[int, float, float], ...]:
        """Up to which parameters moments are multiplied by what at each version: the end, first and second ones."""

    @abstractmethod
    def read(self, out: Array) -> None:
        """Copy the moments, and then numbers of steps, into a vector; 0 where there are none yet."""

    @abstractmethod
    def write(self, newest: Array) -> None:
        """Replace the moments by the team's, where there are any.

        Arguments:
            newest: the model, all moments, `totals` of its parameters, and a counter; it stays as it is.
        """

    @abstractmethod
    def prepare(self, out: Array, ranks: int) -> None:
        """Copy what the optimizer squares into a vector, by the end of its step: gradients, with weights that decay.

        And let the next step add the square of this rank's gradient divided by the number of ranks, not the whole. So
        noisy it would be if all ranks' gradients were averaged. It counts in the first versions, which make the
        moment by themselves, and where the moment forgets soon.
        """


class TeamMomentum(ABC):
    """The momentum of SGD, which is how far the model moves in a step.

    With Nesterov's, m, a step is r (g + m u') = r ((1 + m) u' - m u), so that u' = (step / r + m u) / (1 + m): a rank
    needs the team's last one, too. What it does not know of that, as it came later, more than halves with each version.
    """

    def __init__(self) -> None:
        self._before: Array | None = None

    def forget(self) -> None:
        """Begin anew after a model that no steps led to, such as a loaded one."""
        self._before = None

    def write(self, newest: Array) -> None:
        """Replace the momentum by that with which the team came from the model of the last call to this one.

        Arguments:
            newest: the model, `totals` of its parameters, and a counter of steps by ranks; it stays as it is.
        """
        before, self._before = self._before, newest
        if before is None:
            self.keep()
        else:
            steps = float(newest[-1] - before[-1]) % COUNTED
            if 0.0 < steps < 0.5 * COUNTED:
                self.set(before, newest, steps)

    @abstractmethod
    def keep(self) -> None:
        """Let the momentum that the optimizer has be the team's, for Nesterov's; 0 where there is none."""

    @abstractmethod
    def set(self, before: Array, newest: Array, steps: float) -> None:
        """Replace the momentum by that with which so many steps lead from one model to another."""


class RankModel(ABC):
    """The parameters that an optimizer has, and then the buffers of their model, as one vector.

    Attributes:
        dtype: of the vector: float64 if a parameter is, else float32.
        n_tensors: number of parameters, each of which may have a gradient or none.
        n_parameters: elements of the vector that are parameters; the others are buffers.
        length: elements of the vector.
        rates: of the optimizer's groups of parameters, if it has any, with what else schedulers change.
    """

    dtype: np.dtype[Any]
    n_tensors: int
    n_parameters: int
    length: int
    ends_step: str
    """What a script calls to make a step."""
    weighs: str
    """What it does where losses have weights, as it is told."""
    sizes: Sequence[int] = ()
    """Of the parameters, if steps may leave some alone."""

    def counts(self, out: Array) -> None:  # noqa: B027
        """Write what the step counts for each parameter that it does not leave alone, as `Busy` is sent it."""

    def hooked(self, call: Callable[[], None]) -> AbstractContextManager[None]:
        """Return a context in whose step something is called when gradients are as the optimizer will have them."""
        call()
        return nullcontext()

    @property
    def rates(self) -> list[float]:
        return []

    @abstractmethod
    def moments(self) -> TeamMoments | None:
        """Return what the optimizer averages of squares, if it does."""

    @abstractmethod
    def momentum(self) -> TeamMomentum | None:
        """Return the momentum of SGD, if that is the optimizer."""

    @abstractmethod
    def check(self) -> None:
        """See whether the model is still the one that the ranks agreed on.

        Raises:
            InvalidArgument: if not.
        """

    def room(self, more: int = 0) -> Array:
        """Return a new vector of zeros, with more elements behind the model's."""
        return np.zeros(self.length + more, self.dtype)

    @abstractmethod
    def read(self, out: Array) -> Array:
        """Copy the model into a vector, and return it."""

    @abstractmethod
    def write(self, vector: Array) -> None:
        """Copy a vector into the model."""

    def write_under_way(self, vector: Array, buffers: Array) -> None:
        """Copy a vector into the model, and keep what a forward pass has changed in buffers that were as these."""
        self.write(vector)

    def read_buffers(self, out: Array) -> Array:
        """Copy the buffers, which are the model's last elements, into a vector, and return it."""
        return out

    def write_buffers(self, vector: Array) -> None:  # noqa: B027
        """Copy a vector into the buffers."""

    @abstractmethod
    def change(self, before: Array, out: Array) -> bool:
        """Write the model less a vector, and return whether that is finite."""

    @abstractmethod
    def finite(self) -> bool:
        """Return whether all parameters are finite."""

    @abstractmethod
    def finite_gradients(self) -> bool:
        """Return whether all gradients are finite."""

    @abstractmethod
    def gradients(self, out: Array, present: Array) -> None:
        """Copy the gradients into a vector, 0 where there is none, and note for each parameter whether there is."""

    @abstractmethod
    def set_gradients(self, vector: Array, present: Array) -> None:
        """Copy parts of a vector into the gradients, where any rank had one."""

    def at_rates(self, rates: Sequence[float]) -> AbstractContextManager[None]:
        """Return a context in which groups have other rates."""
        return nullcontext()

    @abstractmethod
    def packed(self) -> Any:
        """Return the state of the optimizer as tensors and plain data, for another rank."""

    @abstractmethod
    def unpack(self, packed: Any) -> None:
        """Go on from what another rank has packed."""

    def stepped(self) -> None:  # noqa: B027
        """Note that a step was made, whose work may go on elsewhere, such as on a GPU."""

    def await_step(self) -> None:  # noqa: B027
        """Let what this thread asks of the model come after that work."""

"""Decoders whose weights are prescribed rather than optimal: one step, or fixed per message.

Their sessions still give wait rules the *optimal* residual, which never rises, while that of prescribed weights may.
The decoding that they return has the residual of its own weights.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from erasurehead.codes import GradientCode
from erasurehead.decoding._base import Decoder, Decoding, Session, residual_of
from erasurehead.decoding._choice import make_decoder
from erasurehead.decoding._one_step import SumMoments
from erasurehead.errors import counted, invalid, shown

from ..arrays import Array, IntArray


class _Prescribed(Decoder):
    """A decoder whose weights are given by the arrivals, beside an optimal one for the session's residual."""

    def __init__(self, code: GradientCode, optimal: Decoder | None) -> None:
        if code.n_pieces != 1:
            hint = "use make_decoder(code): a sum of pieces is no gradient"
            raise invalid("code", "must have one piece", f"{code.n_pieces} pieces", hint)
        self.code = code
        self.optimal = optimal if optimal is not None else make_decoder(code)
        self.slack = self.optimal.slack

    def begin(self) -> Session:
        return _PrescribedSession(self.code, self.optimal.begin(), self.weigh)

    @abstractmethod
    def weigh(self, messages: IntArray) -> Array:
        """Return the weights of the messages that have arrived, ascending."""


@final
class OneStep(_Prescribed):
    """One weight for all arrived messages, which depends only on their number: nothing has to be solved.

    Arguments:
        code: a code with one piece.
        aim: `"unbiased"`: every task is counted once on average over random sets of arrivals. The weight rho is then
            k / (r s) for k tasks, r arrivals and a mean load of s (Charles et al.); where there are as many tasks as
            workers, that is n / ((n - t) d) for t stragglers of n workers and d replicas (Raviv et al.);
            `"mmse"`: the rho with the least mean residual, which shrinks the estimate.
        optimal: decoder for the session's residual; `make_decoder(code)` if None.

    Raises:
        InvalidArgument: if the code cuts gradients into pieces, its coefficients add up to zero, or the aim is unknown.

    The least mean residual is that of this particular code over random sets; the formula m / (m^2 + v) for Bernoulli
    codes averages over codes as well and is a little worse for each of them.

    Source: Charles, Papailiopoulos, Ellenberg, arXiv 1711.06771, section 2; Raviv et al., arXiv 1707.03858, section 5.
    """

    def __init__(
        self, code: GradientCode, aim: Literal["unbiased", "mmse"] = "unbiased", optimal: Decoder | None = None
    ) -> None:
        if aim not in ("unbiased", "mmse"):
            raise invalid("aim", "must be 'unbiased' or 'mmse'", aim)
        super().__init__(code, optimal)
        self.aim = aim
        self._moments = SumMoments.of(code)
        if self._moments.vanish:
            raise invalid("code", "must have coefficients whose sum is not zero", code, "use make_decoder(code)")

    def rho(self, n_arrived: int) -> float:
        """Return the weight when `n_arrived` messages have arrived; 0 when none has."""
        if not n_arrived:
            return 0.0
        if self.aim == "mmse":
            return self._moments.along(n_arrived) / self._moments.square(n_arrived)
        return self.code.n_tasks / self._moments.along(n_arrived)

    def expected_residual(self, n_arrived: int) -> float:
        """Return the mean residual over all sets of `n_arrived` messages, in closed form."""
        if self.aim == "unbiased":
            return self._moments.residual(self.code.n_tasks, n_arrived)
        rho = self.rho(n_arrived)
        along, square = self._moments.along(n_arrived), self._moments.square(n_arrived)
        return self.code.n_tasks - 2 * rho * along + rho**2 * square

    def __repr__(self) -> str:
        return f"OneStep({self.code!r}, aim={self.aim!r})"

    def weigh(self, messages: IntArray) -> Array:
        return np.full(len(messages), self.rho(len(messages)))


@final
class FixedWeights(_Prescribed):
    """A fixed weight for each message, independent of the other arrivals: unbiased for the right weights.

    Arguments:
        code: a code with one piece.
        weights: finite, shape (n_messages,); those of the code (`Structure.weights`) if None.
        optimal: decoder for the session's residual; `make_decoder(code)` if None.

    Raises:
        InvalidArgument: if no weights are given and the code has none, or they have a wrong shape.

    Source: Song and Choi, arXiv 2510.22539 (unequal workers); Bitar et al., arXiv 1905.05383 (equal ones).
    """

    def __init__(self, code: GradientCode, weights: Array | None = None, optimal: Decoder | None = None) -> None:
        super().__init__(code, optimal)
        carried = code.structure.weights if weights is None else weights
        if carried is None:
            hint = "give weights, or use a heterogeneous or stochastic code"
            raise invalid("weights", "must be given for a code that carries none", code, hint)
        table = np.array(carried, dtype=np.float64)
        if table.shape != (code.n_messages,) or not np.isfinite(table).all():
            rule = f"must be one finite number for each of the {counted('message', code.n_messages)}"
            raise invalid("weights", rule, f"an array of shape {table.shape}")
        self.weights = table

    def __repr__(self) -> str:
        own = self.code.structure.weights
        given = "" if own is not None and np.array_equal(own, self.weights) else f", {shown(self.weights.tolist())}"
        return f"FixedWeights({self.code!r}{given})"

    def weigh(self, messages: IntArray) -> Array:
        return self.weights[messages]


@final
class _PrescribedSession(Session):
    def __init__(self, code: GradientCode, optimal: Session, weigh: Callable[[IntArray], Array]) -> None:
        self.code = code
        self._optimal = optimal
        self._weigh = weigh
        self._arrived: NDArray[np.bool_] = np.zeros(code.n_messages, dtype=bool)

    def _add(self, message: int) -> None:
        self._arrived[message] = True
        self._optimal.add(message)

    def _extend(self, added: IntArray) -> None:
        self._arrived[added] = True
        self._optimal.extend(added)

    def residual(self) -> float:
        return self._optimal.residual()

    def exact(self) -> bool:
        return self._optimal.exact()

    def decoding(self) -> Decoding:
        messages = np.flatnonzero(self._arrived)
        weights = self._weigh(messages)[None, :]
        return Decoding(self.code, messages, weights, residual_of(self.code, messages, weights))

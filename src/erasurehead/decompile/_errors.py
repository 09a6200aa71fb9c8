"""What the decompiler refuses, and what its checks find."""

from __future__ import annotations

from erasurehead.decompile._program import SourceLocation
from erasurehead.errors import ErasureHeadError, InvalidArgument


class Unsupported(InvalidArgument):
    """A function uses what cannot be written in the wanted backend.

    Arguments:
        primitive: name of JAX's primitive, or of what stands in the way.
        backend: `"jax"` or `"numpy"`.
        reason: why, as a sentence without a full stop.
        where: the place in the user's source; None if it is not known.
    """

    def __init__(self, primitive: str, backend: str, reason: str, where: SourceLocation | None = None) -> None:
        self.primitive, self.backend, self.reason, self.where = primitive, backend, reason, where
        place = f" ({where})" if where else ""
        sentence = f"{primitive} cannot be decompiled to {backend}: {reason}{place}."
        super().__init__("function", f"must do without {primitive}", sentence=sentence)

    def at(self, where: SourceLocation | None) -> Unsupported:
        """Return the same error at a place in the user's source."""
        return Unsupported(self.primitive, self.backend, self.reason, where)


class CheckFailed(ErasureHeadError, ArithmeticError):
    """A decompiled or edited function does not compute what the original does; the message says where it differs."""

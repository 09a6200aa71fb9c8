"""The report of a check."""

from __future__ import annotations

from dataclasses import dataclass, field

from erasurehead.decompile._errors import CheckFailed


@dataclass(frozen=True)
class Difference:
    """An output that differs from what it should be.

    Arguments:
        output: the output, as a path into the result; empty if it is the result.
        draw: number of the draw of inputs; 0 for the examples.
        kind: `"structure"`, `"shape"`, `"dtype"` or `"value"`.
        text: what differs, as a sentence without a full stop.
        amount: size of the difference: in units in the last place with jax, as a multiple of the tolerance with numpy.
        flip: the comparison or rounding that went the other way within rounding; empty if there is none.
    """

    output: str
    draw: int
    kind: str
    text: str
    amount: float = 0.0
    flip: str = ""

    def __str__(self) -> str:
        where = f"output {self.output}" if self.output else "the output"
        which = "the examples" if self.draw == 0 else f"draw {self.draw}"
        return f"{where}, on {which}: {self.text}" + (f"; {self.flip}" if self.flip else "")


@dataclass
class CheckReport:
    """The result of a check.

    Arguments:
        name: name of the function.
        backend: backend of the source.
        drawn: number of fresh inputs that were tried.
        counted: number of informative draws: their outputs are not all NaN, and differ from those of the examples.
        flipped: number of draws in which a comparison, a rounding, a sort or a search went the other way within
            rounding; they do not count.
        worst: the greatest difference: in units in the last place with jax, as a multiple of the tolerance with numpy.
        differences: the outputs that differ, the worst of each.
        notes: what else is to be known.
    """

    name: str
    backend: str
    drawn: int = 0
    counted: int = 0
    flipped: int = 0
    worst: float = 0.0
    differences: list[Difference] = field(default_factory=list[Difference])
    notes: list[str] = field(default_factory=list[str])

    @property
    def passed(self) -> bool:
        """Whether no output differs."""
        return not self.differences

    def raise_if_wrong(self) -> None:
        """Raise CheckFailed if an output differs."""
        if not self.passed:
            raise CheckFailed(str(self))

    def __str__(self) -> str:
        tried = f"the examples and {self.counted} of {self.drawn} draws"
        if self.flipped:
            tried += f" ({self.flipped} left out, as a comparison or a rounding flips within rounding)"
        if self.passed:
            far = (
                "to the bit"
                if self.worst == 0
                else f"to {self.worst:.0f} units in the last place"
                if self.backend == "jax"
                else f"to {self.worst:.2g} of the tolerance"
            )
            sentence = f"{self.name} does the same on {tried}, {far}."
        else:
            sentence = f"{self.name} differs (checked on {tried}): " + "; ".join(map(str, self.differences)) + "."
        return " ".join([sentence, *self.notes])

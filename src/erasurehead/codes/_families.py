"""A family of codes: its constructor, and what its signature and docstring say."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from erasurehead.codes._base import GradientCode

Status = Literal["exact", "approximate", "depends"]

_SECTIONS = ("Arguments", "Structure", "Guarantees", "Choose it", "Raises")


@dataclass(frozen=True)
class Family:
    """One row of the catalogue: a constructor, with what its docstring and its example say.

    Arguments:
        constructor: builds a code from its parameters.
        status: `"exact"` if a positive number of stragglers can be tolerated exactly, `"approximate"` if not,
            `"depends"` if that depends on the parameters.
        promise: the guarantee in a few words, without conditions; `guarantee` has the whole text.
        example: builds a small code of the family.
    """

    constructor: Callable[..., GradientCode]
    status: Status
    promise: str
    example: Callable[[], GradientCode]

    @property
    def name(self) -> str:
        """The name by which `build` knows the family."""
        return self.constructor.__name__

    @property
    def signature(self) -> str:
        """The constructor's signature as it is written: `"uncoded(n_workers, n_tasks=None)"`."""
        parameters = inspect.signature(self.constructor).parameters.values()
        plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
        return f"{self.name}{inspect.Signature(plain)}"

    @cached_property
    def _sections(self) -> dict[str, str]:
        return _sections(inspect.getdoc(self.constructor) or "")

    @property
    def summary(self) -> str:
        """What the code is, in one line."""
        return self._sections["Summary"]

    @property
    def guarantee(self) -> str:
        """What is guaranteed for every code of the family."""
        return self._sections["Guarantees"]

    @property
    def choose(self) -> str:
        """When to choose it."""
        return self._sections["Choose it"]

    @property
    def arguments(self) -> Mapping[str, str]:
        """The meaning of each parameter, in the order of the signature."""
        return _entries(self._sections["Arguments"])

    @cached_property
    def example_code(self) -> GradientCode:
        """A small code of the family."""
        return self.example()

    @property
    def source(self) -> str:
        """Paper and section, from the family's codes."""
        return self.example_code.source

    def row(self) -> dict[str, object]:
        """Return the row as plain data, for tables and JSON."""
        code = self.example_code
        return {
            "name": self.name,
            "signature": self.signature,
            "status": self.status,
            "summary": self.summary,
            "promise": self.promise,
            "guarantee": self.guarantee,
            "choose": self.choose,
            "source": self.source,
            "arguments": dict(self.arguments),
            "decoder": code.structure.decoder,
            "example": {
                "call": repr(code),
                "n_workers": code.n_workers,
                "n_tasks": code.n_tasks,
                "n_pieces": code.n_pieces,
                "load": code.load,
                "tolerance": code.tolerance,
            },
        }


def _sections(docstring: str) -> dict[str, str]:
    """Split a constructor's docstring into summary and named sections, each on one line except for `Arguments`."""
    lines = docstring.splitlines()
    sections = {"Summary": lines[0]}
    current = ""
    for line in lines[1:]:
        head, colon, rest = line.partition(":")
        if colon and head in _SECTIONS:
            current = head
            sections[current] = rest.strip()
        elif not line.strip():
            current = current if current == "Arguments" else ""
        elif current == "Arguments":
            sections[current] += f"\n{line}"
        elif current:
            sections[current] = f"{sections[current]} {line.strip()}".strip()
    return sections


def _entries(text: str) -> dict[str, str]:
    entries: dict[str, str] = {}
    current = ""
    for line in textwrap.dedent(text.strip("\n")).splitlines():
        if line and not line[0].isspace():
            current, _, rest = line.partition(":")
            entries[current] = rest.strip()
        elif current:
            entries[current] = f"{entries[current]} {line.strip()}".strip()
    return entries

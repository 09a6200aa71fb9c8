"""Python source as text: expressions with their precedence, unique names, and line wrapping as by ruff."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH = 88
"""Maximal line length, ruff's default."""

(LAMBDA, OR, AND, NOT, COMPARE, BIT_OR, BIT_XOR, BIT_AND, SHIFT, SUM, PRODUCT, UNARY, POWER, ATOM) = range(14)

_LEVELS = {
    "or": OR,
    "and": AND,
    "<": COMPARE,
    "<=": COMPARE,
    ">": COMPARE,
    ">=": COMPARE,
    "==": COMPARE,
    "!=": COMPARE,
    "|": BIT_OR,
    "^": BIT_XOR,
    "&": BIT_AND,
    "<<": SHIFT,
    ">>": SHIFT,
    "+": SUM,
    "-": SUM,
    "*": PRODUCT,
    "/": PRODUCT,
    "//": PRODUCT,
    "%": PRODUCT,
    "@": PRODUCT,
    "**": POWER,
}


_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


@dataclass(frozen=True)
class Expr:
    """An expression.

    Arguments:
        text: its source.
        level: precedence of its outermost operator, one of the constants above.
        cost: number of operations in it.
    """

    text: str
    level: int = ATOM
    cost: int = 0

    def __str__(self) -> str:
        return self.text

    def within(self, level: int, equal: bool = True) -> str:
        """Return its text as an operand, in parentheses if needed.

        Arguments:
            level: precedence of the operator.
            equal: whether operands of equal precedence need no parentheses.
        """
        is_tight = self.level > level or (equal and self.level == level)
        return self.text if is_tight else f"({self.text})"


def _cost(operands: Iterable[Expr | str]) -> int:
    return 1 + sum(operand.cost for operand in operands if isinstance(operand, Expr))


def infix(left: Expr, operator: str, right: Expr) -> Expr:
    """Return `left operator right`."""
    if operator in _MIRRORED and left.text[:1] in "-0123456789" and right.text[:1] not in "-0123456789":
        left, operator, right = right, _MIRRORED[operator], left  # as Python calls the method of the array anyway
    level = _LEVELS[operator]
    cost = _cost((left, right))
    if operator == "**":
        a, b = left.within(POWER, equal=False), right.within(UNARY)
        simple = re.compile(r"-?(\d[\w.]*|[A-Za-z_][\w.]*)")
        gap = "" if simple.fullmatch(a) and simple.fullmatch(b) else " "
        return Expr(f"{a}{gap}**{gap}{b}", POWER, cost)
    a, b = left.within(level, equal=level != COMPARE), right.within(level, equal=False)
    return Expr(f"{a} {operator} {b}", level, cost)


def prefix(operator: str, operand: Expr) -> Expr:
    """Return `operator operand`, such as `-x`."""
    if operator == "not":
        return Expr(f"not {operand.within(NOT)}", NOT, _cost([operand]))
    return Expr(f"{operator}{operand.within(UNARY)}", UNARY, _cost([operand]))


def call(function: str, *arguments: Expr | str, **keywords: Expr | str | None) -> Expr:
    """Return a call; keywords that are None are left out."""
    given = [str(argument) for argument in arguments]
    given += [f"{name}={value}" for name, value in keywords.items() if value is not None]
    return Expr(f"{function}({', '.join(given)})", ATOM, _cost([*arguments, *(v for v in keywords.values() if v)]))


def method(operand: Expr, name: str, *arguments: Expr | str) -> Expr:
    """Return `operand.name(arguments)`."""
    given = ", ".join(map(str, arguments))
    return Expr(f"{operand.within(ATOM)}.{name}({given})", ATOM, _cost([operand, *arguments]))


def attribute(operand: Expr, name: str) -> Expr:
    """Return `operand.name`."""
    return Expr(f"{operand.within(ATOM)}.{name}", ATOM, operand.cost + 1)


def subscript(operand: Expr, index: str) -> Expr:
    """Return `operand[index]`."""
    return Expr(f"{operand.within(ATOM)}[{index}]", ATOM, operand.cost + 1)


def tuple_text(values: Iterable[object]) -> str:
    """Return a tuple as Python writes it.

    >>> tuple_text([1]), tuple_text(["a", "b"])
    ('(1,)', '(a, b)')
    """
    texts = [str(value) for value in values]
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def one_or_all(values: Sequence[Expr | str]) -> Expr | str:
    """Return the only one of values, or a tuple of them."""
    return values[0] if len(values) == 1 else tuple_text(values)


def axis_text(axes: Iterable[Any]) -> str:
    """Return a single axis as a number, several as a tuple."""
    numbers = [int(axis) for axis in axes]
    return str(numbers[0]) if len(numbers) == 1 else tuple_text(numbers)


def flag(params: Mapping[str, Any], name: str) -> str:
    """Return a boolean parameter of a primitive as Python writes it."""
    return str(bool(params[name]))


def list_text(values: Iterable[object]) -> str:
    """Return a list as Python writes it."""
    return f"[{', '.join(map(str, values))}]"


RESERVED = set(keyword.kwlist) | set(keyword.softkwlist) | set(dir(builtins))
MODULES = {"jax", "jnp", "lax", "np", "math", "scipy", "special", "linalg", "ml_dtypes", "sparse", "primitives"}


class Names:
    """Generates unique names.

    Arguments:
        taken: names that are in use.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = {*taken}

    def next(self, wanted: str) -> str:
        """Return the name that `new` would return, without reserving it."""
        name = self.new(wanted)
        self.taken.discard(name)
        return name

    def new(self, wanted: str) -> str:
        """Reserve and return a name: the wanted one, with a suffix if it is taken or reserved in Python."""
        base = wanted if wanted.isidentifier() else re.sub(r"\W", "_", wanted)
        base = base if base.isidentifier() else f"x_{base}"
        if base.startswith("__"):
            base = base.lstrip("_") or "x"
        if base in RESERVED or base in MODULES or base == "_":
            base = f"{base}_" if base != "_" else "x"
        name, number = base, 1
        stem, _, tail = base.rpartition("_")
        if stem and tail.isdigit():
            stem_of, number = stem, int(tail)
        else:
            stem_of = base
        while name in self.taken:
            number += 1
            name = f"{stem_of}_{number}"
        self.taken.add(name)
        return name


# ------------------------------------------------------------------------------------------------ line wrapping


_OPEN, _CLOSE = "([{", ")]}"


def _brackets(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield each bracket and comma outside of quotes: its position, the character, and the nesting depth after it."""
    depth, quote, position = 0, "", 0
    while position < len(text):
        c = text[position]
        if quote:
            if c == "\\":
                position += 1
            elif c == quote:
                quote = ""
        elif c in "\"'":
            quote = c
        elif c in _OPEN or c in _CLOSE or c == ",":
            depth += (c in _OPEN) - (c in _CLOSE)
            yield position, c, depth
        position += 1


def _split(text: str) -> list[str]:
    """Return the items between top-level commas."""
    items, start = list[str](), 0
    for position, c, depth in _brackets(text):
        if c == "," and depth == 0:
            items.append(text[start:position].strip())
            start = position + 1
    last = text[start:].strip()
    return [*items, last] if last else items


def _last_bracket(text: str) -> tuple[int, int] | None:
    """Return the positions of the last outermost pair of brackets that is not empty; None if there is none."""
    last, start = None, 0
    for position, c, depth in _brackets(text):
        if c in _OPEN and depth == 1:
            start = position
        elif c in _CLOSE and depth == 0 and text[start + 1 : position].strip():
            last = start, position
    return last


def wrapped(line: str, indent: int) -> list[str]:
    """Return one logical line, without its indentation, as the lines that ruff would wrap it to."""
    pad = " " * indent
    if len(pad) + len(line) <= WIDTH or line.startswith("#"):
        return [pad + line]
    bracket = _last_bracket(line)
    if bracket is None:
        return [pad + line]
    start, end = bracket
    if line[end + 1 :] not in ("", ":", ",") and not line[end + 1 :].startswith((".", "[")):
        return _in_parentheses(line, indent) or [pad + line]
    inside = line[start + 1 : end]
    head, tail = line[: start + 1], line[end + 1 - 1 :]
    if len(pad) + len(head) > WIDTH:
        return _in_parentheses(line, indent) or [pad + line]
    items = _split(inside)
    lines = [pad + head]
    if len(items) == 1 and not inside.rstrip().endswith(","):
        if len(pad) + 4 + len(items[0]) <= WIDTH:
            return [*lines, f"{pad}    {items[0]}", pad + tail]
        return [*lines, *wrapped(items[0], indent + 4), pad + tail]
    joined = ", ".join(items)
    call_like = start > 0 and (line[start - 1].isalnum() or line[start - 1] in "_])")
    if call_like and not inside.rstrip().endswith(",") and len(pad) + 4 + len(joined) <= WIDTH:
        return [*lines, f"{pad}    {joined}", pad + tail]
    for item in items:
        lines_of_item = wrapped(f"{item},", indent + 4)
        lines += lines_of_item
    return [*lines, pad + tail]


def _in_parentheses(line: str, indent: int) -> list[str] | None:
    """Return an assignment or a return with its value in parentheses, one operand per line."""
    match = re.match(r"(return |[\w, ]+ = )(.*)", line)
    if not match or match[2].startswith("("):
        return None
    pad = " " * indent
    if len(pad) + 4 + len(match[2]) > WIDTH:
        return None
    return [f"{pad}{match[1]}(", f"{pad}    {match[2]}", f"{pad})"]

"""Texts such as `first(11) | decodable()` in configurations and on the command line, read without executing them."""

from __future__ import annotations

import ast
import difflib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from erasurehead.errors import ErasureHeadError, InvalidArgument, check_type, invalid

_T = TypeVar("_T")
_SYMBOLS: Mapping[type[ast.operator], str] = {ast.BitOr: "|", ast.BitAnd: "&", ast.Add: "+"}
_NEVER_CLOSED = re.compile(r"'([\[({])' was never closed")
"""Python's message for an unclosed bracket."""
_MOST_CHARACTERS, _MOST_DEPTH, _MOST_BITS = 4 << 20, 100, 1000
"""What a text may have: a parser can be made to recurse, or to multiply, without end."""
_KNOWN_NAMES = "must use known names"
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def read_or_keep(text: str | _T, argument: str, kind: type[_T], makers: Mapping[str, Callable[..., _T]]) -> _T:
    """Return what a text describes, with errors that quote the text; anything but a text is returned as it is.

    Arguments:
        text: a call, or the object it would describe.
        argument: as in `read`.
        kind: as in `read`.
        makers: as in `read`.

    Raises:
        InvalidArgument: as `read` does.
    """
    if isinstance(text, kind):
        return text
    try:
        return read(cast("str", text), argument, kind, makers, {})
    except InvalidArgument as error:
        raise error.inside(argument, str(text)) from None


def read(
    text: str,
    argument: str,
    kind: type[_T],
    makers: Mapping[str, Callable[..., _T]],
    operators: Mapping[str, Callable[[_T, _T], _T]],
) -> _T:
    """Read a text made of calls, numbers, texts and lists, and build the object that it describes.

    Arguments:
        text: the text, such as `"first(11) | decodable()"`; calls may be nested and take named arguments.
        argument: the user's name for this text, for errors.
        kind: the type that the text must describe.
        makers: name -> the function that builds it; no other names are allowed.
        operators: symbol -> its function, for those of `|`, `&` and `+` that are allowed.

    Raises:
        InvalidArgument: if the text has another form, uses an unknown name, or a maker refuses its arguments.
    """
    given: Any = text
    check_type(argument, given, str, "must be a text")
    reader = _Reader(text, argument, kind, makers, operators)
    value = reader.whole()
    if not isinstance(value, kind):
        raise reader.wrong("must be a call")
    return value


class _Reader:
    def __init__(
        self,
        text: str,
        argument: str,
        kind: type[object],
        makers: Mapping[str, Callable[..., object]],
        operators: Mapping[str, Callable[..., object]],
    ) -> None:
        self.text, self.argument, self.kind = text, argument, kind
        self.makers, self.operators = makers, operators

    def whole(self) -> object:
        if len(self.text) > _MOST_CHARACTERS:
            raise invalid(self.argument, f"must have at most {_MOST_CHARACTERS:,} characters", self.text)
        try:
            tree = ast.parse(self.text.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            open_bracket = _NEVER_CLOSED.fullmatch(error.msg) if isinstance(error, SyntaxError) else None
            if open_bracket is not None:
                bracket = open_bracket[1]
                hint = f"a {_CLOSING[bracket]!r} is missing"
                raise invalid(self.argument, f"must close its bracket {bracket!r}", self.text, hint) from None
            raise self.wrong("must be calls joined by operators") from None
        self.check_depth(tree.body)
        return self.value(tree.body)

    def check_depth(self, node: ast.AST) -> None:
        """Raise if calls, lists, signs or operators are nested deeper than anybody would write by hand."""
        level = [node]
        for _ in range(_MOST_DEPTH):
            level = [inner for outer in level for inner in ast.iter_child_nodes(outer)]
        if level:
            raise invalid(self.argument, f"must not be nested more than {_MOST_DEPTH} deep", self.text)

    def wrong(self, rule: str, name: str = "") -> InvalidArgument:
        known = ", ".join(self.makers)
        joined = f", joined by {' and '.join(self.operators)}" if self.operators else ""
        near = difflib.get_close_matches(name, self.makers, 1)
        unknown = f"{name!r} is unknown" if near or name not in ("", self.text.strip()) else ""
        nearest = _signature(near[0], self.makers[near[0]]) if near else ""
        guess = f"{unknown}, did you mean {nearest}? Known" if near else f"{unknown}; known" if unknown else "known"
        return invalid(self.argument, rule, self.text, f"{guess} are {known}{joined}")

    def value(self, node: ast.expr) -> object:
        match node:
            case ast.Constant(value=int() as number) if number.bit_length() > _MOST_BITS:
                raise invalid(self.argument, f"must have numbers of at most {_MOST_BITS} bits", self.text)
            case ast.Constant(value=bool() | int() | float() | str() | None as constant):
                return constant
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return -number
            case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id="inf")):
                return -float("inf")
            case ast.Name(id="inf" | "nan" as word):
                return float(word)
            case ast.Name(id="true" | "false" as word):  # as in TOML and JSON
                return word == "true"
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return tuple(self.value(item) for item in items)
            case ast.BinOp(left=left, op=operator, right=right):
                return self.joined(left, _SYMBOLS.get(type(operator), "this operator"), right)
            case ast.Name(id=name) if name in self.makers:
                raise invalid(
                    self.argument, f"must be written as a call, {_signature(name, self.makers[name])}", self.text
                )
            case ast.Call(func=ast.Name(id=name), args=positional, keywords=named):
                return self.call(name, positional, named)
            case ast.Name(id=name):
                raise self.wrong(_KNOWN_NAMES, name)
            case _:
                raise self.wrong(f"must not contain {ast.unparse(node)!r}")

    def joined(self, left: ast.expr, symbol: str, right: ast.expr) -> object:
        if symbol not in self.operators:
            raise self.wrong(f"must not use {symbol}")
        sides = self.value(left), self.value(right)
        if not all(isinstance(side, self.kind) for side in sides):
            raise self.wrong(f"must have calls on both sides of {symbol}")
        return self.operators[symbol](*sides)

    def call(self, name: str, positional: list[ast.expr], named: list[ast.keyword]) -> object:
        if name not in self.makers:
            raise self.wrong(_KNOWN_NAMES, name)
        maker = self.makers[name]
        arguments = [self.value(item) for item in positional]
        if any(item.arg is None for item in named):
            raise self.wrong("must not use **")
        keywords = {str(item.arg): self.value(item.value) for item in named}
        written = f"must be written {_signature(name, maker)}"
        twice = next((item.arg for place, item in enumerate(named) if item.arg in _names(named[:place])), None)
        if twice is not None:
            raise invalid(self.argument, f"must give {twice!r} to {name} once", self.text)
        unknown = [keyword for keyword in keywords if not _takes(maker, keyword)]
        if unknown:
            raise invalid(self.argument, f"{written}, which has no {unknown[0]!r}", self.text)
        try:
            bound = inspect.signature(maker).bind(*arguments, **keywords)
        except TypeError as error:
            raise invalid(self.argument, f"{written} ({error})", self.text) from None
        for keyword, value in bound.arguments.items():
            if isinstance(bound.signature.parameters[keyword].default, bool) and value not in (True, False):
                raise invalid(self.argument, f"must give {name} True or False for {keyword}", self.text)
        try:
            return maker(*arguments, **keywords)
        except ErasureHeadError:
            raise
        except (TypeError, ValueError, AttributeError, ArithmeticError, LookupError) as error:
            raise invalid(self.argument, f"{written}, with arguments of the right types ({error})", self.text) from None


def _names(named: Sequence[ast.keyword]) -> set[str | None]:
    return {item.arg for item in named}


def _takes(maker: Callable[..., object], keyword: str) -> bool:
    parameters = inspect.signature(maker).parameters
    return keyword in parameters or any(item.kind is item.VAR_KEYWORD for item in parameters.values())


def _signature(name: str, maker: Callable[..., object]) -> str:
    parameters = inspect.signature(maker).parameters.values()
    shown = [
        f"{item.name}={item.default}" if item.default is not inspect.Parameter.empty else _starred(item)
        for item in parameters
    ]
    return f"{name}({', '.join(shown)})"


def _starred(parameter: inspect.Parameter) -> str:
    return f"*{parameter.name}" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else parameter.name

"""A table of rules, one per primitive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from erasurehead.decompile.program import Statement
from erasurehead.decompile.texts import Expr
from erasurehead.decompile.writer import Rule, Scope


class Rules(Mapping[str, Rule]):
    """Rules by the name of the primitive."""

    def __init__(self) -> None:
        self._rules: dict[str, Rule] = {}

    def __getitem__(self, op: str) -> Rule:
        return self._rules[op]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    def rule(self, *ops: str) -> Callable[[Rule], Rule]:
        """Return a decorator that registers a function as the rule of primitives."""

        def enter(function: Rule) -> Rule:
            for op in ops:
                assert op not in self._rules, f"there are two rules for {op}"
                self._rules[op] = function
            return function

        return enter

    def simple(self, write: Callable[[Scope, Statement, str], Expr], table: Mapping[str, str]) -> None:
        """Register rules that differ in one text only: a function's name, or an operator."""
        for op, text in table.items():
            self.rule(op)(_simple(write, text))


def _simple(write: Callable[[Scope, Statement, str], Expr], text: str) -> Rule:
    def rule(scope: Scope, statement: Statement) -> Expr:
        return write(scope, statement, text)

    return rule

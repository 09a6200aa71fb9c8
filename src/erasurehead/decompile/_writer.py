"""Writes a program as Python source: some values get names, the others are inlined where they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from erasurehead.decompile._errors import Unsupported
from erasurehead.decompile._numbers import bare_text
from erasurehead.decompile._program import Body, Literal, Operand, Statement, Type, Variable
from erasurehead.decompile._refusals import reason
from erasurehead.decompile._texts import ATOM, UNARY, WIDTH, Expr, Names, call, wrapped
from erasurehead.decompile._uses import DEFAULT_NAMES, Uses, uses_of

FOLDED_COST, FOLDED_LENGTH = 4, 56
"""Expressions with at most this many operations and characters are inlined."""

Rule = Callable[["Scope", Statement], "Expr | None"]
"""Writes a statement: returns its expression, a tuple for several results; None if it has emitted lines itself."""


class Backend:
    """A target of the decompiler: the rules for its primitives, and how it writes literals.

    Arguments:
        name: `"jax"` or `"numpy"`.
        module: the name of the module with its functions, `jnp` or `np`.
        dtype: returns a dtype of a name as source.
        is_bare: whether a literal may be a Python number, which takes the dtype of the other operand.
    """

    def __init__(self, name: str, module: str, dtype: Callable[[str], str], is_bare: Callable[[Literal], bool]) -> None:
        self.name, self.module, self._dtype, self._is_bare = name, module, dtype, is_bare
        self.rules: dict[str, Rule] = {}

    def rule(self, *ops: str) -> Callable[[Rule], Rule]:
        """Return a decorator that registers a function as the rule of primitives."""

        def enter(rule: Rule) -> Rule:
            for op in ops:
                assert op not in self.rules, f"there are two rules for {op}"
                self.rules[op] = rule
            return rule

        return enter

    def dtype(self, kind: Type) -> str:
        """Return the dtype of a type as source."""
        return self._dtype(kind.name)

    def typed(self, literal: Literal) -> Expr:
        """Return a literal as a scalar of its dtype."""
        return call(self.dtype(literal.type), bare_text(literal, self.module))

    def bare(self, literal: Literal) -> Expr | None:
        """Return a literal as a Python number, which takes the dtype of the other operand; None if impossible."""
        if not self._is_bare(literal):
            return None
        text = bare_text(literal, self.module)
        return Expr(text, UNARY if text.startswith("-") else ATOM)


_MULTILINE = {"while", "scan"}
"""Statements whose rules emit several lines, which assign their results."""


@dataclass
class Module:
    """The parts of a source besides its main function.

    Arguments:
        helpers: names of the helper functions that are used.
        constants: constant -> its name.
        functions: id of a block -> name of the function that is kept for it.
        lines: the lines of these functions.
        names: names in use in the module.
    """

    helpers: dict[str, None] = field(default_factory=dict[str, None])
    constants: dict[Variable, str] = field(default_factory=dict[Variable, str])
    functions: dict[int, str] = field(default_factory=dict[int, str])
    lines: list[str] = field(default_factory=list[str])
    names: Names = field(default_factory=Names)


def _is_implied(statement: Statement) -> bool:
    """Return whether a statement broadcasts by numpy's rules: new axes come first."""
    if len(statement.inputs) != 1:
        return False
    before, after = statement.inputs[0].type.shape, statement.output.type.shape
    new = len(after) - len(before)
    if statement.op == "reshape":
        return new > 0 and len(before) > 0 and after[new:] == before and set(after[:new]) == {1}
    return statement.op == "broadcast_in_dim" and tuple(statement.params["broadcast_dimensions"]) == tuple(
        range(new, len(after))
    )


class Scope:
    """The lines of one function, or of one branch or loop in it.

    Arguments:
        backend: the backend to write with.
        module: the module of the source.
        block: the block to write.
        names: names in use in the function.
        texts: variable -> its name, or the expression that stands for it.
        uses: uses of all variables.
        indent: indentation of its lines, in columns.
        comments: whether lines name the user's lines that they come from.
        unfold: whether to give every value a name.
    """

    def __init__(
        self,
        backend: Backend,
        module: Module,
        block: Body,
        names: Names,
        texts: dict[Variable, str],
        uses: dict[Variable, Uses],
        indent: int,
        comments: bool = False,
        unfold: bool = False,
        hook: Callable[[Scope, Statement, list[str]], None] | None = None,
    ) -> None:
        self.backend, self.module, self.block, self.names = backend, module, block, names
        self.texts, self.uses, self.indent, self.comments, self.unfold = texts, uses, indent, comments, unfold
        self.hook = hook
        self.lines: list[str] = []
        self.definitions: dict[Variable, Statement] = {}
        self._pending: dict[Variable, Expr] = {}
        self._lazy: dict[Variable, Statement] = {}
        self._consumed: dict[Variable, Expr] = {}
        self._inlined: dict[Variable, Expr] = {}
        self._slices: dict[Variable, tuple[Expr, list[str]]] = {}
        self._last_comment = ""

    # -------------------------------------------------------------------------------------------- for rules

    def operand(self, value: Operand) -> Expr:
        """Return a value as an expression with its own dtype and shape."""
        if isinstance(value, Literal):
            return self.backend.typed(value)
        if value in self._lazy:
            self._define(value, self._lazy.pop(value))
        if value in self._pending:
            self._consumed[value] = self._pending[value]
            return self._pending[value]
        return Expr(self.name(value))

    def atom(self, value: Operand) -> Expr:
        """Return a value as a name or a typed literal, which may be used several times in an expression."""
        self.materialize([value])
        return self.operand(value)

    def name(self, variable: Variable) -> str:
        """Return the name of a variable, which must have one."""
        if variable.constant is not None and variable not in self.texts:
            self.texts[variable] = self.module.constants[variable]
        return self.texts[variable]

    def bind(self, variable: Variable, hint: str = "t") -> str:
        """Give a variable a name if it has none, and return its name."""
        if variable not in self.texts:
            self.texts[variable] = self.names.new(variable.name or hint)
        return self.texts[variable]

    def remember_slice(self, variable: Variable, base: Expr, parts: list[str]) -> None:
        """Remember the source and the indices of a slice, so that it can be written as an index.

        Arguments:
            variable: the slice.
            base: the array that it is a slice of.
            parts: the text of the index of each axis.
        """
        self._slices[variable] = base, parts

    def slice_parts(self, value: Operand) -> tuple[Expr, list[str]] | None:
        """Return the source and the indices of a slice without a name; None for any other value."""
        if isinstance(value, Variable) and value in self._pending and value in self._slices:
            self.operand(value)
            return self._slices[value]
        return None

    def helper(self, name: str) -> str:
        """Add a helper function to the source, and return its name."""
        self.module.helpers.setdefault(name)
        return name

    def emit(self, line: str) -> None:
        """Emit a logical line, wrapped to the width."""
        self.lines += wrapped(line, self.indent)

    def blank_line(self) -> None:
        """Emit a blank line, unless it would be the first one or follow another."""
        if self.lines and self.lines[-1]:
            self.lines.append("")

    def materialize(self, values: Iterable[Operand]) -> None:
        """Emit the assignments of variables that have none yet."""
        for value in values:
            if isinstance(value, Variable):
                if value in self._lazy:
                    self._define(value, self._lazy.pop(value))
                if value in self._pending:
                    self._write(value, self._pending.pop(value))

    def materialize_for(self, *blocks: Body) -> None:
        """Emit the assignments of variables of this block that inner blocks use."""
        inner: dict[Variable, None] = {}
        for block in blocks:
            for variable in uses_of(block):
                inner.setdefault(variable)
        self.materialize([v for v in inner if v in self._pending or v in self._lazy])

    def inner(self, block: Body) -> Scope:
        """Return the scope of an inner block, indented by four more columns than here."""
        scope = Scope(
            self.backend,
            self.module,
            block,
            self.names,
            self.texts,
            self.uses,
            self.indent + 4,
            self.comments,
            self.unfold,
            self.hook,
        )
        scope.definitions = dict(self.definitions)
        return scope

    def elementwise_operand(self, value: Operand, other: Operand) -> Expr:
        """Return an operand of an elementwise operation, as a bare number or without a broadcast if these are implied.

        Arguments:
            value: the operand.
            other: the other operand.
        """
        if isinstance(value, Literal):
            return self.number(value, other)
        source = self.broadcast_source(value)
        if source is not None and other in self._lazy and self.uses[other].count > 1:
            self.materialize([other])
        if source is not None and self.has_full_shape(other):
            both = np.broadcast_shapes(value.type.shape, other.type.shape)
            if both == np.broadcast_shapes(source.type.shape, other.type.shape):
                return self.number(source, other) if isinstance(source, Literal) else self.operand(source)
        return self.operand(value)

    def pair(self, a: Operand, b: Operand) -> tuple[Expr, Expr]:
        """Return two operands of an elementwise operation, without broadcasts that are implied."""
        return self.elementwise_operand(a, b), self.elementwise_operand(b, a)

    def choice(self, mask: Operand, yes: Operand, no: Operand) -> tuple[Expr, Expr, Expr]:
        """Return a mask and the values between which it chooses, without broadcasts that are implied by the others."""
        if not any(self.has_full_shape(v) and v.type.shape == yes.type.shape for v in (mask, yes, no)):
            return self.operand(mask), *self.pair(yes, no)
        which, a, b = (v if (source := self.broadcast_source(v)) is None else source for v in (mask, yes, no))
        numbers = [None if isinstance(v, Variable) else self.backend.bare(v) for v in (a, b)]
        if isinstance(b, Literal) and not isinstance(a, Variable):
            numbers[1] = None  # one of two numbers has to say their dtype
        first, second = (self.operand(v) if n is None else n for v, n in zip((a, b), numbers, strict=True))
        return self.operand(which), first, second

    def number(self, literal: Literal, beside: Operand) -> Expr:
        """Return a literal as a bare number if the other operand determines the dtype, or else as a typed scalar."""
        settled = isinstance(beside, Variable) and not isinstance(self.broadcast_source(beside), Literal)
        if settled and beside.type.dtype == literal.type.dtype and (not beside.type.weak or literal.type.weak):
            bare = self.backend.bare(literal)
            if bare is not None:
                return bare
        return self.backend.typed(literal)

    def has_full_shape(self, value: Operand) -> bool:
        """Return whether an operand is a variable that is not written as the source of a broadcast."""
        return isinstance(value, Variable) and self.broadcast_source(value) is None

    def broadcast_source(self, value: Operand) -> Operand | None:
        """Return what a variable is a broadcast of, by numpy's rules; None if it is none, or has been written out."""
        statement = self._lazy.get(value) if isinstance(value, Variable) else None
        return None if statement is None else statement.inputs[0]

    # ------------------------------------------------------------------------------------------ statements

    def write(self) -> None:
        """Emit all statements of the block."""
        for statement in self.block.statements:
            self.statement(statement)

    def results(self) -> list[Expr]:
        """Return the results of the block as expressions."""
        return [self.operand(value) for value in self.block.results]

    def statement(self, statement: Statement) -> None:
        """Emit a statement, or keep its expression to inline it later."""
        if statement.op == "comment":
            self.emit(f"# {statement.params['text']}")
            return
        for output in statement.outputs:
            self.definitions[output] = statement
        if len(statement.outputs) == 1:
            (output,) = statement.outputs
            if output.name is None and not self.unfold and _is_implied(statement):
                if self.uses.get(output, Uses()).count > 1:
                    self.materialize(statement.inputs)
                self._lazy[output] = statement
                return
            self._define(output, statement)
            return
        self._consumed = {}
        hint = DEFAULT_NAMES.get(statement.op, "t")
        if statement.op in _MULTILINE or (statement.op == "svd" and self.backend.name == "jax"):
            self._apply(statement, 0)
            self._finish(statement)
            return
        targets = [self.bind(o, hint) if o in self.uses else "_" for o in statement.outputs]
        expr = self._apply(statement, len(", ".join(targets)) + 3)
        if expr is None:
            self._finish(statement)
            return
        self._comment(statement)
        self.emit(f"{', '.join(targets)} = {expr.text}")
        self._finish(statement)

    def _finish(self, statement: Statement) -> None:
        if self.hook is not None:
            self.hook(self, statement, [self.texts[o] for o in statement.outputs if o in self.texts])

    def _define(self, output: Variable, statement: Statement) -> None:
        hint = DEFAULT_NAMES.get(statement.op, "t")
        uses = self.uses.get(output, Uses())
        used_once = uses.count == 1 and uses.blocks == {id(self.block)}
        inlinable = used_once and not output.name and not self.unfold and not statement.blocks
        self.definitions[output] = statement
        if inlinable:
            expr = self._apply(statement, len(self.names.next(hint)) + 3)
            operands = self._inlined
            if expr is not None and expr.cost <= FOLDED_COST and len(expr.text) <= FOLDED_LENGTH:
                self._pending[output] = expr
                return
            if expr is not None and expr.text.isidentifier():
                self.texts[output] = expr.text
                return
            self._pending.update(operands)
        elif statement.op in _MULTILINE:
            self._apply(statement, 0)
            self._finish(statement)
            return
        name = self.texts.get(output) or self.names.next(output.name or hint)
        expr = self._apply(statement, len(name) + 3)
        if expr is None:
            self._finish(statement)
            return
        self._write(output, expr)

    def _apply(self, statement: Statement, margin: int) -> Expr | None:
        """Return the expression of a statement; operands are assigned before it until it fits on a line."""
        rule = self.backend.rules.get(statement.op)
        if rule is None:
            why = reason(statement.op, self.backend.name)
            raise Unsupported(statement.op, self.backend.name, why, statement.where)
        outer, self._consumed = self._consumed, {}
        try:
            while True:
                self._consumed = {}
                try:
                    expr = rule(self, statement)
                except Unsupported as error:
                    raise error if error.where is not None else error.at(statement.where) from None
                if expr is None:
                    return None
                candidates = [v for v, e in self._consumed.items() if v in self._pending and e.cost > 0]
                if not candidates or (self.indent + margin + len(expr.text) <= WIDTH and expr.cost <= 7):
                    break
                largest = max(candidates, key=lambda v: (len(self._pending[v].text), self._pending[v].cost))
                self.materialize([largest])
            self._inlined = {v: self._pending.pop(v) for v in self._consumed if v in self._pending}
            return expr
        finally:
            self._consumed = outer

    def returned(self, write: Callable[[list[str]], str], start: str = "return ") -> None:
        """Emit the line with the results of the block.

        Arguments:
            write: returns the text of the results, given the text of each.
            start: the text before it.
        """
        while True:
            self._consumed = {}
            texts = [self.operand(value).text for value in self.block.results]
            line = start + write(texts)
            candidates = [v for v in self._consumed if v in self._pending]
            if not candidates or self.indent + len(line) <= WIDTH:
                break
            self.materialize([max(candidates, key=lambda v: len(self._pending[v].text))])
        self.emit(line)

    def _write(self, variable: Variable, expr: Expr) -> None:
        statement = self.definitions.get(variable)
        if statement is not None:
            self._comment(statement)
        name = self.bind(variable, DEFAULT_NAMES.get(statement.op, "t") if statement else "t")
        self.emit(f"{name} = {expr.text}")
        if statement is not None:
            self._finish(statement)

    def _comment(self, statement: Statement) -> None:
        if self.comments and statement.where is not None:
            comment = f"# {statement.where.file}:{statement.where.line}"
            if comment != self._last_comment:
                self.lines.append(" " * self.indent + comment)
                self._last_comment = comment

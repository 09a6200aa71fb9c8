"""The intermediate representation of a traced function: blocks of statements on typed variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Type:
    """Shape and dtype of a value.

    Arguments:
        shape: shape of the value.
        dtype: dtype of the value: of numpy or ml_dtypes, or JAX's dtype of random keys.
        weak: whether it is weakly typed, as Python numbers are in JAX.
    """

    shape: tuple[int, ...]
    dtype: Any
    weak: bool = False

    @property
    def name(self) -> str:
        """The dtype's name, such as `float32`; `key` of random keys."""
        return "key" if self.is_key else str(self.dtype.name)

    @property
    def is_key(self) -> bool:
        """Whether these are random keys."""
        return str(self.dtype).startswith("key<")

    @property
    def kind(self) -> str:
        """`f`, `i`, `u`, `b` or `c` as in numpy (`f` for bfloat16 and similar types too); `key` of random keys."""
        if self.is_key:
            return "key"
        kind = str(self.dtype.kind)
        if kind == "V" or kind not in "fiubc":
            return "i" if self.name.startswith("int") else "u" if self.name.startswith("uint") else "f"
        return kind

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        size = 1
        for length in self.shape:
            size *= length
        return size

    def __str__(self) -> str:
        return f"{self.name}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class SourceLocation:
    """A location in the user's source.

    Arguments:
        file: name of the file, as Python reports it.
        line: line number, counted from 1.
        span: first column, last line and end column of the expression, counted from 0; None if unknown.
        function: name of the enclosing function.
    """

    file: str
    line: int
    span: tuple[int, int, int] | None
    function: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}, in {self.function}"


@dataclass(eq=False)
class Variable:
    """A value that a statement computes, or that is passed to a block.

    Arguments:
        type: its shape and dtype.
        name: the user's name for it; None if unknown.
        constant: the array, if it is a constant of the function.
    """

    type: Type
    name: str | None = None
    constant: Any = None


@dataclass(frozen=True, eq=False)
class Literal:
    """A scalar constant, which is written where it is used.

    Arguments:
        value: a numpy scalar.
        type: its type, with shape ().
    """

    value: Any
    type: Type


Operand = Variable | Literal


@dataclass(eq=False)
class Statement:
    """A single operation.

    Arguments:
        op: name of the primitive.
        inputs: its operands.
        outputs: the variables that it computes.
        params: the primitive's parameters.
        blocks: the blocks that it runs, such as branches or a loop body, by name.
        where: the location in the user's source that it comes from.
        primitive: JAX's primitive.
        bound: the operands and the parameters that JAX has applied it to, before any simplification.
        bound_outputs: the results of that.
    """

    op: str
    inputs: list[Operand]
    outputs: list[Variable]
    params: dict[str, Any]
    blocks: dict[str, list[Body]] = field(default_factory=dict[str, list["Body"]])
    where: SourceLocation | None = None
    primitive: Any = None
    bound: tuple[list[Operand], dict[str, Any]] | None = None
    bound_outputs: list[Variable] = field(default_factory=list[Variable])

    @property
    def output(self) -> Variable:
        """The output of a statement with a single one."""
        (output,) = self.outputs
        return output


@dataclass(eq=False)
class Body:
    """Statements in order, with their parameters and results.

    Arguments:
        name: name of the user's function that it comes from.
        parameters: the variables passed to it.
        statements: its statements; they may use variables of the enclosing blocks.
        results: the operands that it returns.
    """

    name: str
    parameters: list[Variable]
    statements: list[Statement]
    results: list[Operand]

    def walk(self) -> Iterator[Statement]:
        """Yield all statements, each followed by those of its inner blocks."""
        for statement in self.statements:
            yield statement
            for blocks in statement.blocks.values():
                for block in blocks:
                    yield from block.walk()


@dataclass(eq=False)
class Leaf:
    """An array in the arguments of a function, which are pytrees.

    Arguments:
        variable: the parameter of the block.
        argument: name of the argument that contains it.
        path: the path from the argument to it, as Python source such as `["w"][0]` or `.count`.
    """

    variable: Variable
    argument: str
    path: str


@dataclass(eq=False)
class TracedFunction:
    """A traced function.

    Arguments:
        name: name of the function.
        arguments: names of the arguments, in order.
        leaves: the arrays in the arguments.
        block: the body of the function.
        tuples: the classes of named tuples in the result that are not among the arguments.
        result: returns the source of the result, given the texts of its leaves, and names of these classes.
        x64: whether it was traced with `jax_enable_x64`.
        weak: whether each result is weakly typed.
        casts: for results whose weak type the source must set: number of the result -> whether it is weak.
    """

    name: str
    arguments: list[str]
    leaves: list[Leaf]
    block: Body
    tuples: list[type]
    result: Callable[[list[str], Mapping[type, str]], str]
    x64: bool
    weak: list[bool]
    casts: dict[int, bool] = field(default_factory=dict[int, bool])

    @property
    def constants(self) -> list[Variable]:
        """The constants that statements use, each once, in the order of their first use."""
        constants: dict[Variable, None] = {}

        def see(operands: list[Operand]) -> None:
            for operand in operands:
                if isinstance(operand, Variable) and operand.constant is not None:
                    constants.setdefault(operand)

        for statement in self.block.walk():
            see(statement.inputs)
            for blocks in statement.blocks.values():
                for block in blocks:
                    see(block.results)
        see(self.block.results)
        return list(constants)

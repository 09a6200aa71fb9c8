"""A traced function as plain data: blocks of statements on typed variables, without JAX's own objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Type:
    """Shape and dtype of a value.

    Arguments:
        shape: shape of the value.
        dtype: dtype of the value: of numpy or ml_dtypes, or JAX's dtype of random keys.
        weak: whether it is weakly typed, as Python's numbers are in JAX.
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
class Where:
    """A place in the user's source.

    Arguments:
        file: name of the file, as Python reports it.
        line: line number, counted from 1.
        span: first column, last line and end column of the expression, counted from 0; None if unknown.
        function: name of the enclosing function.
        depth: depth in the call stack, which distinguishes a call from the statements that it runs.
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
    """A number that is written where it is used.

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
        blocks: name of the parameter -> the block that it runs, such as a branch or a loop body.
        where: the place in the user's source that it comes from.
        primitive: JAX's primitive.
        bound: the operands and the parameters that JAX applied it to; `bound_outputs` are the results.
    """

    op: str
    inputs: list[Operand]
    outputs: list[Variable]
    params: dict[str, Any]
    blocks: dict[str, list[Block]] = field(default_factory=lambda: dict[str, list["Block"]]())
    where: Where | None = None
    primitive: Any = None
    bound: tuple[list[Operand], dict[str, Any]] | None = None
    bound_outputs: list[Variable] = field(default_factory=lambda: list[Variable]())

    @property
    def output(self) -> Variable:
        """The only output."""
        (output,) = self.outputs
        return output


@dataclass(eq=False)
class Block:
    """Statements in order, with their parameters and results.

    Arguments:
        name: the user's name for the function that it comes from.
        parameters: the variables passed to it.
        statements: its statements; they may use variables of the enclosing blocks.
        results: the operands that it returns.
    """

    name: str
    parameters: list[Variable]
    statements: list[Statement]
    results: list[Operand]

    def walk(self) -> Iterator[Statement]:
        """Yield all statements, those of inner blocks after the statement that runs them."""
        for statement in self.statements:
            yield statement
            for blocks in statement.blocks.values():
                for block in blocks:
                    yield from block.walk()


@dataclass(eq=False)
class Leaf:
    """One array in the arguments of a function.

    Arguments:
        variable: the block's parameter for it.
        argument: name of the argument that it is a part of.
        path: the steps from the argument to it, as Python writes them: `["w"]`, `[0]`, `.count`.
    """

    variable: Variable
    argument: str
    path: str


@dataclass(eq=False)
class Program:
    """A whole function.

    Arguments:
        name: of the function.
        arguments: their names, in order.
        leaves: the arrays in them.
        block: what the function does.
        result: writes the result as Python, given the texts of the leaves.
        trees: structure of arguments and of the result, in JAX's terms.
        x64: whether it was traced with 64-bit types.
        weak: which results are weakly typed.
        casts: results whose weak type the source has to set, by their number.
    """

    name: str
    arguments: list[str]
    leaves: list[Leaf]
    block: Block
    result: Callable[[list[str]], str]
    trees: tuple[Any, Any]
    x64: bool
    weak: list[bool]
    casts: dict[int, bool] = field(default_factory=lambda: dict[int, bool]())

    @property
    def constants(self) -> list[Variable]:
        """The constants that statements use, in the order of their use, each once."""
        found: dict[Variable, None] = {}

        def see(operands: list[Operand]) -> None:
            for operand in operands:
                if isinstance(operand, Variable) and operand.constant is not None:
                    found.setdefault(operand)

        for statement in self.block.walk():
            see(statement.inputs)
            for blocks in statement.blocks.values():
                for block in blocks:
                    see(block.results)
        see(self.block.results)
        return list(found)

"""Traces a user's function with JAX into a program."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np

from erasurehead.decompile.errors import Unsupported
from erasurehead.decompile.installed import jax_module
from erasurehead.decompile.lower import Lowering, type_of
from erasurehead.decompile.program import Block, Leaf, Program, Statement, Variable
from erasurehead.decompile.simplify import without_dead_code
from erasurehead.decompile.user_names import plain_name
from erasurehead.errors import InvalidArgument, MissingExtra, invalid

LARGEST_CONSTANTS = 256 * 2**20
"""Most bytes of constants that may be stored beside a source."""


def argument_names(function: Callable[..., Any], arguments: Sequence[Any]) -> list[str]:
    """Return the names of a function's positional arguments."""
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*arguments)
    except TypeError as error:
        said = f"The example arguments do not fit the function: {error}."
        raise InvalidArgument("examples", "must fit the function", sentence=said) from None
    except ValueError:
        return [f"x{i}" if len(arguments) > 1 else "x" for i in range(len(arguments))]
    names: list[str] = []
    for name in bound.arguments:
        if signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{name}_{i}" for i in range(len(bound.arguments[name]))]
        else:
            names.append(name)
    return names


def step_text(key: Any, node: Any) -> str:
    """Return one step of a path into a structure, as Python source."""
    kind = type(key).__name__
    if kind == "DictKey":
        return f"[{_quoted(key.key)}]"
    if kind == "SequenceKey":
        return f".{node._fields[key.idx]}" if hasattr(node, "_fields") else f"[{key.idx}]"
    if kind == "GetAttrKey":
        return f".{key.name}"
    fields = SPARSE.get(type(node).__name__)
    if fields is not None and kind == "FlattenedIndexKey":
        return f".{fields[key.key]}"
    raise invalid(
        "example_arguments", "must be made of arrays, numbers, dicts, lists, tuples and named tuples",
        type(node).__name__, "pass its arrays one by one",
    )  # fmt: skip


SPARSE = {
    "BCOO": ("data", "indices"), "BCSR": ("data", "indices", "indptr"), "COO": ("data", "row", "col"),
    "CSR": ("data", "indices", "indptr"), "CSC": ("data", "indices", "indptr"),
}  # fmt: skip
"""The arrays in `jax.experimental.sparse`, with their parts in the order in which JAX flattens them."""


def _quoted(value: object) -> str:
    text = repr(value)
    return f'"{text[1:-1]}"' if text.startswith("'") and '"' not in text else text


def children(node: Any) -> list[tuple[Any, Any]] | None:
    """Return the parts of a structure with their keys; None if it is a leaf."""
    jax = jax_module()

    if node is None:
        return []

    def below(x: Any) -> bool:
        return x is not node

    paths: list[tuple[Any, Any]]
    paths, tree = jax.tree_util.tree_flatten_with_path(node, is_leaf=below)
    if jax.tree_util.treedef_is_leaf(tree):
        return None
    return [(path[0], child) for path, child in paths]


def walk(node: Any, text: str) -> list[tuple[str, Any]]:
    """Return the leaves of a structure with their paths as source."""
    parts = children(node)
    if parts is None:
        return [(text, node)]
    return [leaf for key, child in parts for leaf in walk(child, text + step_text(key, node))]


def _types_of(arguments: Sequence[tuple[str, Any]]) -> dict[Any, str]:
    """Return the source for the classes of the arguments, such as named tuples."""
    found: dict[Any, str] = {}

    def see(node: Any, text: str) -> None:
        parts = children(node)
        if parts:
            if type(node) not in (dict, list, tuple):
                found.setdefault(type(node), f"type({text})")
            for key, child in parts:
                see(child, text + step_text(key, node))

    for text, node in arguments:
        see(node, text)
    return found


def result_text(node: Any, leaves: list[str], classes: Mapping[Any, str], backend: str) -> str:
    """Return a result as Python source; takes the texts of its leaves from the front of `leaves`."""
    parts = children(node)
    if parts is None:
        return leaves.pop(0)
    if node is None:
        return "None"
    texts = [result_text(child, leaves, classes, backend) for _, child in parts]
    if type(node) is dict:
        keys = [_quoted(key.key) for key, _ in parts]
        return "{" + ", ".join(f"{key}: {text}" for key, text in zip(keys, texts, strict=True)) + "}"
    if type(node) is list:
        return f"[{', '.join(texts)}]"
    if type(node) is tuple:
        return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"
    name = type(node).__name__
    if name in SPARSE and backend == "jax":
        flags = "".join(f", {flag}=True" for flag in ("indices_sorted", "unique_indices") if getattr(node, flag, False))
        return f"sparse.{name}(({', '.join(texts)}), shape={tuple(node.shape)}{flags})"
    if type(node) in classes and (hasattr(node, "_fields") or hasattr(node, "__dataclass_fields__")):
        given = [_field(key, node) + text for (key, _), text in zip(parts, texts, strict=True)]
        return f"{classes[type(node)]}({', '.join(given)})"
    if hasattr(node, "_fields"):
        return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"
    raise Unsupported(
        name, backend, "the result is of a class that the source cannot import; return a dict, a list or a tuple"
    )


def _field(key: Any, node: Any) -> str:
    return f"{step_text(key, node)[1:]}="


def trace(
    function: Callable[..., Any], arguments: Sequence[Any], backend: str, inline: bool, effects: str,
    names: Mapping[str, str] | None = None, name: str | None = None,
) -> Program:  # fmt: skip
    """Return a function, traced with arguments of the examples' types, as a program.

    Arguments:
        function: the user's function.
        arguments: example arguments.
        backend: `"jax"` or `"numpy"`.
        inline: whether to inline calls.
        effects: `"error"` or `"comment"`.
        names: name in the source -> name to use instead, for arguments and variables.
        name: name of the function; by default its own.

    Raises:
        Unsupported: if some operation cannot be written as source.
        InvalidArgument: if the arguments are wrong, or the function fails on them.
    """
    titles = argument_names(function, arguments)
    title = name or getattr(function, "__name__", "") or "function"
    title = title if title.isidentifier() else "function"
    places = [(argument, text, leaf) for argument, value in zip(titles, arguments, strict=True)
              for text, leaf in walk(value, "")]  # fmt: skip
    for argument, text, leaf in places:
        check_leaf(argument + text, leaf, backend)
    closed, shape = _traced(function, arguments, backend, title)
    lowering = Lowering(backend, inline, effects)
    for constant in closed.consts:
        lowering.constant(constant)
    wanted = names or {}
    leaves: list[Leaf] = []
    for (argument, text, _), invar in zip(places, closed.jaxpr.invars, strict=True):
        found = plain_name(argument + text) if text else argument
        variable = Variable(type_of(invar.aval), wanted.get(argument + text, wanted.get(str(found), str(found))))
        leaves.append(Leaf(variable, wanted.get(argument, argument), text))
    block = _lowered(lowering, closed, [leaf.variable for leaf in leaves], title, wanted)
    classes = _types_of(list(zip(titles, arguments, strict=True)))
    jax = jax_module()
    program = Program(
        title, [wanted.get(t, t) for t in titles], leaves, block,
        lambda texts: result_text(shape, list(texts), classes, backend),
        (jax.tree.structure(tuple(arguments)), jax.tree.structure(shape)),
        bool(jax.config.jax_enable_x64), [bool(getattr(aval, "weak_type", False)) for aval in closed.out_avals],
    )  # fmt: skip
    result_text(shape, ["x"] * len(block.results), classes, backend)  # raises if the result cannot be written
    _name_constants(function, program)
    _check_constants(program)
    return program


def _traced(function: Callable[..., Any], arguments: Sequence[Any], backend: str, title: str) -> tuple[Any, Any]:
    """Return JAX's trace of a function, and the structure of its result."""
    jax = jax_module()

    def fresh(*given: Any) -> Any:  # a new function each time, so that JAX does not use its cache
        return function(*given)

    try:
        return jax.make_jaxpr(wraps(function)(fresh), return_shape=True)(*arguments)
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        first = str(error).split("\n", 1)[0].rstrip(".")
        raise Unsupported(
            title,
            backend,
            f"JAX cannot trace it ({type(error).__name__}: {first}), because its shapes or its control flow depend on "
            "the data",
        ) from error
    except (InvalidArgument, MissingExtra):
        raise
    except Exception as error:
        first = str(error).split("\n", 1)[0].rstrip(".")
        said = f"JAX cannot trace {title} with these examples: {type(error).__name__}: {first}."
        raise InvalidArgument("examples", "must be such that JAX can trace the function", sentence=said) from error


def _lowered(
    lowering: Lowering, closed: Any, variables: list[Variable], title: str, wanted: Mapping[str, str]
) -> Block:
    """Return the statements of a function that JAX has traced, with the names that the user wants for variables."""
    statements: list[Statement] = []
    results = lowering.run(closed.jaxpr, closed.consts, variables, statements)
    lowering.name_results()
    block = Block(title, variables, statements, results)
    without_dead_code(block)
    for statement in block.walk():
        for output in statement.outputs:
            if output.name is not None:
                output.name = wanted.get(output.name, output.name)
    return block


def _check_constants(program: Program) -> None:
    """Raise if the arrays that a function closes over are too large to be stored beside its source."""
    total = sum(np.asarray(v.constant).nbytes for v in program.constants)
    if total > LARGEST_CONSTANTS:
        most = f"{LARGEST_CONSTANTS // 2**20} MiB"
        raise InvalidArgument(
            "function", f"must close over arrays of at most {most}", hint="pass them as arguments",
            sentence=f"{program.name} closes over arrays of {total / 2**20:.0f} MiB, and a source may hold at most "
            f"{most}; pass them as arguments.",
        )  # fmt: skip


def check_leaf(place: str, leaf: Any, backend: str) -> None:
    """Raise if an example is not an array of a supported type."""
    if isinstance(leaf, bool | int | float | complex):
        return
    dtype = getattr(leaf, "dtype", None)
    if dtype is None or not hasattr(leaf, "shape"):
        raise invalid(place, "must be an array or a number", leaf, "bind it first, with functools.partial")
    if str(dtype).startswith("key<"):
        if backend == "numpy" and "fry" not in str(dtype):
            raise Unsupported(str(dtype), backend, "only keys of threefry2x32 can be written for numpy")
        return
    kind = np.dtype(dtype)
    if kind.kind in "OSUMm" or kind.fields is not None:
        raise invalid(place, "must be of a dtype that JAX knows", str(dtype), "make it an array of numbers")


def _name_constants(function: Any, program: Program) -> None:
    """Give constants the names that they have in the user's function."""
    inner = inspect.unwrap(function) if callable(function) else function
    code = getattr(inner, "__code__", None)
    spaces: dict[str, Any] = {}
    if code is not None:
        spaces = {k: inner.__globals__[k] for k in code.co_names if k in inner.__globals__}
        for free, cell in zip(code.co_freevars, inner.__closure__ or (), strict=False):
            try:
                spaces[free] = cell.cell_contents
            except ValueError:
                continue
    for variable in program.constants:
        matches = [
            key for key, value in spaces.items()
            if hasattr(value, "shape") and value.shape == np.shape(variable.constant)
            and hasattr(value, "dtype") and value.dtype == variable.type.dtype
            and not variable.type.is_key and np.array_equal(np.asarray(value), variable.constant)
        ]  # fmt: skip
        variable.name = variable.name or (matches[0] if matches else None)

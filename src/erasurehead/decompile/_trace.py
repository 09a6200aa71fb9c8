"""Traces a function with JAX, and returns it as a program."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import inspect
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, cast

import numpy as np

from erasurehead.decompile._errors import Unsupported
from erasurehead.decompile._installed import jax_module
from erasurehead.decompile._lower import Lowering
from erasurehead.decompile._operands import type_of
from erasurehead.decompile._program import Body, Leaf, Statement, TracedFunction, Variable
from erasurehead.decompile._simplify import without_dead_code
from erasurehead.decompile._texts import tuple_text
from erasurehead.decompile._user_names import plain_name
from erasurehead.errors import InvalidArgument, MissingExtra, first_line, invalid

LARGEST_CONSTANTS = 256 * 2**20
"""Largest total size in bytes of the constants that are stored with a source."""


def argument_names(function: Callable[..., Any], arguments: Sequence[Any]) -> list[str]:
    """Return the names of a function's positional arguments."""
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*arguments)
    except TypeError as error:
        sentence = f"The example arguments do not fit the function: {error}."
        raise InvalidArgument("examples", "must fit the function", sentence=sentence) from None
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
    """Return the source of one step of a path into a pytree."""
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
        "example_arguments",
        "must be made of arrays, numbers, dicts, lists, tuples and named tuples",
        type(node).__name__,
        "pass its arrays one by one",
    )


SPARSE = {
    "BCOO": ("data", "indices"),
    "BCSR": ("data", "indices", "indptr"),
    "COO": ("data", "row", "col"),
    "CSR": ("data", "indices", "indptr"),
    "CSC": ("data", "indices", "indptr"),
}
"""The array classes of `jax.experimental.sparse`, with their attributes in the order in which JAX flattens them."""


def _quoted(value: object) -> str:
    """Return the source of a dict's key, or of a field that is no array."""
    text = repr(value)
    try:
        written = ast.literal_eval(text) == value
    except (ValueError, SyntaxError, TypeError):
        written = False
    if not written:
        raise invalid(
            "function",
            "must have dicts with keys, and classes with other fields, that are strings or numbers, or tuples of them",
            value,
            "give its arrays in a dict with such keys, or in a tuple",
        )
    return f'"{text[1:-1]}"' if text.startswith("'") and '"' not in text else text


def children(node: Any) -> list[tuple[Any, Any]] | None:
    """Return the children of a pytree with their keys; None if it is a leaf."""
    jax = jax_module()

    def below(x: Any) -> bool:
        return x is not node

    if jax.tree_util.all_leaves([node]):
        return None
    paths: list[tuple[Any, Any]] = jax.tree_util.tree_flatten_with_path(node, is_leaf=below)[0]
    return [(path[0], child) for path, child in paths]


def walk(node: Any, text: str) -> list[tuple[str, Any]]:
    """Return the leaves of a pytree with the source of their paths."""
    parts = children(node)
    if parts is None:
        return [(text, node)]
    return [leaf for key, child in parts for leaf in walk(child, text + step_text(key, node))]


def _classes(nodes: Sequence[tuple[str, Any]], step: Callable[[Any, Any], str] = step_text) -> dict[type, str]:
    """Return the classes of the inner nodes of pytrees, other than dicts, lists and tuples, with the path of the first.

    Arguments:
        nodes: the pytrees, each with the source of its path.
        step: returns the source of a step of a path.
    """
    paths: dict[type, str] = {}

    def see(node: Any, text: str) -> None:
        for key, child in children(node) or []:
            see(child, text + step(key, node))
        if children(node) is not None and type(node) not in (dict, list, tuple, type(None)):
            paths[type(node)] = text

    for text, node in reversed(nodes):
        see(node, text)
    return paths


def result_text(node: Any, leaves: list[str], classes: Mapping[type, str], backend: str) -> str:
    """Return the source of a result.

    Arguments:
        node: the result, a pytree.
        leaves: the texts of its leaves, which are removed from the front of the list.
        classes: the source of the classes that the source knows.
        backend: `"jax"` or `"numpy"`.
    """
    parts = children(node)
    if parts is None:
        return leaves.pop(0)
    if node is None:
        return "None"
    kind = cast("type[Any]", type(node))
    texts = [result_text(child, leaves, classes, backend) for _, child in parts]
    if kind in (dict, OrderedDict, defaultdict):
        items = ", ".join(f"{_quoted(key.key)}: {text}" for (key, _), text in zip(parts, texts, strict=True))
        if kind is dict:
            return f"{{{items}}}"
        factory = getattr(node, "default_factory", None)
        if kind is OrderedDict or factory is None or getattr(builtins, factory.__name__, None) is factory:
            first = f"{factory.__name__}, " if factory else "None, " if kind is defaultdict else ""
            return f"{kind.__name__}({first}{{{items}}})"
    if kind is list:
        return f"[{', '.join(texts)}]"
    if kind is tuple:
        return tuple_text(texts)
    if kind.__name__ in SPARSE and backend == "jax":
        flags = "".join(f", {flag}=True" for flag in ("indices_sorted", "unique_indices") if getattr(node, flag, False))
        return f"sparse.{kind.__name__}(({', '.join(texts)}), shape={tuple(node.shape)}{flags})"
    if kind in classes and (hasattr(node, "_fields") or dataclasses.is_dataclass(node)):
        given = {step_text(key, node)[1:]: text for (key, _), text in zip(parts, texts, strict=True)}
        if dataclasses.is_dataclass(node):
            others = [field.name for field in dataclasses.fields(node) if field.init and field.name not in given]
            given |= {name: _quoted(getattr(node, name)) for name in others}
        return f"{classes[kind]}({', '.join(f'{name}={text}' for name, text in given.items())})"
    raise Unsupported(
        kind.__name__,
        backend,
        "the result is of a class that the source cannot import; return a dict, a list or a tuple",
    )


def trace(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    backend: str,
    inline: bool,
    effects: str,
    names: Mapping[str, str] | None = None,
    name: str | None = None,
) -> TracedFunction:
    """Trace a function with arguments of the types of examples, and return it as a program.

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
    parameter_names = argument_names(function, arguments)
    title = name or getattr(function, "__name__", "") or "function"
    title = title if title.isidentifier() else "function"
    argument_leaves = [
        (argument, text, leaf)
        for argument, value in zip(parameter_names, arguments, strict=True)
        for text, leaf in walk(value, "")
    ]
    for argument, text, leaf in argument_leaves:
        check_leaf(argument + text, leaf, backend)
    closed, shape = _traced(function, arguments, backend, title)
    lowering = Lowering(backend, inline, effects)
    for constant in closed.consts:
        lowering.constant(constant)
    wanted = names or {}
    leaves: list[Leaf] = []
    for (argument, text, _), invar in zip(argument_leaves, closed.jaxpr.invars, strict=True):
        label = plain_name(argument + text) if text else argument
        variable = Variable(type_of(invar.aval), wanted.get(argument + text, wanted.get(str(label), str(label))))
        leaves.append(Leaf(variable, wanted.get(argument, argument), text))
    block = _lowered(lowering, closed, [leaf.variable for leaf in leaves], title, wanted)
    renamed = [wanted.get(t, t) for t in parameter_names]
    of_arguments = _classes(list(zip(renamed, arguments, strict=True)))
    of_result = _classes([("", shape)], lambda key, node: "")
    tuples = [kind for kind in of_result if hasattr(kind, "_fields") and kind not in of_arguments]
    classes = {kind: f"type({text})" for kind, text in of_arguments.items()}
    jax = jax_module()
    program = TracedFunction(
        title,
        renamed,
        leaves,
        block,
        tuples,
        lambda texts, names: result_text(shape, list(texts), {**classes, **names}, backend),
        bool(jax.config.jax_enable_x64),
        [bool(getattr(aval, "weak_type", False)) for aval in closed.out_avals],
    )
    program.result(["x"] * len(block.results), dict.fromkeys(tuples, ""))  # raises if the result cannot be written
    _name_constants(function, program)
    _check_constants(program)
    return program


def _traced(function: Callable[..., Any], arguments: Sequence[Any], backend: str, title: str) -> tuple[Any, Any]:
    """Return the closed jaxpr of a function, and the pytree structure of its result."""
    jax = jax_module()

    def uncached(*given: Any) -> Any:  # a new function each time, as JAX caches traces by function
        return function(*given)

    try:
        return jax.make_jaxpr(wraps(function)(uncached), return_shape=True)(*arguments)
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        raise Unsupported(
            title,
            backend,
            f"JAX cannot trace it ({first_line(error)}), because its shapes or its control flow depend on the data",
        ) from error
    except (InvalidArgument, MissingExtra):
        raise
    except Exception as error:
        sentence = f"JAX cannot trace {title} with these examples: {first_line(error)}."
        raise InvalidArgument("examples", "must be such that JAX can trace the function", sentence=sentence) from error


def _lowered(lowering: Lowering, closed: Any, variables: list[Variable], title: str, wanted: Mapping[str, str]) -> Body:
    """Lower a closed jaxpr to a block.

    Arguments:
        lowering: the lowering.
        closed: the closed jaxpr.
        variables: the parameters of the block.
        title: name of the block.
        wanted: name in the user's source -> name to use instead.
    """
    statements: list[Statement] = []
    results = lowering.run(closed.jaxpr, closed.consts, variables, statements)
    lowering.name_results()
    block = Body(title, variables, statements, results)
    without_dead_code(block)
    for statement in block.walk():
        for output in statement.outputs:
            if output.name is not None:
                output.name = wanted.get(output.name, output.name)
    return block


def _check_constants(program: TracedFunction) -> None:
    """Check that the arrays that a function closes over are not too large to be stored with its source."""
    total = sum(np.asarray(v.constant).nbytes for v in program.constants)
    if total > LARGEST_CONSTANTS:
        limit = f"{LARGEST_CONSTANTS // 2**20} MiB"
        raise InvalidArgument(
            "function",
            f"must close over arrays of at most {limit}",
            hint="pass them as arguments",
            sentence=f"{program.name} closes over arrays of {total / 2**20:.0f} MiB, and a source may hold at most "
            f"{limit}; pass them as arguments.",
        )


def check_leaf(label: str, leaf: Any, backend: str) -> None:
    """Check that a leaf of the example arguments is a number or an array of a supported dtype."""
    if isinstance(leaf, bool | int | float | complex):
        return
    dtype = getattr(leaf, "dtype", None)
    if dtype is None or not hasattr(leaf, "shape"):
        raise invalid(label, "must be an array or a number", leaf, "bind it first, with functools.partial")
    if str(dtype).startswith("key<"):
        if backend == "numpy" and "fry" not in str(dtype):
            raise Unsupported(str(dtype), backend, "only keys of threefry2x32 can be written for numpy")
        return
    kind = np.dtype(dtype)
    if kind.kind in "OSUMm" or kind.fields is not None:
        raise invalid(label, "must be of a dtype that JAX knows", str(dtype), "make it an array of numbers")


def _name_constants(function: Any, program: TracedFunction) -> None:
    """Give constants the names of the variables that the user's function closes over."""
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
            key
            for key, value in spaces.items()
            if hasattr(value, "shape")
            and value.shape == np.shape(variable.constant)
            and hasattr(value, "dtype")
            and value.dtype == variable.type.dtype
            and not variable.type.is_key
            and np.array_equal(np.asarray(value), variable.constant)
        ]
        variable.name = variable.name or (matches[0] if matches else None)

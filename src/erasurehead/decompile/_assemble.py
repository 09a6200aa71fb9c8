"""Assembles the source of a module from a program: docstring, imports, constants, helpers, functions."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from erasurehead.decompile import _helpers as helpers
from erasurehead.decompile._numbers import float_text, jax_dtype, ordinary
from erasurehead.decompile._program import Statement, TracedFunction, Variable
from erasurehead.decompile._rules import BACKENDS
from erasurehead.decompile._texts import Names, wrapped
from erasurehead.decompile._uses import uses_of
from erasurehead.decompile._writer import Backend, Module, Scope

MOST_WRITTEN = 16
"""Most elements of a constant that is written as a literal; larger ones are stored beside the source."""

LOAD = 'constants = {module}.load(__file__.removesuffix(".py") + ".npz")'


@dataclass
class Assembled:
    """The text of a module.

    Arguments:
        text: the source text.
        constants: name -> array, stored in a file beside it.
        name: name of the function in it.
        classes: name -> class of the function's own that a named tuple of the module stands for.
    """

    text: str
    constants: dict[str, Any] = field(default_factory=dict[str, Any])
    name: str = "function"
    classes: dict[str, type] = field(default_factory=dict[str, type])


def assemble(
    program: TracedFunction,
    backend_name: str,
    comments: bool = False,
    unfold: bool = False,
    hook: Callable[[Scope, Statement, list[str]], None] | None = None,
) -> Assembled:
    """Return the source of a program.

    Arguments:
        program: the program.
        backend_name: `"jax"` or `"numpy"`.
        comments: whether comments name the lines of the user's source.
        unfold: whether every value gets a name.
        hook: called after each statement with its scope and the names of its results.
    """
    backend = BACKENDS[backend_name]
    assembled, carried = _assemble(program, backend, comments, unfold, hook, program.name)
    if assembled.name in carried:  # a helper of the same name
        assembled, _ = _assemble(program, backend, comments, unfold, hook, f"{program.name}_")
    return assembled


def _assemble(
    program: TracedFunction,
    backend: Backend,
    comments: bool,
    unfold: bool,
    hook: Callable[[Scope, Statement, list[str]], None] | None,
    title: str,
) -> tuple[Assembled, Mapping[str, str]]:
    in_numpy = backend is BACKENDS["numpy"]
    module = Module()
    function = module.names.new(title)
    module.names.taken |= {*(helpers.names() if in_numpy else ()), "constants"}
    module.constants = {v: module.names.new(v.name or "constant") for v in program.constants}
    classes = {kind: module.names.new(kind.__name__) for kind in program.tuples}
    names = Names(module.names.taken)
    texts: dict[Variable, str] = {}
    uses = uses_of(program.block)
    scope = Scope(backend, module, program.block, names, texts, uses, 4, comments, unfold, hook)
    arguments = {argument: names.new(argument) for argument in program.arguments}
    for leaf in program.leaves:
        source = f"{arguments[leaf.argument]}{leaf.path}"
        if leaf.variable not in uses:
            continue
        if leaf.path:
            name = scope.bind(leaf.variable, "x")
        else:
            name = texts[leaf.variable] = source
        if in_numpy and leaf.variable.type.is_key:
            scope.emit(f"{name} = {scope.helper('as_key')}({source})")
        elif in_numpy:
            scope.emit(f"{name} = np.asarray({source}, {backend.dtype(leaf.variable.type)})")
        elif leaf.path:
            scope.emit(f"{name} = {source}")
    scope.write()
    scope.returned(lambda texts: _finish(scope, program, texts, classes, in_numpy))
    head = wrapped(f"def {function}({', '.join(arguments.values())}):", 0)
    decorator = '@np.errstate(all="ignore")' if in_numpy else "@jax.jit"
    defined = [line for kind, name in classes.items() for line in _tuple_class(name, kind)]
    constants, arrays = _constants(module, backend)
    carried = helpers.closure(module.helpers)
    body = [line for text in carried.values() for line in (*text.splitlines(), "", "")]
    body += [*defined, *([""] * 2 if defined else []), *module.lines, decorator, *head, *scope.lines]
    text = _module_text(_docstring(program, function), constants, body)
    return Assembled(text, arrays, function, {name: kind for kind, name in classes.items()}), carried


def _finish(
    scope: Scope, program: TracedFunction, texts: list[str], classes: Mapping[type, str], in_numpy: bool
) -> str:
    if in_numpy:
        texts = [
            f"{scope.helper('key_data')}({text})" if value.type.is_key else text
            for value, text in zip(program.block.results, texts, strict=True)
        ]
    for i, weak in program.casts.items():
        dtype = jax_dtype(program.block.results[i].type.name)
        if weak:
            texts[i] = (
                f"primitives.convert_element_type_p.bind({texts[i]}, new_dtype=jnp.dtype({dtype}), weak_type=True, "
                "sharding=None)"
            )
        else:
            texts[i] = f"lax.convert_element_type({texts[i]}, {dtype})"
    return _bare_tuple(program.result(texts, classes))


def _tuple_class(name: str, kind: Any) -> list[str]:
    return wrapped(f'{name} = namedtuple("{name}", {json.dumps(kind._fields)})', 0)


def _bare_tuple(text: str) -> str:
    """Return a tuple without its parentheses, as allowed after `return`."""
    node = ast.parse(text, mode="eval").body
    return text[1:-1] if isinstance(node, ast.Tuple) and len(node.elts) > 1 else text


_IMPORTS = {
    "jax": "import jax",
    "jnp": "import jax.numpy as jnp",
    "lax": "from jax import lax",
    "math": "import math",
    "primitives": "from jax.extend.core import primitives",
    "np": "import numpy as np",
    "ml_dtypes": "import ml_dtypes",
    "special": "from scipy import special",
    "linalg": "from scipy import linalg",
    "sparse": "from jax.experimental import sparse",
}
_COLLECTIONS = ("OrderedDict", "defaultdict", "namedtuple")


def _module_text(docstring: list[str], constants: list[str], body: list[str]) -> str:
    """Return the text of a module, with the imports that the rest of it needs."""
    rest = "\n".join([*constants, *body])
    used = [line for name, line in _IMPORTS.items() if re.search(rf"(?<![\w.\"]){name}\.", rest)]
    imports = _merged(sorted(used, key=lambda line: (line.startswith("from"), line.split()[1])))
    if collections := [name for name in _COLLECTIONS if f"{name}(" in rest]:
        imports = [f"from collections import {', '.join(collections)}", "", *imports]
    head = "\n\n".join("\n".join(lines) for lines in (docstring, imports, constants) if lines)
    return "\n".join([head, "", "", *body, ""])


def _merged(texts: list[str]) -> list[str]:
    """Return import lines, merged by module."""
    by_module: dict[str, list[str]] = {}
    plain: list[str] = []
    for text in texts:
        if text.startswith("from"):
            _, module, _, name = text.split()
            by_module.setdefault(module, []).append(name)
        else:
            plain.append(text)
    return [*plain, *(f"from {module} import {', '.join(sorted(names))}" for module, names in by_module.items())]


def _docstring(program: TracedFunction, name: str) -> list[str]:
    wide = program.x64 and any(
        v.type.name in ("float64", "int64", "uint64", "complex128")
        for s in program.block.walk()
        for v in (*s.outputs, *s.inputs)
    )
    lines = [f'"""What {name} does with arguments of these types, decompiled from JAX.', ""]
    for leaf in program.leaves:
        weak = " (a Python number)" if leaf.variable.type.weak else ""
        lines.append(f"{leaf.argument}{leaf.path}: {leaf.variable.type}{weak}")
    if not program.leaves:
        lines.append("(none)")
    if wide:
        lines += ["", "It was traced with jax_enable_x64."]
    return [*lines, '"""']


def _constants(module: Module, backend: Backend) -> tuple[list[str], dict[str, Any]]:
    prefix, in_jax = backend.module, backend is BACKENDS["jax"]
    lines: list[str] = []
    arrays: dict[str, Any] = {}
    for variable, name in module.constants.items():
        kind, dtype = variable.type.name, backend.dtype(variable.type)
        value = np.asarray(variable.constant)
        if variable.type.is_key:
            text = f"np.array({_nested(value, prefix)}, np.uint32)".replace("np.", f"{prefix}.")
            if in_jax:
                text = f"jax.random.wrap_key_data({text})"
            else:
                module.helpers.setdefault("as_key")
                text = f"as_key({text})"
                # Constants stand above helpers, so that keys are made where they are used.
            lines.append(f"{name} = {text}")
        elif value.size <= MOST_WRITTEN:
            lines += wrapped(f"{name} = {prefix}.array({_nested(value, prefix)}, dtype={dtype})", 0)
        else:
            stored = value if ordinary(kind) else value.view(f"u{value.dtype.itemsize}")
            arrays[name] = stored
            text = f'constants["{name}"]' if ordinary(kind) else f'constants["{name}"].view({dtype})'
            lines.append(f"{name} = {prefix}.asarray({text})" if in_jax else f"{name} = {text}")
    if arrays:
        lines.insert(0, LOAD.format(module=prefix))
    return lines, arrays


def _nested(value: Any, prefix: str) -> str:
    if value.shape == ():
        kind = value.dtype.kind
        if kind == "b":
            return str(bool(value))
        if kind in "iu" or "int" in value.dtype.name:
            return str(int(value))
        if kind == "c":
            return repr(complex(value))
        return float_text(value[()], value.dtype, prefix)
    return "[" + ", ".join(_nested(part, prefix) for part in value) + "]"

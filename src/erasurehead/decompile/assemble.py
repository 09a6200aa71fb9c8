"""Assembles the source of a module from a program: docstring, imports, constants, helpers, functions."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from erasurehead.decompile.numbers import float_text, jax_dtype, numpy_dtype, ordinary
from erasurehead.decompile.program import Statement, TracedFunction, Variable
from erasurehead.decompile.rules import BACKENDS
from erasurehead.decompile.texts import Names, wrapped
from erasurehead.decompile.writer import Module, Scope, constant_names, is_plain, uses_of

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
    assembled, helpers = _assemble(program, backend_name, comments, unfold, hook, program.name)
    if assembled.name in helpers:  # a helper of the same name
        assembled, _ = _assemble(program, backend_name, comments, unfold, hook, f"{program.name}_")
    return assembled


def _assemble(
    program: TracedFunction,
    backend_name: str,
    comments: bool,
    unfold: bool,
    hook: Callable[[Scope, Statement, list[str]], None] | None,
    title: str,
) -> tuple[Assembled, set[str]]:
    backend = BACKENDS[backend_name]
    module = Module()
    function = module.names.new(title)
    module.names.taken |= _helper_names(backend_name) | {"constants"}
    module.constants = constant_names(program, module.names)
    classes = {kind: module.names.new(kind.__name__) for kind in program.tuples}
    names = Names(module.names.taken)
    known: dict[Variable, str] = {}
    uses = uses_of(program.block)
    scope = Scope(backend, module, program.block, names, known, uses, 4, comments, unfold, hook)
    arguments = {argument: names.new(argument) for argument in program.arguments}
    for leaf in program.leaves:
        source = f"{arguments[leaf.argument]}{leaf.path}"
        if leaf.variable not in uses:
            continue
        if leaf.path:
            name = scope.bind(leaf.variable, "x")
        else:
            name = known[leaf.variable] = source
        if backend_name == "numpy":
            scope.emit(f"{name} = {_as_array(scope, leaf.variable, source)}")
        elif leaf.path:
            scope.emit(f"{name} = {source}")
    scope.write()
    scope.returned(lambda texts: _finish(scope, program, texts, classes, backend_name))
    body = scope.lines
    head = Scope(backend, module, program.block, names, known, uses, 0)
    head.emit(f"def {function}({', '.join(arguments.values())}):")
    decorator = "@jax.jit" if backend_name == "jax" else '@np.errstate(all="ignore")'
    defined = [line for kind, name in classes.items() for line in _tuple_class(name, kind)]
    module.lines = [*defined, *([""] * 2 if defined else []), *module.lines]
    assembled = _module(program, backend_name, module, [decorator, *head.lines, *body], function)
    assembled.classes = {name: kind for kind, name in classes.items()}
    return assembled, _helpers_used(module) if backend_name == "numpy" else set()


def _finish(scope: Scope, program: TracedFunction, texts: list[str], classes: Mapping[type, str], backend: str) -> str:
    if backend == "numpy":
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


def _as_array(scope: Scope, variable: Variable, source: str) -> str:
    if variable.type.is_key:
        return f"{scope.helper('as_key')}({source})"
    dtype = numpy_dtype(variable.type.name)
    return f"np.asarray({source}, {dtype})"


def _helper_names(backend: str) -> set[str]:
    if backend == "jax":
        return set()
    from erasurehead.decompile.helpers import names

    return set(names())


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


def _module(program: TracedFunction, backend: str, module: Module, function: list[str], name: str) -> Assembled:
    lines = _docstring(program, name)
    constants, arrays = _constants(module, backend)
    helpers = _helpers(module) if backend == "numpy" else []
    rest = "\n".join([*constants, *helpers, *module.lines, *function])
    used = [_IMPORTS[key] for key in _IMPORTS if re.search(rf"(?<![\w.\"]){key}\.", rest)]
    texts = sorted(used, key=lambda t: (t.startswith("from"), t.split()[1]))
    merged = _merged(texts)
    if collections := [name for name in _COLLECTIONS if f"{name}(" in rest]:
        merged = [f"from collections import {', '.join(collections)}", "", *merged]
    parts = ["\n".join(lines), *(["\n".join(merged)] if merged else [])]
    head = "\n\n".join(parts)
    if constants:
        head += "\n\n" + "\n".join(constants)
    body = "\n".join([*helpers, *module.lines, *function])
    return Assembled(f"{head}\n\n\n{body}\n", arrays, name)


def _merged(texts: list[str]) -> list[str]:
    """Return import lines, merged by module."""
    found: dict[str, list[str]] = {}
    plain: list[str] = []
    for text in texts:
        if text.startswith("from"):
            _, module, _, name = text.split()
            found.setdefault(module, []).append(name)
        else:
            plain.append(text)
    return [*plain, *(f"from {module} import {', '.join(sorted(names))}" for module, names in found.items())]


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


def _helpers_used(module: Module) -> set[str]:
    from erasurehead.decompile.helpers import closure

    return set(closure(list(module.helpers)))


def _helpers(module: Module) -> list[str]:
    from erasurehead.decompile.helpers import sources

    return [line for text in sources(list(module.helpers)) for line in [*text.splitlines(), "", ""]]


def _constants(module: Module, backend: str) -> tuple[list[str], dict[str, Any]]:
    prefix = "jnp" if backend == "jax" else "np"
    lines: list[str] = []
    arrays: dict[str, Any] = {}
    for variable, name in module.constants.items():
        kind = variable.type.name
        dtype = jax_dtype(kind) if backend == "jax" else numpy_dtype(kind)
        value = np.asarray(variable.constant)
        if variable.type.is_key:
            text = f"np.array({_nested(value, prefix)}, np.uint32)".replace("np.", f"{prefix}.")
            if backend == "jax":
                text = f"jax.random.wrap_key_data({text})"
            else:
                module.helpers.setdefault("as_key")
                text = f"as_key({text})"
                # Constants stand above helpers, so that keys are made where they are used.
            lines.append(f"{name} = {text}")
        elif is_plain(value):
            lines += wrapped(f"{name} = {prefix}.array({_nested(value, prefix)}, dtype={dtype})", 0)
        else:
            stored = value if ordinary(kind) else value.view(f"u{value.dtype.itemsize}")
            arrays[name] = stored
            text = f'constants["{name}"]' if ordinary(kind) else f'constants["{name}"].view({dtype})'
            lines.append(f"{name} = {prefix}.asarray({text})" if backend == "jax" else f"{name} = {text}")
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

"""Functions and example arguments, as they are given on the command line."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from erasurehead._internal.resources import check_memory
from erasurehead._internal.user_files import readable
from erasurehead.decompile._installed import jax_module
from erasurehead.errors import DataError, ErasureHeadError, InvalidArgument, invalid


def find_function(target: str) -> Callable[..., Any]:
    """Import and return the function that a text such as `package.module:function` or `folder/file.py:function` names.

    Raises:
        InvalidArgument: if the text has another form, or there is no such function.
        DataError: if the file cannot be read, or running it fails.
    """
    source, colon, name = target.rpartition(":")
    if not colon or not source or not name.replace(".", "_").isidentifier():
        raise invalid("TARGET", "must be MODULE:FUNCTION or FILE.py:FUNCTION", target, "write it as my.py:loss")
    module: Any = _file(source) if source.endswith(".py") else _module(source)
    value: Any = module
    for part in name.split("."):
        value = getattr(value, part, None)
        if value is None:
            functions = [str(key) for key in dir(module) if inspect.isfunction(getattr(module, key))]
            hint = f"; it has {', '.join(functions[:12])}" if functions else ""
            raise InvalidArgument(
                "TARGET", "must be MODULE:FUNCTION", target, sentence=f"{source} has no function {name}{hint}."
            )
    if not callable(value):
        raise invalid(target, "must be a function", value)
    return value


def _file(source: str) -> Any:
    path = readable(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise DataError(f"{source} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise DataError(f"{source} fails when it is run: {type(error).__name__}: {error}.") from error
    finally:
        sys.path.pop(0)
    return module


def _no_module(name: str) -> InvalidArgument:
    sentence = f"There is no module {name!r}; name a file as FILE.py:FUNCTION."
    return InvalidArgument("TARGET", "must name a module or a file", name, sentence=sentence)


def _module(source: str) -> Any:
    if source.startswith("."):
        raise _no_module(source)
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(source)
    except ModuleNotFoundError as error:
        raise _no_module(error.name or source) from None
    except Exception as error:
        raise DataError(f"{source} fails when it is imported: {type(error).__name__}: {error}.") from error
    finally:
        sys.path.pop(0)


def read_examples(function: Callable[..., Any], texts: Sequence[str]) -> list[Any]:
    """Return example arguments for a function.

    Arguments:
        function: the user's function.
        texts: one per argument: a type such as `float32[100,5]`, `key` for a random key, a number, or dicts, lists and
            tuples of these. If there are none, annotations of the function that are such texts, and its defaults, are
            used.

    Raises:
        InvalidArgument: if a text is none of these, or an argument has none.
    """
    random = np.random.default_rng(0)
    parameters = [
        p
        for p in inspect.signature(function).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if not texts:
        return [_of_parameter(p, random) for p in parameters]
    return [_value(_parsed(text), text, random) for text in texts]


def _of_parameter(parameter: inspect.Parameter, random: np.random.Generator) -> Any:
    if isinstance(parameter.annotation, str) and parameter.annotation not in ("", "Any", "float", "int"):
        text = parameter.annotation.strip("'\"")
        try:
            return _value(_parsed(text), text, random)
        except InvalidArgument:
            pass
    if parameter.default is not parameter.empty:
        return parameter.default
    name, where = parameter.name, "for each argument, as in --example 'float32[100,5]'"
    sentence = f"No example is given for {name}; add --example {where}."
    raise InvalidArgument("--example", f"must be given for {name}", sentence=sentence)


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _unreadable(text) from None


def _unreadable(text: str) -> InvalidArgument:
    return invalid(
        "--example",
        "must be a type, a number, or a dict, list or tuple of these",
        text,
        "write types as 'float32[100,5]'; in Python, arrays of your own are examples, too",
    )


def _value(node: ast.expr, text: str, random: np.random.Generator) -> Any:
    if isinstance(node, ast.Dict):
        keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
        if None in keys:
            raise _unreadable(text)
        return dict(zip(keys, (_value(v, text, random) for v in node.values), strict=True))
    if isinstance(node, ast.List):
        return [_value(v, text, random) for v in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_value(v, text, random) for v in node.elts)
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | complex):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _value(node.operand, text, random)
        if isinstance(value, int | float):
            return -value
    if isinstance(node, ast.Name):
        return _array(node.id, (), text, random)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        try:
            sizes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return _array(node.value.id, tuple(map(ast.literal_eval, sizes)), text, random)
        except (TypeError, ValueError, OverflowError) as error:
            raise error if isinstance(error, ErasureHeadError) else _unreadable(text) from None
    raise _unreadable(text)


def _array(name: str, shape: tuple[int, ...], text: str, random: np.random.Generator) -> Any:
    if name == "key":
        key = jax_module().random.key(int(random.integers(2**31)))
        return jax_module().random.split(key, shape) if shape else key
    try:
        dtype: Any = np.dtype(jax_module().numpy.dtype(name))
    except TypeError:
        raise _unreadable(text) from None
    check_memory(f"The example {text!r}", 8 * math.prod(shape), "name a smaller shape")
    if dtype.kind == "b":
        return random.integers(0, 2, size=shape).astype(bool)
    if dtype.kind in "iu" or name.startswith(("int", "uint")):
        return np.asarray(random.integers(0, 10, size=shape)).astype(dtype)
    values = random.normal(size=shape)
    if dtype.kind == "c":
        return np.asarray(values + 1j * random.normal(size=shape)).astype(dtype)
    if dtype.kind in "OSUMm":
        raise _unreadable(text)
    return np.asarray(values).astype(dtype)

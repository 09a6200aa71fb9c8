"""A decompiled function: its text, the function that the text defines, and the check against the original."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from erasurehead._internal.storage.folders import Folder
from erasurehead.decompile._assemble import LOAD
from erasurehead.decompile._running import run_text
from erasurehead.errors import DataError, InvalidArgument, invalid


@dataclass
class DecompiledSource:
    """A function as Python source.

    Arguments:
        text: text of the module with the function.
        name: name of the function.
        backend: `"jax"` or `"numpy"`.
        constants: name -> array, stored beside the source.
        original: the function that it was decompiled from; None for a source that was read from a file.
        examples: the arguments that it was decompiled for.
        report: report of the check against the original; None if it was not checked.
        classes: name -> class of the original that a named tuple of the text stands for; empty for one from a file.
        from_file: whether it was read from a file, so that somebody may have edited it.
    """

    text: str
    name: str
    backend: str
    constants: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)
    original: Callable[..., Any] | None = field(default=None, repr=False)
    examples: tuple[Any, ...] = field(default=(), repr=False)
    report: Any = field(default=None, repr=False)
    classes: Mapping[str, type] = field(default_factory=dict[str, type], repr=False)
    from_file: bool = field(default=False, repr=False)
    _function: Callable[..., Any] | None = field(default=None, repr=False, init=False)

    def __str__(self) -> str:
        return self.text

    @property
    def hash(self) -> str:
        """SHA-256 of the text and of the constants: run files state it, so that only reviewed source runs."""
        digest = hashlib.sha256(self.text.encode())
        for name in sorted(self.constants):
            array = np.asarray(self.constants[name])
            digest.update(f"\0{name}\0{array.dtype.str}\0{array.shape}\0".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    @property
    def function(self) -> Callable[..., Any]:
        """The function that the text defines; the text is run on first access."""
        if self._function is None:
            self._function = run_text(self.text, self.name, self.constants, self.classes)
        return self._function

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        return self.function(*arguments)

    def save(self, path: str | Path) -> Path:
        """Write the text to a file, and large constants into an `.npz` of the same name beside it.

        Raises:
            InvalidArgument: if the name does not end with `.py`.
        """
        file = Path(path)
        if file.suffix != ".py":
            raise invalid("path", "must end with .py", str(path))
        with Folder.open(file.parent) as folder:
            folder.write_whole(file.name, [self.text.encode()])
            if self.constants:
                packed = io.BytesIO()
                np.savez(packed, **self.constants)
                folder.write_whole(file.with_suffix(".npz").name, [packed.getbuffer()])
        return file

    @classmethod
    def load(
        cls, path: str | Path, function: Callable[..., Any] | None = None, *examples: Any, name: str | None = None
    ) -> DecompiledSource:
        """Return a source from a file, as saved or edited since. None of it is run.

        Arguments:
            path: path of the file.
            function: the function that it should compute, for `check`.
            examples: example arguments for the function.
            name: name of the function in the file; by default the last one defined at the top level.

        Raises:
            DataError: if the file cannot be read, is not Python, or has no such function.
        """
        import ast

        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8")
            tree = ast.parse(text, filename=str(file))
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{file} cannot be read: {error}.") from None
        except SyntaxError as error:
            raise DataError(f"{file}, line {error.lineno}: this is not Python: {error.msg}.") from None
        except (ValueError, RecursionError, MemoryError) as error:
            raise DataError(f"{file} cannot be read as Python: {error}.") from None
        functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        if not functions:
            raise DataError(f"{file} defines no function.")
        if name is not None and name not in functions:
            raise DataError(f"{file} defines no function {name}; it defines {', '.join(functions)}.")
        constants: dict[str, Any] = {}
        beside = file.with_suffix(".npz")
        if any(LOAD.format(module=module) in text for module in ("np", "jnp")):
            try:
                with np.load(beside) as arrays:
                    constants = {key: arrays[key] for key in arrays.files}
            except (OSError, ValueError) as error:
                raise DataError(f"{beside}, which {file.name} needs, cannot be read: {error}.") from None
        imported = {
            alias.name.split(".")[0] for node in tree.body if isinstance(node, ast.Import) for alias in node.names
        } | {(node.module or "").split(".")[0] for node in tree.body if isinstance(node, ast.ImportFrom)}
        backend = "jax" if "jax" in imported else "numpy"
        return cls(text, name or functions[-1], backend, constants, function, tuple(examples), from_file=True)

    def check(self, function: Callable[..., Any] | None = None, *examples: Any, **options: Any) -> Any:
        """Compare the source with the original function on the examples and on fresh inputs, and return the report.

        Arguments:
            function: the original function; by default the one that it was decompiled from.
            examples: example arguments for it; by default those that it was decompiled for.
            options: options of `check`. Extreme draws are made unless the source is from
                a file: who edits one may do so in order that it has numbers where the function has NaN.
        """
        from erasurehead.decompile._checking import check

        original = function or self.original
        arguments: Sequence[Any] = examples or self.examples
        if original is None:
            sentence = "A source from a file needs the function that it stands for: check(function, *examples)."
            raise InvalidArgument("function", "must be given for a source from a file", sentence=sentence)
        return check(self, original, arguments, extremes=options.pop("extremes", not self.from_file), **options)

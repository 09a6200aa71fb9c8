"""Names that a package imports when they are first used, so that importing it costs only what is used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__`. Type checkers are told the same names under `TYPE_CHECKING`.

    Arguments:
        package: the package's full name.
        homes: name -> the module of the package that defines it, or that it is. No module may have the name of
            something else that the package exports: it would replace it once imported.
    """

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it can load {', '.join(homes)}")
        module = import_module(f"{package}.{homes[name]}")
        return module if homes[name] == name else getattr(module, name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return find, names

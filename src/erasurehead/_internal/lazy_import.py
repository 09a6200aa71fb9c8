"""Names that a package imports when they are first used, so that importing it costs only what is used."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module

_IMPORT = re.compile(r"^    from (\S+) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)
_NAME = re.compile(r"(\w+) as (\w+)")

_EXTRAS = {"torch": "torch", "zmq": "torch", "jax": "jax"}
"""Libraries that extras bring, and which."""


def lazy_names(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__`, by what its `__init__` imports under `if TYPE_CHECKING:`.

    So each name is written once, where type checkers and editors read it, too. `__all__` is the same list.

    Arguments:
        package: the package's full name.
    """

    @cache
    def homes() -> dict[str, tuple[str, str]]:
        with open(str(sys.modules[package].__file__), encoding="utf-8") as file:  # pathlib and ast would cost more
            block = file.read().partition("\nif TYPE_CHECKING:\n")[2]
        return {
            public: (module, own)
            for module, several, one in _IMPORT.findall(block)
            for own, public in _NAME.findall(several or one)
        }

    def find(name: str) -> object:
        if name == "__all__":
            return sorted(homes())
        if name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it can load {', '.join(homes())}")
        module, own = homes()[name]
        try:
            return import_module(f"{module}.{own}") if module == package else getattr(import_module(module), own)
        except ModuleNotFoundError as error:
            if (missing := str(error.name).partition(".")[0]) not in _EXTRAS:
                raise
            said = f"{package}.{name} needs {missing}: pip install 'erasurehead[{_EXTRAS[missing]}]'."
            raise import_module("erasurehead.errors").MissingExtra(said) from None

    def names() -> list[str]:
        return sorted({*homes(), *(name for name in vars(sys.modules[package]) if name.startswith("__"))})

    return find, names

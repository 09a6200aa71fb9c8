"""The decompiler turns a JAX function back into Python that a person can read, edit and run without JAX.

The room serves anybody who writes JAX, and knows nothing of the rest of the library. It offers one function, and the
source that it returns, which can be checked again once it was edited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.decompile._api import decompile as decompile
    from erasurehead.decompile._source import DecompiledSource as DecompiledSource

__getattr__, __dir__ = lazy_names(__name__)

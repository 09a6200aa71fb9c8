"""The decompiler: turns a JAX function back into Python that a person can read, edit and run without JAX."""

from erasurehead.decompile.api import decompile as decompile
from erasurehead.decompile.errors import CheckFailed as CheckFailed
from erasurehead.decompile.errors import Unsupported as Unsupported
from erasurehead.decompile.source import DecompiledSource as DecompiledSource

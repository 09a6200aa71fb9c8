"""What Python runs first in ranks that tests start: PyTorch's compiler is left out, which takes half of their start.

Its optimizers load it in their first step, only to say to it that it shall leave them alone. Nothing here is compiled.
"""

import sys
from types import ModuleType
from typing import Any


def _as_it_is(function: object, *_: object, **__: object) -> object:
    return function


def _nothing() -> None:
    pass


_compiler: Any = ModuleType("torch._dynamo")
_compiler.disable, _compiler.graph_break = _as_it_is, _nothing
sys.modules[_compiler.__name__] = _compiler

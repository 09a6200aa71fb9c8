"""Round trips by family: every primitive, on both backends, on the examples and on a fresh input."""

# ruff: noqa: E402

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

jax = pytest.importorskip("jax", reason="the decompiler needs JAX: pip install 'erasurehead[jax]'")

from erasurehead.decompile import DecompiledSource, decompile
from erasurehead.decompile._errors import Unsupported
from erasurehead.decompile._writing import text_of

from .programs import CASES, Case

pytestmark = pytest.mark.usefixtures("not_optimised")

QUICK = {
    "tanh",
    "add of integers",
    "division by zero",
    "overflow",
    "powers",
    "select",
    "complex",
    "casts out of range",
    "specials",
    "sum along axes",
    "windows",
    "sorts of pairs",
    "top k",
    "broadcasts",
    "modes of taking",
    "updates",
    "batched products",
    "convolutions",
    "cond",
    "while",
    "scan",
    "branch in a loop",
    "svd",
    "normal",
    "custom vjp",
    "value and grad",
    "pytrees",
}


def cases() -> list[Any]:
    """All cases; both tests of one run on the same worker of xdist, and share what is compiled."""
    return [
        pytest.param(
            c, id=n, marks=[pytest.mark.xdist_group(f"program {n}"), *([] if n in QUICK else [pytest.mark.slow])]
        )
        for n, c in CASES.items()
    ]


@cache
def compiled(name: str) -> Any:
    """The function, compiled once for all checks of it."""
    return jax.jit(CASES[name].function)


@pytest.mark.slow
@pytest.mark.parametrize("case", cases())
def test_jax(case: Case) -> None:
    source = decompile(case.function, *case.arguments, check=False)
    report = source.check(compiled(case.name), *case.arguments, draws=1)
    assert report.passed, report
    assert text_of(source.function, case.arguments) == source.text, "decompiled again, the text is another"


@pytest.mark.slow
@pytest.mark.parametrize("case", cases())
def test_numpy(case: Case) -> None:
    if not case.numpy:
        with pytest.raises(Unsupported, match="cannot be decompiled to numpy"):
            decompile(case.function, *case.arguments, backend="numpy", check=False)
        return
    source: DecompiledSource = decompile(case.function, *case.arguments, backend="numpy", check=False)
    assert "jax" not in source.text.partition('"""\n\n')[2], "numpy's source does without JAX"
    report = source.check(compiled(case.name), *case.arguments, draws=1)
    assert report.passed, report

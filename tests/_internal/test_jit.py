"""What is compiled is compiled for the types that are stated, and for no others; with or without a cache on disk."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from erasurehead._internal.jit import FLOAT, compiled, reads


def test_other_types_are_refused() -> None:
    # Its source is not in a file that numba could keep a cache beside, so this is the way without one, too.
    namespace: dict[str, object] = {}
    exec("def total(values):\n    return values.sum()", namespace)
    total = compiled(FLOAT, reads("float64"))(namespace["total"])
    assert total(np.arange(4.0)) == 6.0
    for wrong in (np.arange(4), np.arange(8.0)[::2], np.ones((2, 2))):
        with pytest.raises(TypeError, match="No matching definition"):
            total(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("size", [60, 5000])
def test_only_computing_much_loads_numba_and_in_workers_only_their_start(size: int) -> None:
    script = """
import sys, numpy as np
from importlib import import_module
from scipy import sparse
from erasurehead import problems
from erasurehead.problems import _kernels as kernels
kernels._Progress.enough = enough = 2**18
size = int(sys.argv[1])
problem = problems.LogisticRegression(sparse.eye_array(size, format="csr"), np.resize([1.0, -1.0], size))
shard, times = problem.shard([slice(0, 30)]), enough // (4 * size + 3 * 1024)
def compute(times):
    for _ in range(times):
        problem.gradient(np.zeros(size))
compute(times // 2)
assert "numba" not in sys.modules and "sklearn" not in sys.modules
if sys.argv[2] == "worker":
    for module in problem.preload:
        import_module(module)
    assert ("numba" in sys.modules) == (size > 60)
    compute(1)
    loaded = set(sys.modules)
    compute(times)
    assert set(sys.modules) == loaded
else:
    compute(times)
    assert "numba" in sys.modules
"""
    for who in ("worker", "coordinator"):
        subprocess.run([sys.executable, "-c", script, str(size), who], check=True)

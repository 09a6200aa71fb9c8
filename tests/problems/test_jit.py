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
def test_only_computing_with_what_is_large_loads_numba() -> None:
    script = """
import sys, numpy as np
from scipy import sparse
from erasurehead import problems
for size in (4, 5000):
    eye = sparse.eye_array(size, format="csr")
    problem = problems.LogisticRegression(eye, np.resize([1.0, -1.0], size))
    problem.shard([slice(0, 2)])
    assert "numba" not in sys.modules and "sklearn" not in sys.modules
    assert ("erasurehead.problems.machine_code" in problem.preload) == (size > 4)
    problem.gradient(np.zeros(size))
    assert ("numba" in sys.modules) == (size > 4)
assert set(problem.preload) <= set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True)

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
def test_importing_problems_and_building_shards_loads_no_numba_and_computing_does() -> None:
    script = """
import sys, numpy as np
from scipy import sparse
from erasurehead import problems
problem = problems.LogisticRegression(sparse.eye_array(4, format="csr"), [1, -1, 1, -1])
shard = problem.shard([slice(0, 2)])
assert "numba" not in sys.modules and "sklearn" not in sys.modules
shard.combine(np.zeros(2), np.ones(1), 0, np.empty(2))
assert "numba" in sys.modules and "sklearn" not in sys.modules
assert set(problem.preload) <= set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True)

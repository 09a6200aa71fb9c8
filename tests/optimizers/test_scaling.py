"""The diagonals that parameters are scaled by."""

from __future__ import annotations

import numpy as np
import pytest

from erasurehead.optimizers._scaling import POWERS, scalings


@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_diagonals_are_the_stated_powers_of_the_curvatures(penalty: float) -> None:
    curvature = np.array([4.0, 0.0, 1e-3, 2.5e5])
    safe, *others = scalings(curvature, 2.0, np.full(4, penalty))
    least = penalty or 1e-3  # that of a parameter that no sample touches
    own = np.maximum(curvature + penalty, least)
    np.testing.assert_allclose(safe, np.maximum(2.0 * curvature + penalty, own), rtol=1e-12)
    assert len(others) == len(POWERS) - 1
    for found, power in zip(others, POWERS[1:], strict=True):
        np.testing.assert_allclose(found, own**power, rtol=1e-12)

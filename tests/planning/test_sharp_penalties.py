"""What a sharp penalty does not allow is refused, and not computed without it."""

from __future__ import annotations

import numpy as np
import pytest

from erasurehead.errors import InvalidArgument
from erasurehead.planning._constants import estimate_constants
from erasurehead.problems import ElasticNet, LeastSquares

X, Y = np.eye(4), np.arange(4.0)


def test_the_minimum_is_not_looked_for_as_if_the_penalty_were_smooth() -> None:
    with pytest.raises(
        InvalidArgument, match=r"problem must have a smooth penalty where its minimum.*ElasticNet\(l1=0.1"
    ):
        estimate_constants(LeastSquares(X, Y, penalty=ElasticNet(0.1)), 2)

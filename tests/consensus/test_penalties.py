"""Peers share gradients of the whole objective: what has none everywhere is refused."""

from __future__ import annotations

import numpy as np
import pytest

from erasurehead.consensus._shares import LocalGradients
from erasurehead.errors import InvalidArgument
from erasurehead.problems import ElasticNet, LeastSquares

X, Y = np.eye(4), np.arange(4.0)


@pytest.mark.parametrize("penalty", [ElasticNet(0.1), ElasticNet(0.1, 0.1)], ids=str)
def test_training_without_a_coordinator_knows_l2_only(penalty: ElasticNet) -> None:
    with pytest.raises(InvalidArgument, match="penalty must have a gradient everywhere for peers"):
        LocalGradients(LeastSquares(X, Y, penalty=penalty), (np.arange(2), np.arange(2, 4)))

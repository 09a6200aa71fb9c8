"""Faults of peers and of their network, as a plan states them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from erasurehead.consensus import NetworkPartition, train
from erasurehead.errors import InvalidArgument
from erasurehead.problems import LeastSquares


def test_a_partition_of_no_peers_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="peers must be at least one"):
        NetworkPartition((), at=1.0)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"faults": None}, "faults must be a list of crashes and partitions; such as"),
        ({"faults": ["crash"]}, r"faults must be a list of crashes and partitions, but it is \['crash'\]; such as"),
        ({"graph": [[0, 1], [1, 2]]}, "graph must be a graph, or the text of one, but it is .*; such as 'ring"),
        ({"max_seconds": 3}, "max_seconds must be a setting of peers, but it is 3; there are mixing, algorithm, rate"),
    ],
)
def test_what_is_no_setting_of_peers_is_refused_in_a_sentence(settings: dict[str, Any], said: str) -> None:
    problem = LeastSquares(np.eye(6), np.arange(6.0))
    with pytest.raises(InvalidArgument, match=said):
        train(problem, settings.pop("graph", "ring()"), peers=3, steps=2, rate=0.1, **settings)

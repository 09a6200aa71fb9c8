"""Faults of peers and of their network, as a plan states them."""

from __future__ import annotations

import pytest

from erasurehead.consensus import NetworkPartition
from erasurehead.errors import InvalidArgument


def test_a_partition_of_no_peers_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="peers must be at least one"):
        NetworkPartition((), at=1.0)

"""What befalls peers and their network, as a plan says it."""

from __future__ import annotations

import pytest

from erasurehead.consensus import Cut
from erasurehead.errors import InvalidArgument


def test_a_cut_of_no_peers_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="peers must be at least one"):
        Cut((), at=1.0)

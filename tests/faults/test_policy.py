"""What a fault policy may say."""

from __future__ import annotations

from typing import Any

import pytest

from erasurehead.errors import InvalidArgument
from erasurehead.faults import FaultPolicy


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"verify": "no"}, "fault_policy.verify must be True or False, but it is 'no'"),
        ({"grow": 1}, "fault_policy.grow must be True or False, but it is 1"),
        ({"on_death": "revive"}, "fault_policy.on_death must be one of 'replace', 'spread', 'leave'"),
        ({"replacements": -1}, "fault_policy.replacements must be at least 0"),
        ({"suspect_after": 0}, "fault_policy.suspect_after must be a positive number of seconds"),
    ],
)
def test_what_it_may_not_say_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        FaultPolicy(**given)

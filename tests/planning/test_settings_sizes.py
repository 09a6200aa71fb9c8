"""No setting is made up for more workers than there can be."""

from __future__ import annotations

import pytest

from erasurehead.errors import InvalidArgument
from erasurehead.planning import _settings


def test_settings_for_too_many_workers_are_refused() -> None:
    for call in (lambda: _settings.default_settings(10**12), lambda: _settings.usual_setting(10**30)):
        with pytest.raises(InvalidArgument, match="n_workers must be at most 10000000"):
            call()

"""Tests that are repeated with longer delays begin each attempt with an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from erasurehead.testing._pacing import PACES, at_some_pace


def test_what_fails_is_tried_again_in_a_folder_of_its_own(tmp_path: Path) -> None:
    tried = list[float]()

    @at_some_pace
    def late(tmp_path: Path, pace: float) -> None:
        assert not any(tmp_path.iterdir())
        (tmp_path / "left").touch()
        tried.append(pace)
        assert pace == PACES[1]

    late(tmp_path=tmp_path)
    assert tried == list(PACES[:2])


def test_what_fails_at_every_pace_fails() -> None:
    @at_some_pace
    def wrong(pace: float) -> None:
        assert pace < 0

    with pytest.raises(AssertionError):
        wrong()

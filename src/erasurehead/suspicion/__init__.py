"""Hung is not slow: who has been silent for longer than the answers so far make likely."""

from erasurehead.suspicion.law import Law
from erasurehead.suspicion.playing import Played, play
from erasurehead.suspicion.suspicion import Suspicion

__all__ = ["Law", "Played", "Suspicion", "play"]

"""Hung is not slow: finds workers that are silent for longer than the answers so far make likely."""

from erasurehead.faults.failure_detector.detector import FailureDetector
from erasurehead.faults.failure_detector.silence_law import Law
from erasurehead.faults.failure_detector.trials import Played, play

__all__ = ["FailureDetector", "Law", "Played", "play"]

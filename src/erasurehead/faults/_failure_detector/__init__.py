"""Failure detection: suspects workers whose silence is longer than the answers so far make likely."""

from erasurehead.faults._failure_detector.detector import FailureDetector
from erasurehead.faults._failure_detector.silence_law import Law

__all__ = ["FailureDetector", "Law"]

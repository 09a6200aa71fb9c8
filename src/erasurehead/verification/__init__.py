"""Lies: messages are examined before anything is decoded, and a worker that is caught is put aside."""

from erasurehead.verification.examination import Examination, unusable
from erasurehead.verification.verifier import Probe, Verifier

__all__ = ["Examination", "Probe", "Verifier", "unusable"]

"""Lies: messages are examined before anything is decoded, and a worker that is caught is put aside."""

from erasurehead.verification.comparable import check_comparable
from erasurehead.verification.examination import NOT_FINITE, Examination, Undecided, unusable
from erasurehead.verification.inspecting import Inspection, inspect
from erasurehead.verification.verifier import Verifier

__all__ = [
    "NOT_FINITE",
    "Examination",
    "Inspection",
    "Undecided",
    "Verifier",
    "check_comparable",
    "inspect",
    "unusable",
]

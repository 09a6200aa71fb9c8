"""Byzantine workers: messages are examined before anything is decoded, and workers that lie are put aside."""

from erasurehead.faults._byzantine.bisection import Bisection
from erasurehead.faults._byzantine.comparable import check_comparable
from erasurehead.faults._byzantine.examination import NOT_FINITE, Examination, Remark, Undecided, unusable
from erasurehead.faults._byzantine.verifier import VerificationCost, Verifier

__all__ = [
    "NOT_FINITE",
    "Bisection",
    "Examination",
    "Remark",
    "Undecided",
    "VerificationCost",
    "Verifier",
    "check_comparable",
    "unusable",
]

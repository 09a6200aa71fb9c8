"""Checks that a source computes the same as the original function: on the examples, and on fresh inputs."""

from erasurehead.decompile._checking.check import check as check
from erasurehead.decompile._checking.report import CheckReport as CheckReport, Difference as Difference

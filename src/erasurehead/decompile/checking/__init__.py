"""Checks that a source computes the same as the original function: on the examples, and on fresh inputs."""

from erasurehead.decompile.checking.check import check as check
from erasurehead.decompile.checking.report import CheckReport as CheckReport
from erasurehead.decompile.checking.report import Difference as Difference

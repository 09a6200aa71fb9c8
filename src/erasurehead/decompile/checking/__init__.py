"""Whether a source does what the function does that it stands for: on the examples, and on fresh inputs."""

from erasurehead.decompile.checking.check import check as check
from erasurehead.decompile.checking.report import Difference as Difference
from erasurehead.decompile.checking.report import Report as Report

"""What to do when workers die, hang or lie: the policy, the failure detector, and Byzantine workers.

The room knows times of answers and messages, and nothing of how a worker is started or ended, which is the loop's. It
offers the policy of a run, and the two judges that it asks: who is too silent, and who has lied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.faults._byzantine.verifier import Verifier as Verifier
    from erasurehead.faults._failure_detector.detector import FailureDetector as FailureDetector
    from erasurehead.faults._policy import FaultPolicy as FaultPolicy

__getattr__, __dir__ = lazy_names(__name__)

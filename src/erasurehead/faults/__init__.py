"""What to do when workers die, hang or lie: the policy, the failure detector, and Byzantine workers."""

from erasurehead.faults.policy import FaultPolicy as FaultPolicy

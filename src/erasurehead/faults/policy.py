"""What to do when workers die, hang or lie: the user's policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from erasurehead.errors import check_count, invalid, real

OnDeath: TypeAlias = Literal["replace", "spread", "leave"]
OnLoss: TypeAlias = Literal["stop", "go_on"]
OnSuspicion: TypeAlias = Literal["report", "replace", "ignore"]


@dataclass(frozen=True)
class FaultPolicy:
    """What to do when workers die, hang or lie.

    Arguments:
        death: `"replace"` starts a new worker with the dead one's tasks, and spreads them over the living where none
            can be started; `"spread"` re-forms the code over the living at once; `"leave"` goes on with those that
            are left, as long as the wait rule can be met.
        replacements: how often one worker is replaced before it is given up, at least 0.
        lost: when the wait rule cannot be met any more, whatever is done: `"stop"`, or `"go_on"` with what can still
            come: tasks that nobody can bring are left out, the estimate is scaled to those that are left, and every
            record names them.
        grow: whether to take more workers when the engine offers room for them.
        suspected: `"report"` names workers that seem to hang; `"replace"` replaces them as if they had died; `"ignore"`
            does not even look.
        suspect_after: seconds of silence after which a worker is suspected; None derives them from the arrivals.
        verify: whether replicas' messages are compared, and liars outvoted and put aside, before anything is decoded.
    """

    death: OnDeath = "replace"
    replacements: int = 3
    lost: OnLoss = "stop"
    grow: bool = False
    suspected: OnSuspicion = "report"
    suspect_after: float | None = None
    verify: bool = False

    def __post_init__(self) -> None:
        for name, choices in (
            ("death", ("replace", "spread", "leave")),
            ("lost", ("stop", "go_on")),
            ("suspected", ("report", "replace", "ignore")),
        ):
            value = getattr(self, name)
            if value not in choices:
                raise invalid(f"fault_policy.{name}", f"must be one of {', '.join(map(repr, choices))}", value)
        check_count("fault_policy.replacements", self.replacements, at_least=0)
        if self.suspect_after is not None and not real(self.suspect_after) > 0:
            raise invalid("fault_policy.suspect_after", "must be a positive number of seconds", self.suspect_after)

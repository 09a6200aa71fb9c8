"""The user's policy for workers that die, hang or lie: settings, on which the training loop acts (`WorkerPool`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from erasurehead._internal.documents import PlainData
from erasurehead.errors import check_count, check_type, invalid, real

OnDeath: TypeAlias = Literal["replace", "spread", "leave"]
OnLoss: TypeAlias = Literal["stop", "go_on"]
OnSuspicion: TypeAlias = Literal["report", "replace", "ignore"]


def _metadata(text: str, option: str, metavar: str = "", **rules: Any) -> PlainData:
    """Return the metadata of a field, from which run file keys and command-line options are made."""
    return {"text": text, "option": option, "metavar": metavar, **rules}


@dataclass(frozen=True)
class FaultPolicy:
    """What to do when workers die, hang or lie.

    Arguments:
        on_death: `"replace"` starts a new worker with the tasks of the dead one, or resizes the code over the living
            workers if none can be started; `"spread"` resizes the code at once; `"leave"` continues with the remaining
            workers, as long as the wait rule can be met.
        replacements: how often one worker is replaced before it is given up, at least 0.
        on_loss: what to do when the wait rule can no longer be met: `"stop"`, or `"go_on"` with what can still arrive:
            tasks that no living worker holds are left out, the estimate is scaled up from the others, and every row of
            the records names them.
        grow: whether to start more workers when the engine has room for them.
        on_suspicion: `"report"` reports workers that seem to hang; `"replace"` replaces them as if they had died;
            `"ignore"` does not detect them.
        suspect_after: seconds of silence after which a worker is suspected; None derives them from the arrivals.
        verify: whether messages are compared before decoding, and Byzantine workers excluded.
    """

    on_death: OnDeath = field(
        default="replace",
        metadata=_metadata(
            "replace dead workers (the default; spread if there is no room for others), spread their tasks over the "
            "other workers, or leave them out.",
            "--on-death",
            "WHAT",
        ),
    )
    replacements: int = field(
        default=3,
        metadata=_metadata("How often a worker is replaced before it is given up.", "--replacements", "N", ge=0),
    )
    on_loss: OnLoss = field(
        default="stop",
        metadata=_metadata(
            "stop if the wait rule can no longer be met (the default), or go_on with what can still arrive.",
            "--on-loss",
            "WHAT",
        ),
    )
    grow: bool = field(
        default=False, metadata=_metadata("Start more workers when the cluster has room for them.", "--grow")
    )
    on_suspicion: OnSuspicion = field(
        default="report",
        metadata=_metadata(
            "report workers that seem to hang (the default), replace them, or ignore them (hanging is not detected).",
            "--on-suspicion",
            "WHAT",
        ),
    )
    suspect_after: float | None = field(
        default=None,
        metadata=_metadata(
            "Seconds of silence after which a worker seems to hang; by default derived from the arrivals.",
            "--suspect-after",
            "SECONDS",
            gt=0,
            allow_inf_nan=False,
        ),
    )
    verify: bool = field(
        default=False,
        metadata=_metadata(
            "Compare messages before they are used, and exclude workers that send wrong ones.", "--verify"
        ),
    )

    def __post_init__(self) -> None:
        for name, kind in (("on_death", OnDeath), ("on_loss", OnLoss), ("on_suspicion", OnSuspicion)):
            value, choices = getattr(self, name), get_args(kind)
            if value not in choices:
                raise invalid(f"fault_policy.{name}", f"must be one of {', '.join(map(repr, choices))}", value)
        for name in ("grow", "verify"):
            check_type(f"fault_policy.{name}", getattr(self, name), bool, "must be True or False")
        check_count("fault_policy.replacements", self.replacements, at_least=0)
        if self.suspect_after is not None and not real(self.suspect_after) > 0:
            raise invalid("fault_policy.suspect_after", "must be a positive number of seconds", self.suspect_after)

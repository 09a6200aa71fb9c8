"""What is noticed while a run goes on: facts for records, reports and programs, and a sentence for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

NoticeKind: TypeAlias = Literal[
    "died", "ended", "joined", "suspected", "cleared", "lied", "failed", "refused", "held",
    "resized", "not_resized", "offered",
    "rule_given_up", "tasks_lost", "tasks_neglected", "verification_cost", "measured_between", "not_connected",
    "older_checkpoint", "rewritten", "unrecorded", "model_moved", "model_lost",
]  # fmt: skip
"""What a notice is about, and what its data hold.

Of workers, where `reason` is in words:

===================== ================================================================================================
`died`                a worker is gone, or did not come up; `reason`, and `replaced`: whether another takes its place
`ended`               it seemed to hang and was ended; `reason`, `replaced`
`joined`              it, or another of its number, is there (again); `host`
`suspected`           it seems to hang: silent for so many `seconds`; `reason`
`cleared`             it does not, it has answered, after so many `seconds`; `reason`
`lied`                it lied and is put aside; `reason`
`failed`              it said that it cannot answer; `reason`
`refused`             messages cannot be used: `messages`, of `workers`; `reason`
`held`                messages contradict others, and are kept until more have come: `messages`, of `workers`; `reason`
===================== ================================================================================================

Of the pool of workers:

===================== ================================================================================================
`resized`             the code is for `n_workers` from `generation` on: `scheme`; `moved` get other data, of `bytes`
`not_resized`         it would have, but cannot; `reason`
`offered`             a `host` has room for `count` more workers; `taken`: whether they are started
===================== ================================================================================================

Of the model:

===================== ================================================================================================
`rule_given_up`       the wait `rule` cannot be met without `workers`, and is not needed: the others' messages suffice
`tasks_lost`          nobody can bring `tasks` any more; training goes on without them
`tasks_neglected`     `tasks` are hardly ever counted
`not_connected`       over the last `steps` no path of links led from each peer to every other (without a coordinator)
`measured_between`    the target is measured between steps from now on, and not in a process of its own; `reason`
`verification_cost`   comparing messages took `seconds` a step, a `share` of it, for `comparisons` a step
===================== ================================================================================================

Of the records:

===================== ================================================================================================
`older_checkpoint`    the run goes on from an older checkpoint than its newest; `reason`
`rewritten`           a damaged `file` of the run folder is written again; `reason`
`unrecorded`          records or checkpoints could not be written; `reason`
`model_moved`         the model could not be saved in the run folder; it is in `folder`
`model_lost`          it could not be saved anywhere
===================== ================================================================================================
"""


@dataclass(frozen=True)
class Notice:
    """Something that was noticed while a run goes on. Programs read `kind` and `data`; `text` may be reworded.

    Attributes:
        kind: one of `NoticeKind`.
        worker: the worker that it is about; None if it is about none, or about several.
        step: in which it was noticed, or before which; None before and after training.
        data: what else is known, as plain data; by kind, see `NoticeKind`.
        text: the same for people, as a sentence without a full stop.
        time: when it was noticed, in seconds since training began: negative while workers were started; None for
            callbacks that are called then, and for what is no part of training.
    """

    kind: NoticeKind
    worker: int | None = None
    step: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    text: str = ""
    time: float | None = None

    @property
    def workers(self) -> list[int]:
        """The workers that it is about."""
        return list(self.data.get("workers", ())) if self.worker is None else [self.worker]

    @property
    def reason(self) -> str:
        """Why, in words; empty if there is nothing to say."""
        return str(self.data.get("reason", ""))

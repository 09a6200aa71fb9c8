"""Notices of what happens during a run: facts for records, reports and programs, and a sentence for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias, TypedDict

NoticeKind: TypeAlias = Literal[
    "died",
    "ended",
    "joined",
    "suspected",
    "cleared",
    "lied",
    "failed",
    "refused",
    "held",
    "resized",
    "not_resized",
    "offered",
    "rule_given_up",
    "tasks_lost",
    "tasks_neglected",
    "verification_cost",
    "measured_between",
    "not_connected",
    "older_checkpoint",
    "rewritten",
    "unrecorded",
    "model_moved",
    "model_lost",
]
"""The kinds of notices, and the data of each.

About workers, with `reason` in words:

===================== ================================================================================================
`died`                the worker is gone, or did not start; `reason`, and `replaced`: whether another takes its place
`ended`               it seemed to hang and was ended; `reason`, `replaced`
`joined`              it, or a replacement with its number, has joined (again); `host`
`suspected`           it seems to hang: it has been silent for `seconds`; `reason`
`cleared`             it does not hang: it answered after `seconds`; `reason`
`lied`                it lied and is put aside; `reason`
`failed`              it said that it cannot answer; `reason`
`refused`             messages cannot be used: `messages`, of `workers`; `reason`
`held`                messages contradict others, and are kept until more have come: `messages`, of `workers`; `reason`
===================== ================================================================================================

About the pool of workers:

===================== ================================================================================================
`resized`             the code is for `n_workers` from `generation` on: `scheme`; `moved` get other data (`bytes`)
`not_resized`         it should have been resized, but cannot; `reason`
`offered`             a `host` has room for `count` more workers; `taken`: whether they are started
===================== ================================================================================================

About the model:

===================== ================================================================================================
`rule_given_up`       the wait `rule` cannot be met without `workers`, and is not needed: the others' messages suffice
`tasks_lost`          no living worker holds `tasks`; training goes on without them
`tasks_neglected`     `tasks` are hardly ever counted
`not_connected`       over the last `steps` no path of links led from each peer to every other (without a coordinator)
`measured_between`    the target is measured between steps from now on, not in a separate process; `reason`
`verification_cost`   comparing messages took `seconds` per step, a `share` of it, for `comparisons` per step
===================== ================================================================================================

About the records:

===================== ================================================================================================
`older_checkpoint`    the run goes on from an older checkpoint than its newest; `reason`
`rewritten`           a damaged `file` of the run folder is written again, or written on; `reason`; for rows, how many
                      are `lost`
`unrecorded`          records or checkpoints could not be written; `reason`
`model_moved`         the model could not be saved in the run folder; it is in `folder`
`model_lost`          it could not be saved anywhere
===================== ================================================================================================
"""


class _Used(TypedDict, total=False):
    """The facts of notices that are used after they were read from a file."""

    workers: list[int]
    messages: list[int]


@dataclass(frozen=True)
class Notice:
    """An event of a run that a person should know of. Programs read `kind` and `data`; `text` may be reworded.

    Attributes:
        kind: one of `NoticeKind`.
        worker: the worker that it is about; None if it is about no worker, or about several.
        step: the step during which, or before which, it happened; None before and after training.
        data: further facts, as plain data; `NoticeKind` lists them by kind.
        text: the same for people: a sentence without a full stop.
        time: when it happened, in seconds since training began: negative while workers were started; None for
            callbacks that are called then, and for what is not part of training.
    """

    kind: NoticeKind
    worker: int | None = None
    step: int | None = None
    data: Annotated[Mapping[str, Any], _Used] = field(default_factory=dict[str, Any])
    text: str = ""
    time: float | None = None

    @property
    def workers(self) -> list[int]:
        """The workers that the notice is about."""
        return list(self.data.get("workers", ())) if self.worker is None else [self.worker]

    @property
    def reason(self) -> str:
        """Why, in words; empty if there is none."""
        return str(self.data.get("reason", ""))

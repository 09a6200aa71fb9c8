"""What a user may choose when reproducing a paper; everything else is as in the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from erasurehead.errors import check_count, invalid
from erasurehead.training.callbacks import Callback


@dataclass(frozen=True)
class ReproductionSettings:
    """ReproductionSettings of a reproduction.

    Arguments:
        engine: `"virtual"`, which simulates waiting on a virtual clock, or `"processes"` on this machine.
        steps: number of steps of each training run; the published runs have 100.
        path: the file of the public data, or the folder that holds it; None for the usual places (see `datasets.load`).
        synthetic: `"fallback"` for synthetic stand-ins where public data are not available, `"always"`, or `"never"`.
        rows: number of rows of the synthetic stand-ins, only with `"always"`; None for as many as the originals have.
        callbacks: hooks that watch every training run.
    """

    engine: Literal["virtual", "processes"] = "virtual"
    steps: int = 100
    path: str | None = None
    synthetic: Literal["never", "fallback", "always"] = "fallback"
    rows: int | None = None
    callbacks: Sequence[Callback] = ()

    def __post_init__(self) -> None:
        check_count("steps", self.steps)
        for argument, value, known in (
            ("engine", self.engine, ("virtual", "processes")),
            ("synthetic", self.synthetic, ("never", "fallback", "always")),
        ):
            if value not in known:
                raise invalid(argument, f"must be one of {', '.join(known)}", value)
        if self.rows is not None and self.synthetic != "always":
            raise invalid(
                "rows",
                "is for synthetic data only",
                self.rows,
                "take the synthetic stand-in (--synthetic always), or all rows",
            )

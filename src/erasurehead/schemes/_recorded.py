"""What a rule or an aggregation may learn from: the facts that every run records about a step and its messages."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class RecordedStep:
    """A step that is over: what `erasurehead.training.StepRow` tells of decoding; its attributes are listed there."""

    step: int
    round: int
    kind: str
    begin: float
    waited: float
    end: float
    arrived: int
    used: list[int]
    missing: list[int]
    dead: list[int]
    residual: float
    coverage: float
    stepped: bool
    loss: float | None
    gradient_norm: float | None
    received: int
    workers: int = 0
    lost: list[int] = field(default_factory=list[int])


@dataclass(frozen=True)
class RecordedArrival:
    """A message, or the fact that it had not arrived: `erasurehead.training.ArrivalRow` lists its attributes."""

    step: int
    round: int
    worker: int
    message: int
    unit: int
    work: float
    started: float | None
    seconds: float
    censored: bool = False
    late: bool = False
    used: bool = False
    rank: int | None = None
    taken: int | None = None
    place: int | None = None
    refused: bool = False

"""States of a run to go on from: those after the steps that are looked at, as each holds the whole run so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from erasurehead.training import Callback


class KeptStates(Callback):
    """Keeps the states after some steps, by step; to keep those after all would take longer than the run itself."""

    def __init__(self, *steps: int) -> None:
        self.steps, self.at = steps, dict[int, Mapping[str, Any]]()

    def on_state(self, step: int, state: Callable[[], Mapping[str, Any]]) -> None:
        if step in self.steps:
            self.at[step] = state()

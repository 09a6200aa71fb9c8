"""How often each task is counted, to find tasks that are left out again and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray, IntArray, Tree
from erasurehead.decoding._base import Decoding
from erasurehead.errors import numbered

WINDOW = 50
"""Number of past steps that are considered."""

LEAST = 0.2
"""A task is neglected if it is counted less than this fraction as often as the average task."""

_SOON = 10  # shorter runs say nothing: too few steps to tell neglect from chance


@dataclass(frozen=True)
class Neglected:
    """A task that was hardly ever counted.

    Attributes:
        task: number of the task.
        counted: how often it was counted in the last steps; with half its weight in a step, that counts half.
        mean: the same for the average task.
        steps: number of those steps, at most 50.
        ever: whether it was counted in any step at all.
    """

    task: int
    counted: float
    mean: float
    steps: int
    ever: bool


class Counting:
    """Counts tasks, step by step.

    Arguments:
        n_tasks: number of tasks.
    """

    def __init__(self, n_tasks: int) -> None:
        self._recent: Array = np.zeros((WINDOW, n_tasks))
        self._sum: Array = np.zeros(n_tasks)
        self._ever: BoolArray = np.zeros(n_tasks, dtype=bool)
        self._told: BoolArray = np.zeros(n_tasks, dtype=bool)
        self._steps = 0
        self._tell_at = WINDOW

    def add(
        self,
        decoding: Decoding,
        lost: Sequence[int] = (),
        late: Sequence[int] = (),
        counted: Sequence[int] | None = None,
    ) -> None:
        """Record a step.

        Arguments:
            decoding: the decoding, over the tasks that are not lost.
            lost: tasks that the decoding's code leaves out.
            late: rows of messages of earlier rounds that were also used; their tasks count like any.
            counted: the tasks that the estimate counts, where that is known otherwise; the others are not read then.
        """
        row = self._recent[self._steps % WINDOW]
        row[:] = 0.0
        if counted is not None:
            row[list(counted)] = 1.0
        else:
            row[np.delete(np.arange(len(row)), list(lost))] = _counted(decoding)
        for message in () if lost or counted is not None else late:
            row[decoding.code.tasks_of_message(message)] = 1.0
        np.logical_or(self._ever, row > 0.0, out=self._ever)
        self._steps += 1
        self._sum = self._recent.sum(axis=0)

    def found(self) -> list[int]:
        """Return the neglected tasks that were not found before, ascending; checked every 50 steps."""
        if self._steps < self._tell_at:
            return []
        new = self._neglected() & ~self._told
        if not new.any():
            return []
        self._told |= new
        self._tell_at = self._steps + WINDOW
        return np.flatnonzero(new).tolist()

    def neglected(self, tasks: Sequence[int] | None = None) -> tuple[Neglected, ...]:
        """Return the figures of the given tasks; by default of all that are neglected now."""
        if tasks is None:
            tasks = np.flatnonzero(self._neglected()).tolist() if self._steps >= _SOON else []
        mean, steps = float(self._sum.mean()), min(self._steps, WINDOW)
        return tuple(Neglected(task, float(self._sum[task]), mean, steps, bool(self._ever[task])) for task in tasks)

    def _neglected(self) -> BoolArray:
        if not self._ever.any():
            return np.zeros(len(self._sum), dtype=bool)
        return ~self._ever | (self._sum < LEAST * self._sum.mean())

    def state(self) -> Tree:
        """Return everything that `restore` needs."""
        return {
            "recent": self._recent.copy(),
            "ever": self._ever.astype(np.float64),
            "told": self._told.astype(np.float64),
            "steps": self._steps,
            "tell_at": self._tell_at,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self._recent = np.array(state["recent"], dtype=np.float64)
        self._sum = self._recent.sum(axis=0)
        self._ever, self._told = np.array(state["ever"]) > 0, np.array(state["told"]) > 0
        self._steps, self._tell_at = int(state["steps"]), int(state["tell_at"])


def _counted(decoding: Decoding) -> Array | float:
    """Return how far each task is counted, from 0 to 1; one number where it is the same for all."""
    if decoding.exact and len(decoding.messages):
        return 1.0
    code = decoding.code
    rows = code.encoding
    if not len(decoding.messages):
        return 0.0
    counted = np.zeros(code.n_tasks)
    weights = np.zeros(code.n_messages)
    for piece in range(code.n_pieces):
        weights[decoding.messages] = decoding.weights[piece]
        # The transposed product, without forming the transposed matrix at each step.
        entries = rows.data * np.repeat(weights, np.diff(rows.indptr))
        counted += np.bincount(rows.indices, entries, minlength=rows.shape[1])[piece :: code.n_pieces]
    return np.clip(counted / code.n_pieces, 0.0, 1.0)


def sentence(neglected: Sequence[Neglected], sizes: Sequence[int] | IntArray) -> str:
    """Return a sentence about neglected tasks.

    Arguments:
        neglected: at least one.
        sizes: number of samples of every task.

    >>> sentence([Neglected(2, 0.0, 20.0, 50, False)], [10, 10, 20])
    'task 2 (50.0% of the training rows) was never counted, and the mean task in 20 of the last 50 steps: the model \
learns nothing of it. Wait for more workers, or take a scheme that leaves nothing out, such as uncoded or exact.'
    """
    first = neglected[0]
    share = sum(sizes[one.task] for one in neglected) / sum(sizes)
    never = not any(one.ever for one in neglected)
    most = max(one.counted for one in neglected)
    how = "never counted" if never else f"counted in {'at most ' * (len(neglected) > 1)}{most:.3g}"
    last = f" of the last {first.steps} steps"
    many = len(neglected) > 1
    return (
        f"{numbered('task', [one.task for one in neglected])} ({share:.1%} of the training rows) "
        f"{'were' if many else 'was'} {how}{'' if never else last}, and the mean task in {first.mean:.3g}"
        f"{last if never else ''}: the model learns {'nothing' if never else 'next to nothing'} of "
        f"{'them' if many else 'it'}. Wait for more workers, or take a scheme that leaves nothing out, such as "
        "uncoded or exact."
    )

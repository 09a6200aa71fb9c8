"""How samples are split into tasks: one rule for problems, compiled codes and shards on disk."""

from __future__ import annotations

from itertools import pairwise

from erasurehead.errors import check_size, invalid


def split_samples(n_samples: int, n_tasks: int) -> list[slice]:
    """Cut samples 0..n_samples-1 into tasks of consecutive samples whose sizes differ by at most one.

    The boundaries of a split into a divisor of `n_tasks` are among those of a split into `n_tasks`.

    Arguments:
        n_samples: number of samples, at least 1.
        n_tasks: number of tasks, from 1 to `n_samples`.

    Raises:
        InvalidArgument: if there are more tasks than samples, so that a task would be empty.
    """
    check_size("n_tasks", n_tasks)
    if n_tasks > n_samples:
        raise invalid(
            "n_tasks",
            f"must be at most the number of training samples ({n_samples})",
            n_tasks,
            "with more, some tasks would be empty",
        )
    edges = [n_samples * task // n_tasks for task in range(n_tasks + 1)]
    return [slice(low, high) for low, high in pairwise(edges)]

"""What is minimised: linear models, functions in JAX, modules of PyTorch; with a penalty; cut into tasks and shards.

The room knows samples, losses and gradients, and nothing of codes, engines or delays. It offers the contracts for a
problem of your own, and the problems that are here. Workers of linear problems load neither JAX, nor PyTorch, nor the
decompiler. Losses for numbers, such as Poisson's and Huber's, are in one table in `_families.py`; least squares and
those for classes are in `_losses.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.problems._base import Problem as Problem, Shard as Shard
    from erasurehead.problems._jax_problem import jax as jax
    from erasurehead.problems._linear import (
        LeastSquares as LeastSquares,
        LogisticRegression as LogisticRegression,
        Regression as Regression,
        SoftmaxRegression as SoftmaxRegression,
    )
    from erasurehead.problems._penalties import ElasticNet as ElasticNet, Penalty as Penalty
    from erasurehead.problems._sharded import ShardedProblem as ShardedProblem
    from erasurehead.problems._torch_problem import torch as torch

__getattr__, __dir__ = lazy_names(__name__)

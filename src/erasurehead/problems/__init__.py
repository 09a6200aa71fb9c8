"""What is minimised: generalised linear models on sparse data, with l2; cut into tasks, and into shards for workers."""

from erasurehead.problems.base import Problem as Problem
from erasurehead.problems.base import Shard as Shard
from erasurehead.problems.base import split_samples as split_samples
from erasurehead.problems.jax_problem import JaxProblem as JaxProblem
from erasurehead.problems.jax_problem import jax as jax
from erasurehead.problems.linear import LeastSquares as LeastSquares
from erasurehead.problems.linear import LinearProblem as LinearProblem
from erasurehead.problems.linear import LogisticRegression as LogisticRegression
from erasurehead.problems.linear import SoftmaxRegression as SoftmaxRegression
from erasurehead.problems.models import LinearModel as LinearModel
from erasurehead.problems.torch_problem import TorchProblem as TorchProblem
from erasurehead.problems.torch_problem import torch as torch

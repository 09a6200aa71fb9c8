"""What is minimised: linear models, functions in JAX, modules of PyTorch; with a penalty; cut into tasks and shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names
from erasurehead.problems.base import Problem as Problem
from erasurehead.problems.base import Shard as Shard
from erasurehead.problems.base import split_samples as split_samples
from erasurehead.problems.linear import LeastSquares as LeastSquares
from erasurehead.problems.linear import LinearProblem as LinearProblem
from erasurehead.problems.linear import LogisticRegression as LogisticRegression
from erasurehead.problems.linear import SoftmaxRegression as SoftmaxRegression
from erasurehead.problems.models import LinearModel as LinearModel
from erasurehead.problems.models import ScoringModel as ScoringModel
from erasurehead.problems.network import NetworkModel as NetworkModel
from erasurehead.problems.network import TwoLayerNetwork as TwoLayerNetwork
from erasurehead.problems.penalties import L1 as L1
from erasurehead.problems.penalties import L2 as L2
from erasurehead.problems.penalties import ElasticNet as ElasticNet
from erasurehead.problems.penalties import Penalty as Penalty
from erasurehead.problems.sampled import Sampled as Sampled

if TYPE_CHECKING:
    from erasurehead.problems.convolutional import ConvolutionalModel as ConvolutionalModel
    from erasurehead.problems.convolutional import image_classes as image_classes
    from erasurehead.problems.convolutional import small_cnn as small_cnn
    from erasurehead.problems.jax_problem import JaxProblem as JaxProblem
    from erasurehead.problems.jax_problem import jax as jax
    from erasurehead.problems.torch_problem import TorchProblem as TorchProblem
    from erasurehead.problems.torch_problem import torch as torch

# Workers of linear problems import neither of these, nor the decompiler.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ConvolutionalModel": "convolutional",
        "JaxProblem": "jax_problem",
        "TorchProblem": "torch_problem",
        "image_classes": "convolutional",
        "jax": "jax_problem",
        "small_cnn": "convolutional",
        "torch": "torch_problem",
    },
)

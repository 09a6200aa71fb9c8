"""A small convolutional network for images, in PyTorch: a module for `problems.torch`, and its predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.errors import check_count, invalid
from erasurehead.problems._checks import check_test_pair
from erasurehead.problems._losses import SampleLoss, SoftmaxLoss
from erasurehead.problems._models import ScoringModel, checked_array
from erasurehead.problems._torch_model import TorchModel, torch_library
from erasurehead.problems._torch_problem import TorchProblem, torch

_CHANNELS, _KERNEL, _LEAST = (8, 16), 5, 16


def small_cnn(shape: Sequence[int], n_classes: int = 10, *, hidden: int = 64, seed: int = 0) -> Any:
    """Return a module: two convolutions (8 and 16 channels, 5 x 5), each followed by pooling, and two dense layers.

    Arguments:
        shape: shape of an image: planes, height and width, the last two at least 16.
        n_classes: number of classes, that is, of outputs.
        hidden: number of units in the layer before the last.
        seed: seed of the initial parameters.

    Raises:
        InvalidArgument: if an image is too small.
        MissingExtra: if PyTorch is not installed.
    """
    planes, height, width = (int(size) for size in shape)
    if min(height, width) < _LEAST:
        raise invalid("shape", f"must be of images of at least {_LEAST} x {_LEAST} pixels", tuple(shape))
    check_count("n_classes", n_classes, at_least=2)
    check_count("hidden", hidden)
    library = torch_library()
    nn, (first, second) = library.nn, _CHANNELS

    def left(size: int) -> int:
        for _ in _CHANNELS:
            size = (size - _KERNEL + 1) // 2
        return size

    with library.random.fork_rng(devices=[]):
        library.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(planes, first, _KERNEL),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(first, second, _KERNEL),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(second * left(height) * left(width), hidden),
            nn.ReLU(),
            nn.Linear(hidden, n_classes),
        )


def image_classes(
    images: Any,
    labels: Any,
    shape: Sequence[int],
    *,
    n_classes: int = 10,
    hidden: int = 64,
    l2: float = 0.0,
    test: tuple[Any, Any] | None = None,
    seed: int = 0,
) -> TorchProblem:
    """Return the problem of learning the classes of images with `small_cnn`, by cross entropy.

    Arguments:
        images: shape (n_samples, planes * height * width), with the pixels of a plane together, row by row.
        labels: classes, numbered from 0, shape (n_samples,).
        shape: shape of an image: planes, height and width, the last two at least 16.
        n_classes: number of classes.
        hidden: number of units in the layer before the last.
        l2: factor of the penalty `l2 * ||x||^2` on all parameters.
        test: images and labels to measure models on; None for none.
        seed: seed of the initial parameters.

    Raises:
        InvalidArgument: if something does not fit.
        MissingExtra: if PyTorch is not installed.
    """
    module, loss = small_cnn(shape, n_classes, hidden=hidden, seed=seed), torch_library().nn.CrossEntropyLoss()
    softmax = SoftmaxLoss(n_classes)

    def pair(samples: Any, classes: Any) -> tuple[Any, Any]:
        return np.asarray(samples, dtype=np.float32).reshape(-1, *shape), softmax.labels(np.asarray(classes), "labels")

    return torch(
        module,
        pair(images, labels),
        loss,
        l2=l2,
        test=None if test is None else pair(*check_test_pair(test)),
        metrics=_Scores(softmax),
    )


@dataclass(frozen=True)
class _Scores:
    """Quality of outputs, as for other classifiers; an object, so that it can be sent to workers."""

    loss: SoftmaxLoss

    def __call__(self, outputs: Any, targets: Any) -> dict[str, float]:
        return self.loss.scores(_margins(outputs), targets.numpy())


def _margins(outputs: Any) -> Array:
    return np.ascontiguousarray(outputs.double().numpy().T)


@final
@dataclass(frozen=True, eq=False)
class ConvolutionalModel(ScoringModel):
    """A trained `small_cnn`: its predictions for images.

    Arguments:
        sample_loss: the loss that it was trained for.
        x: the parameters, shape (n_parameters,).
        shape: shape of an image: planes, height, width.
        hidden: number of units in the layer before the last.
        constant: whether samples have an additional column of ones, which is ignored.

    Raises:
        InvalidArgument: if the parameters are not those of such a network.
        MissingExtra: if PyTorch is not installed.
    """

    sample_loss: SampleLoss
    x: Array
    shape: tuple[int, int, int]
    hidden: int
    constant: bool = False

    def __post_init__(self) -> None:
        if self.x.shape != (self._whole.n_parameters,):
            raise invalid("the shape of x", f"must be ({self._whole.n_parameters},)", self.x.shape)

    @property
    def n_features(self) -> int:
        return int(np.prod(self.shape)) + self.constant

    @property
    def _whole(self) -> TorchModel:
        module = small_cnn(self.shape, self.sample_loss.n_outputs, hidden=self.hidden)
        return TorchModel(module, torch_library().nn.CrossEntropyLoss(), False)

    def _margins(self, X: Any) -> Array:
        pixels = checked_array(X, self.n_features)[:, : int(np.prod(self.shape))]
        images = np.ascontiguousarray(pixels, dtype=np.float32).reshape(-1, *self.shape)
        whole = self._whole
        return _margins(whole.evaluated(self.x, whole.place(images)))

"""Modules of PyTorch as problems: against gradients by hand, with random numbers that replicas share."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np
import pytest

from erasurehead import problems, schemes, train
from erasurehead.delays import Exponential
from erasurehead.engines import VirtualEngine
from erasurehead.errors import InvalidArgument, MissingExtra
from erasurehead.optimizers import QuasiNewton

torch = pytest.importorskip("torch", reason="problems.torch needs PyTorch: pip install 'erasurehead[torch]'")
nn = torch.nn

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((41, 3)), RNG.standard_normal((41, 1))
MSE = nn.MSELoss()


def linear(dtype: Any = None) -> Any:
    torch.manual_seed(0)
    return nn.Linear(3, 1, dtype=dtype or torch.float64)


def by_hand(x: np.ndarray) -> tuple[float, np.ndarray]:
    weights, constant = x[:3], x[3]
    errors = X @ weights + constant - Y[:, 0]
    return float((errors**2).mean()), np.append(2 * errors @ X, 2 * errors.sum()) / 41


@pytest.mark.parametrize(("dtype", "precision"), [("float64", 1e-13), ("float32", 1e-5)])
def test_loss_and_gradient_are_those_by_hand_in_the_dtype_of_the_module(dtype: str, precision: float) -> None:
    made = problems.torch(linear(getattr(torch, dtype)), (X, Y), MSE)
    x = made.initial()
    loss, gradient = by_hand(x)
    assert made.loss(x) == pytest.approx(loss, rel=precision)
    np.testing.assert_allclose(made.gradient(x), gradient, rtol=10 * precision, atol=precision)
    out, tasks = np.empty(4), [slice(0, 13), slice(13, 41)]
    assert made.shard(tasks).combine(x, np.ones(2), 0, out) == pytest.approx(loss, rel=precision)
    np.testing.assert_allclose(out, gradient, rtol=10 * precision, atol=precision)


def test_parameters_that_want_no_gradient_stay_and_the_users_module_is_left_alone() -> None:
    module = linear()
    module.bias.requires_grad_(False)
    made = problems.torch(module, (X, Y), MSE)
    assert made.n_parameters == 3
    moved = made.module(np.ones(3))
    assert moved.weight.tolist() == [[1.0, 1.0, 1.0]]
    assert moved.bias.tolist() == module.bias.tolist()
    assert module.weight.tolist() != [[1.0, 1.0, 1.0]]


def test_dropout_is_the_same_for_every_replica_other_in_every_step_and_off_in_evaluation() -> None:
    module = nn.Sequential(nn.Dropout(0.5), linear())
    made = problems.torch(module, (X, Y), MSE, batch_size=5)
    x = made.initial()

    def send(tasks: list[slice], step: int) -> bytes:
        out = np.empty(4)
        copy = pickle.loads(pickle.dumps(made.shard(tasks)))
        copy.combine(x, np.append(np.zeros(len(tasks) - 1), 1.0), step, out)
        return out.tobytes()

    state = torch.random.get_rng_state()
    assert send([slice(10, 20)], 3) == send([slice(0, 10), slice(10, 20)], 3)
    assert send([slice(10, 20)], 3) != send([slice(10, 20)], 4)
    assert torch.equal(torch.random.get_rng_state(), state)  # the user's own numbers go on as they were
    assert made.loss(x) == pytest.approx(by_hand(x)[0], rel=1e-13)
    assert module.training


def test_only_mini_batches_and_random_numbers_make_a_problem_stochastic() -> None:
    assert not problems.torch(linear(), (X, Y), MSE).stochastic
    assert problems.torch(linear(), (X, Y), MSE, batch_size=5).stochastic
    dropping = nn.Sequential(nn.Dropout(0.01), linear())
    assert problems.torch(dropping, (X, Y), MSE).stochastic
    assert not problems.torch(dropping.eval(), (X, Y), MSE).stochastic


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_default_solver_takes_a_module_on_all_its_data_to_the_optimum(dtype: str) -> None:
    made = problems.torch(linear(getattr(torch, dtype)), (X, Y), MSE)
    run = train(made, schemes.adaptive(4), QuasiNewton(made.initial()), VirtualEngine(Exponential(0.5, seed=0)), 300)
    assert run.ended == "converged"
    least = np.linalg.lstsq(np.c_[X, np.ones(41)], Y[:, 0], rcond=None)[1][0] / 41
    assert made.objective(run.x) == pytest.approx(least, rel=1e-10 if dtype == "float64" else 1e-5)


def test_data_sets_with_a_length_are_read() -> None:
    pairs = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))

    class Own:
        def __len__(self) -> int:
            return 41

        def __getitem__(self, place: int) -> Any:
            return X[place], torch.from_numpy(Y[place])

    plain = problems.torch(linear(), (X, Y), MSE)
    x = plain.initial()
    for data in (pairs, Own()):
        assert problems.torch(linear(), data, MSE).gradient(x).tobytes() == plain.gradient(x).tobytes()


def test_classes_are_told_apart_and_measured() -> None:
    labels = (X[:, 0] > 0).astype(np.int64)
    made = problems.torch(
        nn.Linear(3, 2), (X, labels), nn.CrossEntropyLoss(), test=(X, labels),
        metrics=lambda outputs, targets: {"accuracy": (outputs.argmax(1) == targets).double().mean()},
    )  # fmt: skip
    assert 0.0 <= made.metrics(made.initial())["accuracy"] <= 1.0
    assert made.metrics(np.array([-1.0, 0, 0, 1, 0, 0, 0, 0]))["accuracy"] == 1.0


class Uneven:
    def __len__(self) -> int:
        return 2

    def __getitem__(self, place: int) -> Any:
        return np.zeros(place + 1), 0.0


BAD = [
    ("no module", {"module": 3}, "module must be a torch.nn.Module"),
    ("nothing to train", {"module": nn.Identity()}, "must have parameters that want a gradient"),
    ("two dtypes", {"module": nn.Sequential(linear(), nn.Linear(1, 1))}, "must be of one dtype"),
    ("a memory", {"module": nn.Sequential(linear(), nn.BatchNorm1d(1).double())}, "must not change its buffers"),
    ("no loss", {"loss": "mse"}, "loss must be a function of outputs and targets"),
    ("a sum", {"loss": nn.MSELoss(reduction="sum")}, "must be a mean over the samples"),
    ("a loss for each", {"loss": nn.MSELoss(reduction="none")}, "must return one number.*'a tensor of shape"),
    ("NaN", {"loss": lambda o, t: o.mean() * float("nan")}, "must be finite at the first parameters"),
    ("shapes that differ", {"data": (X[:, :2], Y)}, r"loss\(module\(inputs\), targets\) fails at the first"),
    ("lengths that differ", {"data": (X, Y[:4])}, r"samples in data\[1\] must be 41"),
    ("three parts", {"data": (X, Y, Y)}, "data must be two, inputs and targets"),
    ("no data set", {"data": 3}, "must be .inputs, targets., or a data set"),
    ("items of other shapes", {"data": Uneven()}, "data must have items of one shape"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "said"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_what_cannot_be_is_refused_in_a_sentence(options: dict[str, Any], said: str) -> None:
    given = {"module": linear(), "data": (X, Y), "loss": MSE, **options}
    with pytest.raises(InvalidArgument, match=said):
        problems.torch(**given)


def test_without_pytorch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    module = linear()
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"pip install 'erasurehead\[torch\]'"):
        problems.torch(module, (X, Y), MSE)

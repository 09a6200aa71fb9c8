"""Modules of PyTorch as problems: against gradients by hand, with random numbers that replicas share."""

from __future__ import annotations

import pickle
import random
import sys
from typing import Any

import numpy as np
import pytest

from erasurehead import problems, schemes, train
from erasurehead.delays import Exponential
from erasurehead.engines import VirtualEngine
from erasurehead.errors import InvalidArgument, MissingExtra
from erasurehead.optimizers import GradientDescent, QuasiNewton
from erasurehead.problems._torch_model import TorchModel

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
@pytest.mark.slow
def test_the_default_solver_takes_a_module_on_all_its_data_to_the_optimum(dtype: str) -> None:
    made = problems.torch(linear(getattr(torch, dtype)), (X, Y), MSE)
    run = train(made, schemes.adaptive(4), QuasiNewton(made.initial()), VirtualEngine(Exponential(0.5, seed=0)), 300)
    assert run.ended == "converged"
    least = np.linalg.lstsq(np.c_[X, np.ones(41)], Y[:, 0], rcond=None)[1][0] / 41
    assert made.objective(run.x) == pytest.approx(least, rel=1e-10 if dtype == "float64" else 1e-5)


def test_a_run_ends_without_gradients_that_nobody_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made = problems.torch(linear(), (X, Y), MSE, test=(X[:9], Y[:9]))
    whole: list[int] = []
    differentiate = TorchModel.differentiate
    monkeypatch.setattr(
        TorchModel, "differentiate", lambda self, x, *rest: (whole.append(1), differentiate(self, x, *rest))[1]
    )
    run = train(made, schemes.uncoded(2), GradientDescent(made.initial(), rate=0.1), VirtualEngine(), 12)
    assert len(whole) == 2 * 12
    assert run.final is not None
    assert run.final.objective == made.objective(run.x) < run.final.first_objective
    assert np.isnan(run.final.gradient_norm)
    measured = made.losses([run.x], [slice(0, 20)])
    assert measured[0].n_samples == 21
    assert measured[0].loss == pytest.approx(made.exact([run.x], [slice(0, 20)])[0].loss, rel=1e-12)


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
        nn.Linear(3, 2),
        (X, labels),
        nn.CrossEntropyLoss(),
        test=(X, labels),
        metrics=lambda outputs, targets: {"accuracy": (outputs.argmax(1) == targets).double().mean()},
    )
    assert 0.0 <= made.metrics(made.initial())["accuracy"] <= 1.0
    assert made.metrics(np.array([-1.0, 0, 0, 1, 0, 0, 0, 0]))["accuracy"] == 1.0


LABELS = (X[:, 0] > 0).astype(np.int64)
SORTED = np.argsort(LABELS, kind="stable")
MASKED = np.where(np.arange(41) < 11, -100, LABELS)
ONE_MASKED = np.where(np.arange(41) == 17, -100, LABELS)
UNEQUAL = torch.tensor([1.0, 5.0])


def weighted_sum(outputs: Any, targets: Any) -> Any:
    each = nn.functional.cross_entropy(outputs, targets, weight=UNEQUAL, ignore_index=-100, reduction="sum")
    return each, UNEQUAL[targets.clamp_min(0)][targets != -100].sum()


def two_classes(dtype: Any = None) -> Any:
    torch.manual_seed(0)
    return nn.Linear(3, 2, dtype=dtype)


def zeroed(module: Any) -> Any:
    for one in module.parameters():
        nn.init.zeros_(one)
    return module


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("start", [two_classes, lambda dtype: zeroed(two_classes(dtype))], ids=["drawn", "zero"])
@pytest.mark.parametrize(
    ("order", "labels", "loss"),
    [
        (np.arange(41), LABELS, nn.CrossEntropyLoss(weight=UNEQUAL)),
        (SORTED, LABELS, nn.CrossEntropyLoss(weight=UNEQUAL)),
        (np.arange(41), MASKED, nn.CrossEntropyLoss()),
        (np.arange(41), ONE_MASKED, nn.CrossEntropyLoss()),
    ],
    ids=["class weights", "class weights of sorted rows", "ignored labels of one task", "one ignored label"],
)
def test_losses_that_divide_by_other_than_the_number_of_samples_are_refused(
    dtype: Any, start: Any, order: Any, labels: Any, loss: Any
) -> None:
    with pytest.raises(InvalidArgument, match=r"loss must be .*return the weighted sum .*\(sum, weight\)"):
        problems.torch(start(dtype), (X[order], labels[order]), loss.to(dtype))


@pytest.mark.parametrize("labels", [LABELS, MASKED, ONE_MASKED], ids=["weights", "a masked task", "one masked"])
def test_sums_with_their_weights_are_minimised_as_pytorch_does(labels: Any) -> None:
    plain = nn.CrossEntropyLoss(weight=UNEQUAL, ignore_index=-100)
    made = problems.torch(two_classes(), (X, labels), weighted_sum, test=(X[:20], labels[:20]))
    module = made.module(made.initial()).float()
    found = plain(module(torch.tensor(X, dtype=torch.float32)), torch.tensor(labels))
    found.backward()
    gradient = np.concatenate([one.grad.double().reshape(-1).numpy() for one in module.parameters()])
    x, out = made.initial(), np.empty(8)
    assert made.loss(x) == pytest.approx(float(found.detach()), rel=1e-6)
    shard = pickle.loads(pickle.dumps(made.shard([slice(0, 12), slice(12, 13), slice(13, 41)])))
    assert shard.combine(x, np.ones(3), 0, out) == pytest.approx(made.loss(x), rel=1e-6)
    np.testing.assert_allclose(out, gradient, rtol=1e-5, atol=1e-7)
    tested = plain(module(torch.tensor(X[:20], dtype=torch.float32)), torch.tensor(labels[:20]))
    assert made.metrics(x)["loss"] == pytest.approx(float(tested.detach()), rel=1e-6)


def test_a_mini_batch_counts_by_its_weight_in_all_samples() -> None:
    made = problems.torch(two_classes(), (X, MASKED), weighted_sum, batch_size=15)
    x, out, mean = made.initial(), np.empty(8), np.zeros(8)
    shard = made.shard([slice(0, 20), slice(20, 41)])  # most labels of the first are ignored
    for step in range(100):
        shard.combine(x, np.ones(2), step, out)
        mean += out / 100
    np.testing.assert_allclose(mean, made.gradient(x), atol=0.03)


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (lambda o, t: (MSE(o, t), o.new_tensor(float(len(o)))), "what loss returns must be a mean .*take sums of both"),
        (lambda o, t: (o.sum(), o.abs().sum().detach()), "weight that loss returns must not depend on the parameters"),
        (lambda o, t: (o.sum(), 0.0), "weight that loss returns must be positive over all samples"),
        (lambda o, t: (o.sum(), -len(o)), "weight that loss returns must be a finite sum of weights of at least 0"),
        (lambda o, t: (o.sum(), o.sum(1)), "must return one number, or a sum and its weight, got 'a tensor"),
    ],
)
def test_pairs_that_are_no_sums_with_weights_are_refused(loss: Any, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        problems.torch(linear(), (X, Y), loss)


@pytest.mark.slow
def test_modules_in_bfloat16_train() -> None:
    made = problems.torch(linear(torch.bfloat16), (X, Y), MSE)
    run = train(made, schemes.exact(4, load=2), GradientDescent(made.initial(), rate=0.1), VirtualEngine(), steps=50)
    least = np.linalg.lstsq(np.c_[X, np.ones(41)], Y[:, 0], rcond=None)[1][0] / 41
    assert made.loss(run.x) == pytest.approx(least, rel=0.02)
    assert made.module(run.x).weight.dtype == torch.bfloat16


class Drawn:
    """A data set whose items have noise from a generator of some library."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw

    def __len__(self) -> int:
        return 41

    def __getitem__(self, place: int) -> Any:
        return X[place] + self.draw(), Y[place]


def rare_flip() -> float:
    return float(torch.rand(()) < 0.05)


@pytest.mark.parametrize("argument", ["data", "test"])
@pytest.mark.parametrize(
    "draw",
    [random.random, np.random.rand, np.random.default_rng(0).random, lambda: torch.rand(()).numpy(), rare_flip],
    ids=["random", "numpy", "a generator of its own", "torch", "a rare flip"],
)
def test_data_sets_with_random_items_are_refused(draw: Any, argument: str) -> None:
    torch.manual_seed(1)
    given = {"data": (X, Y), argument: Drawn(draw)}
    with pytest.raises(InvalidArgument, match=rf"item \d+ of {argument} must be the same .*random transforms"):
        problems.torch(linear(), given.pop("data"), MSE, **given)


def test_data_sets_that_draw_numbers_but_do_not_use_them_are_read() -> None:
    made = problems.torch(linear(), Drawn(lambda: 0.0 * random.random()), MSE)
    assert (
        made.gradient(made.initial()).tobytes()
        == problems.torch(linear(), (X, Y), MSE).gradient(made.initial()).tobytes()
    )


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
    ("a lazy layer", {"module": nn.LazyLinear(1)}, r"must have a shape.*call module\(inputs\) once"),
    ("no values", {"module": nn.Linear(3, 1, device="meta")}, "parameter weight of module must have values"),
    ("complex numbers", {"module": nn.Linear(3, 1, dtype=torch.complex64)}, "must be of real numbers .*torch.bfloat16"),
    ("no loss", {"loss": "mse"}, "loss must be a function of outputs and targets"),
    ("a sum", {"loss": nn.MSELoss(reduction="sum")}, "must be a mean over the samples"),
    ("a loss for each", {"loss": nn.MSELoss(reduction="none")}, "must return one number.*'a tensor of shape"),
    ("NaN", {"loss": lambda o, t: o.mean() * float("nan")}, "must be finite at the first parameters"),
    ("shapes that differ", {"data": (X[:, :2], Y)}, r"loss\(module\(inputs\), targets\) fails at the first"),
    ("lengths that differ", {"data": (X, Y[:4])}, r"samples in data\[1\] must be 41"),
    ("three parts", {"data": (X, Y, Y)}, "data must be two, inputs and targets"),
    ("no data set", {"data": 3}, "must be .inputs, targets., or a data set"),
    ("items of other shapes", {"data": Uneven()}, "data must have items of one shape"),
]


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

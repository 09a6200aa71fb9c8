"""Models on a GPU: what a team makes of them is what it makes of those on the host, and its ranks may share a card."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, AdamW, NAdam, Optimizer, RMSprop
from torch.utils.data import TensorDataset

import erasurehead.torch as eht
from erasurehead.torch import _generators
from erasurehead.torch._endpoints._mapped import File, Mapped
from erasurehead.torch._endpoints.local import LocalEndpoint
from erasurehead.torch._flat import finite
from erasurehead.torch._pinned import pinned
from erasurehead.torch._simulate import Join
from erasurehead.torch._torch_model import OptimizedModule

from ..bounded import PATIENCE
from .small import X, Y, batch, momentum, net, weights

GPU = "cuda"

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(GPU == "cuda" and not torch.cuda.is_available(), reason="PyTorch finds no GPU here"),
]

SLOW: dict[str, Any] = {"ranks": 3, "seconds_per_sample": [0.01, 0.01, 0.03]}
DATA = TensorDataset(X[:192], Y[:192])


def normed() -> nn.Module:
    return nn.Sequential(nn.BatchNorm1d(12), net())


def dropping(p: float = 0.3) -> nn.Module:
    return nn.Sequential(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(p), nn.Linear(16, 3))


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return make()


def trained(
    device: str,
    make: Callable[[], nn.Module] = normed,
    optimizer: Callable[[nn.Module], Optimizer] = momentum,
    steps: int = 14,
    each: Callable[[int, nn.Module], object] | None = None,
    **options: Any,
) -> list[torch.Tensor]:
    """Return what each rank of a team comes to, on the host: weights and buffers."""

    def main() -> torch.Tensor:
        team, model = eht.join(), make().to(device)
        stepping = team.optimizer(optimizer(model), model, **options)
        for step in range(steps):
            own = batch(team.rank, step)
            stepping.zero_grad()
            cross_entropy(model(X[own].to(device)), Y[own].to(device)).backward()
            stepping.step()
            if each is not None:
                each(step, model)
        assert {one.device.type for one in model.parameters()} == {device}
        every = [*model.parameters(), *(one for one in team.model().buffers() if one.is_floating_point())]
        return torch.cat([one.detach().reshape(-1).float().cpu() for one in every])

    found = eht.simulate(main, **SLOW).returned
    assert all(one is not None for one in found)
    return [one for one in found if one is not None]


def alike(some: list[torch.Tensor], others: list[torch.Tensor], atol: float = 1e-4) -> None:
    for one, other in zip(some, others, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=atol)


def nesterov(model: nn.Module) -> Optimizer:
    return SGD(model.parameters(), 0.05, 0.9, nesterov=True)


def adamw(model: nn.Module) -> Optimizer:
    return AdamW(model.parameters(), 0.01)


def of_groups(model: nn.Module) -> Optimizer:
    first, *rest = model.parameters()
    return NAdam([{"params": [first], "lr": 0.003}, {"params": rest}], 0.01, weight_decay=0.01)


def rmsprop(model: nn.Module) -> Optimizer:
    return RMSprop(model.parameters(), 0.003, weight_decay=0.01)


def fused(model: nn.Module) -> Optimizer:
    return AdamW(model.parameters(), 0.01, fused=True)


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (momentum, {}),
        (nesterov, {}),
        (adamw, {}),
        (of_groups, {}),
        (rmsprop, {}),
        (fused, {}),
        (adamw, {"way": "first-gradients"}),
        (fused, {"way": "first-gradients"}),
        (momentum, {"every": 4}),
        (adamw, {"every": 4, "bfloat16": True}),
    ],
)
def test_a_team_comes_to_the_same_on_a_gpu_as_on_the_host(optimizer: Any, options: dict[str, Any]) -> None:
    alike(trained(GPU, optimizer=optimizer, **options), trained("cpu", optimizer=optimizer, **options), 1e-3)


def test_vectors_in_memory_of_ranks_are_pinned_and_seen_as_they_are_written_next() -> None:
    if GPU != "cuda":
        pytest.skip("a GPU's memory")
    mine, theirs = (whole_of(normed()) for _ in range(2))
    team, size = f"pinned-{os.getpid()}", 4 * mine.length
    ends = [LocalEndpoint(team, rank, 2) for rank in range(2)]
    try:
        for end in ends:
            end.reserve(size)
        kept: list[np.ndarray[Any, Any]] = []
        for number in range(8):  # places are taken again, and memory grows
            sent = ends[0].room(mine.length, mine.dtype)
            with torch.no_grad():
                for one in mine.parameters:
                    one.fill_(number)
            mine.read(sent)
            assert lies_pinned(sent)
            ends[0].send(1, b"x", sent)
            expected = sent[: mine.n_parameters].copy()
            del sent
            while not kept or len(kept) <= number % 3:
                for end in ends:
                    for message in end.receive(copy=False):
                        assert message.vector is not None
                        kept.append(end.keep(message.vector))
                        del message
            theirs.write(kept[-1])
            assert lies_pinned(kept[-1])
            np.testing.assert_array_equal(weights(theirs._model).cpu().numpy(), expected)
            if number % 3 == 2:
                kept.clear()
    finally:
        for end in ends:
            end.close()


def whole_of(model: nn.Module) -> OptimizedModule:
    return OptimizedModule(momentum(model.to(GPU)), model)


def lies_pinned(vector: np.ndarray[Any, Any]) -> bool:
    memory = Mapped.of(vector)
    assert memory is not None
    found = pinned(vector, torch.device(GPU))
    assert Mapped.of(found) is memory.shared
    return torch.from_numpy(found).is_pinned()


def test_memory_that_cannot_be_pinned_crosses_and_leaves_no_error_behind() -> None:
    if GPU != "cuda":
        pytest.skip("a GPU's memory")
    file, device = File(os.memfd_create("twice")), torch.device(GPU)
    os.ftruncate(file.fd, 1 << 20)
    memory = Mapped(file.fd, 1 << 20)
    vector = np.frombuffer(memory, np.float32, 100)
    vector[:] = 3.0
    cuda: Any = torch.cuda.cudart()
    assert int(cuda.cudaHostRegister(memory.address, len(memory), 0)) == 0
    assert pinned(vector, device) is vector  # as it is already
    assert float(torch.from_numpy(vector).to(device).sum().sqrt() ** 2) == pytest.approx(300.0)
    assert int(cuda.cudaHostUnregister(memory.address)) == 0
    memory.pinned = None
    assert lies_pinned(vector)
    address = memory.address
    del memory, vector
    again = Mapped(file.fd, 1 << 20)
    assert lies_pinned(np.frombuffer(again, np.float32, 100)), address


def test_a_step_is_sent_as_the_host_would_subtract_it_to_the_bit() -> None:
    model = normed().to(GPU)
    whole = OptimizedModule(momentum(model), model)
    before = whole.read(whole.room())
    whole.write(before)
    for _ in range(3):
        with torch.no_grad():
            for one in model.parameters():
                one.mul_(1.01).add_(1e-3)
        now, out = whole.read(whole.room()), whole.room()
        assert whole.change(before, out)
        np.testing.assert_array_equal(out, now - before)
        whole.write(before := now.copy())
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    assert not whole.change(before, whole.room())
    assert not whole.finite()


@pytest.mark.parametrize("options", [{}, {"way": "first-gradients"}, {"every": 4}])
def test_a_model_that_moves_to_the_gpu_after_the_optimizer_was_made_trains_there(options: dict[str, Any]) -> None:
    def main() -> tuple[str, torch.Tensor]:
        team, model = eht.join(), normed()
        stepping = team.optimizer(momentum(model), model, **options)
        model.to(GPU)
        for step in range(8):
            own = batch(team.rank, step)
            stepping.zero_grad()
            cross_entropy(model(X[own].to(GPU)), Y[own].to(GPU)).backward()
            stepping.step()
        return next(team.model().parameters()).device.type, weights(model).cpu()

    found = eht.simulate(main, **SLOW).returned
    moved = [one[1] for one in found if one is not None]
    assert [one[0] for one in found if one is not None] == [GPU] * 3
    expected = trained(GPU, steps=8, **options)
    alike(moved, [whole[: len(one)] for one, whole in zip(moved, expected, strict=True)])


@pytest.mark.parametrize("options", [{}, {"way": "first-gradients"}, {"every": 4}])
def test_a_model_half_on_the_host_trains_as_one_on_the_gpu(options: dict[str, Any]) -> None:
    class Halves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.whole = normed()
            self.whole[1][0].to(GPU)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            norm, (first, relu, last) = self.whole[0], self.whole[1]
            return last(relu(first(norm(x.cpu()).to(GPU)).cpu()))

    def main() -> torch.Tensor:
        team, model = eht.join(), Halves()
        stepping = team.optimizer(momentum(model), model, **options)
        for step in range(8):
            own = batch(team.rank, step)
            stepping.zero_grad()
            cross_entropy(model(X[own]), Y[own]).backward()
            stepping.step()
        return torch.cat([one.detach().reshape(-1).cpu() for one in model.parameters()])

    found = [one for one in eht.simulate(main, **SLOW).returned if one is not None]
    expected = trained("cpu", steps=8, **options)
    alike(found, [whole[: len(one)] for one, whole in zip(found, expected, strict=True)])


@pytest.mark.parametrize("options", [{}, {"way": "first-gradients"}, {"every": 3}])
def test_steps_on_a_stream_of_their_own_are_seen_whole(options: dict[str, Any]) -> None:
    if GPU != "cuda":
        pytest.skip("streams are a GPU's")

    def main() -> torch.Tensor:
        team, model, own = eht.join(), normed().to(GPU), torch.cuda.Stream()
        heavy = torch.randn(1500, 1500, device=GPU)
        stepping = team.optimizer(momentum(model), model, **options)
        own.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(own):
            for step in range(14):
                samples = batch(team.rank, step)
                stepping.zero_grad()
                loss = cross_entropy(model(X[samples].to(GPU)), Y[samples].to(GPU))
                for _ in range(20):
                    heavy = (heavy @ heavy).clamp(-1.0, 1.0)  # so that the step is late on the GPU
                (loss + 0.0 * heavy[0, 0]).backward()
                stepping.step()
        own.synchronize()
        every = [*model.parameters(), *(one for one in team.model().buffers() if one.is_floating_point())]
        return torch.cat([one.detach().reshape(-1).float().cpu() for one in every])

    found = [one for one in eht.simulate(main, **SLOW).returned if one is not None]
    alike(found, trained("cpu", **options))


@pytest.mark.parametrize("options", [{}, {"way": "first-gradients"}, {"every": 4}])
def test_models_in_bfloat16_train(options: dict[str, Any]) -> None:
    def make() -> nn.Module:
        return net().bfloat16()

    def main() -> float:
        team, model = eht.join(), make().to(GPU)
        stepping = team.optimizer(momentum(model), model, **options)
        for step in range(25):
            own = batch(team.rank, step)
            stepping.zero_grad()
            cross_entropy(model(X[own].to(GPU).bfloat16()).float(), Y[own].to(GPU)).backward()
            stepping.step()
        assert {one.dtype for one in model.parameters()} == {torch.bfloat16}
        with torch.no_grad():
            return float(cross_entropy(model(X.to(GPU).bfloat16()).float(), Y.to(GPU)))

    assert max(one for one in eht.simulate(main, **SLOW).returned if one is not None) < 0.7


@pytest.mark.parametrize("options", [{}, {"way": "first-gradients"}])
def test_half_precision_with_a_scaler_leaves_overflows_out_and_trains(options: dict[str, Any]) -> None:
    def main() -> tuple[float, int]:
        team, model = eht.join(), net().to(GPU)
        stepping, scaler = team.optimizer(momentum(model), model, **options), torch.amp.GradScaler(GPU, 2.0**24)
        for step in range(30):
            own = batch(team.rank, step)
            stepping.zero_grad()
            with torch.autocast(GPU, torch.float16 if GPU == "cuda" else torch.bfloat16):
                loss = cross_entropy(model(X[own].to(GPU)), Y[own].to(GPU))
            scaler.scale(loss).backward()
            scaler.step(stepping)
            scaler.update()
        with torch.no_grad():
            return float(cross_entropy(model(X.to(GPU)), Y.to(GPU))), stepping.steps

    for loss, steps in (one for one in eht.simulate(main, **SLOW).returned if one is not None):
        assert loss < 0.7
        assert 10 <= steps <= 30
        assert steps < 30 or GPU != "cuda"


def coded(device: str, scheme: str, make: Callable[[], nn.Module], function: bool) -> list[torch.Tensor]:
    def main() -> torch.Tensor:
        team, model = eht.join(), make().to(device)
        stepping = team.optimizer(momentum(model), model, every="gradient", scheme=scheme)

        def losses(each: Any) -> torch.Tensor:
            inputs, labels = each
            return cross_entropy(model(inputs.to(device)), labels.to(device), reduction="none")

        for epoch in range(2):
            for each in team.batches(DATA, batch_size=48, epoch=epoch):
                stepping.zero_grad()
                team.backward(losses, each) if function else team.backward(losses(each))
                stepping.step()
        return weights(model).cpu()

    found = eht.simulate(main, ranks=4, seconds_per_sample=0.01, delays="exponential(mean=0.2, seed=1)").returned
    return [one for one in found if one is not None]


@pytest.mark.parametrize("scheme", ["exact(load=2)", 'exact(load=2, code="cyclic")'])
def test_a_code_s_gradient_is_that_of_the_host(scheme: str) -> None:
    found, expected = (coded(device, scheme, net, function=True) for device in (GPU, "cpu"))
    alike(found, expected)
    alike(coded(GPU, scheme, net, function=False), expected)


@pytest.mark.parametrize("make", [normed, lambda: seeded(dropping)])
def test_a_code_s_ranks_draw_and_average_alike_on_a_gpu(make: Callable[[], nn.Module]) -> None:
    found = coded(GPU, 'exact(load=2, code="cyclic")', make, function=True)
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=1e-4, atol=1e-5)


def test_a_team_of_one_goes_on_to_the_bit_with_what_a_gpu_draws(tmp_path: Path) -> None:
    file = tmp_path / "team.safetensors"

    def train(stop: int | None = None, resume: bool = False) -> torch.Tensor:
        torch.manual_seed(7)
        team, model = eht.join(), seeded(dropping).to(GPU)
        stepping = team.optimizer(adamw(model), model)
        first, step = team.load(file) if resume else 0, 0
        for epoch in range(first, 2):
            for x, y in team.batches(DATA, 16, epoch):
                stepping.zero_grad()
                noisy = x.to(GPU) + 0.1 * torch.randn(x.shape, device=GPU)
                cross_entropy(model(noisy), y.to(GPU)).backward()
                stepping.step()
                step += 1
                if step == stop:
                    team.save(file)
                    return weights(model).cpu()
        return weights(model).cpu()

    whole = train()
    train(stop=7)
    if GPU == "cuda":
        torch.cuda.manual_seed_all(99)
    torch.testing.assert_close(train(resume=True), whole, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("options", [{}, {"way": "first-gradients"}])
def test_a_team_goes_on_from_what_was_saved_on_whichever_device(options: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "team.safetensors"

    def main(device: str, load: bool) -> Callable[[], torch.Tensor]:
        def run() -> torch.Tensor:
            team, model = eht.join(), normed().to(device)
            stepping = team.optimizer(fused(model) if device == "cuda" else adamw(model), model, **options)
            first = team.load(file) if load else 0
            for x, y in team.batches(DATA, 16, first):
                stepping.zero_grad()
                cross_entropy(model(x.to(device)), y.to(device)).backward()
                stepping.step()
            if not load:
                team.save(file)
            return torch.cat([weights(team.model()).cpu(), model[0].running_mean.cpu()])  # type: ignore[index]

        return run

    eht.simulate(main(GPU, False), ranks=2, seconds_per_sample=0.01)
    for device in (GPU, "cpu"):
        found = eht.simulate(main(device, True), ranks=2, seconds_per_sample=0.01).returned
        assert all(one is not None and bool(torch.isfinite(one).all()) for one in found)


def test_a_rank_that_comes_later_takes_a_fused_optimizer_s_state() -> None:
    def main() -> int:
        team, model = eht.join(), net().to(GPU)
        stepping = team.optimizer(fused(model), model, way="first-gradients")
        for step in range(20):
            own = batch(team.rank, step)
            stepping.zero_grad()
            cross_entropy(model(X[own].to(GPU)), Y[own].to(GPU)).backward()
            stepping.step()
        return stepping.steps

    run = eht.simulate(main, ranks=3, seconds_per_sample=0.01, faults=[Join(1.0)])
    assert [one for one in run.returned if one is not None][-1] == 20


def test_gradients_on_several_devices_are_finite_or_not() -> None:
    both = [torch.ones(3), torch.ones(3, device=GPU)]
    assert finite(both)
    both[1][1] = float("inf")
    assert not finite(both)


def test_generators_are_compared_before_and_after_a_gpu_s_first_use() -> None:
    now = _generators.states()
    assert _generators.same(now, now)
    assert not _generators.same(now, {**now, "cuda": []}) or not now["cuda"]


SCRIPT = """
import json, os, signal, sys, time
import torch
from torch import nn
import erasurehead.torch as eht

what, device = sys.argv[1:]
torch.manual_seed(int(os.environ["RANK"]))
team, model = eht.join(), nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 2)).to(device)
options = {"busy": {}, "first": {"way": "first-gradients"}, "outer": {"every": 3}}[what]
optimizer = team.optimizer(torch.optim.SGD(model.parameters(), 0.05, 0.9), model, **options)
known = torch.randn(4096, 64, device=device)


def loss_of(x):
    return nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())


before = float(loss_of(known).detach())
stream = torch.cuda.Stream() if device == "cuda" else None
if stream is not None:
    stream.wait_stream(torch.cuda.current_stream())
step, begin = 0, time.monotonic()
with torch.cuda.stream(stream):
    while step < 80:
        step += 1
        if step == 20 and team.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if step == 30 and team.rank == 2 and device == "cuda":
            torch.empty(1 << 50, dtype=torch.uint8, device=device)
        x = torch.randn(256, 64, device=device)
        optimizer.zero_grad()
        loss_of(x).backward()
        optimizer.step()
    after = float(loss_of(known).detach())
print(json.dumps({"rank": team.rank, "before": before, "loss": after}), flush=True)  # how much, depends on who was late
"""


@pytest.mark.processes
@pytest.mark.parametrize("what", ["busy", "first", "outer"])
def test_ranks_that_share_a_card_survive_one_that_is_killed_and_one_that_is_out_of_memory(
    what: str, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "erasurehead.torch.run", "-n", "4", "--output", "plain", str(script), what, GPU]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    through = {0, 3} if GPU == "cuda" else {0, 2, 3}
    assert {one["rank"] for one in told} == through, done.stderr
    assert all(np.isfinite(one["loss"]) and one["loss"] != one["before"] for one in told), told
    assert ("out of memory" in done.stderr) == (GPU == "cuda")


LATE = """
import json, os, sys, time
import torch
import torch.distributed as dist
from torch import nn
import erasurehead.torch as eht

device = sys.argv[1]
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = nn.parallel.DistributedDataParallel(nn.Linear(64, 2).to(device))
times = eht.measure(model)
optimizer = torch.optim.SGD(model.parameters(), 0.05)
for step in range(40):
    x = torch.randn(32, 64, device=device)
    with times.forward():
        loss = model(x).square().mean()
    time.sleep(0.1 if rank == 2 and step > 10 else 0.02)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
weights = torch.cat([one.detach().reshape(-1).cpu() for one in model.parameters()])
print(json.dumps({"rank": rank, "late": [one.rank for one in times.late], "sum": float(weights.sum())}), flush=True)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.processes
def test_a_late_rank_of_ddp_is_named_by_the_gpu_s_clock(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(LATE)
    command = [sys.executable, "-m", "erasurehead.torch.run", "-n", "3", "--output", "plain", str(script), GPU]
    local = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=local)
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(told) == 3, done.stderr
    assert all(one["late"] == [2] for one in told), told
    assert len({one["sum"] for one in told}) == 1

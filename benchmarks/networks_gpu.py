"""What a team costs whose ranks share one GPU, and what it makes of one that is throttled; beside DDP and plain loops.

python benchmarks/networks_gpu.py
python benchmarks/networks_gpu.py --device cpu --width 64 --batch 64      tries out the code; its figures mean nothing

Where PyTorch finds no GPU, it is skipped.

Four ranks on one card, ten million float32 parameters, SGD with momentum, batches that are drawn there. Each process
has a plain loop, a team's and DDP's, for some seconds each, in turn, several times. A loop's pace is that of the steps
which ended while all its ranks were under way. The throttled rank computes each gradient four times, so that it has the
card for as long as the others, and brings a quarter of what they bring: what the team makes is held against the pace
that the three others had in the calm part just before.

`copies` are measured in parts of their own: for how long the script waits for what crosses between host and GPU, and
for what is computed of it, with a GPU that it has left idle before and after. Where ranks share the card, they wait for
its other ranks, too.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import erasurehead.torch as eht
from common import report, skip

RANKS, SLOW, THROTTLED = 4, 3, 4
WIDTH, LAYERS, BATCH = 1290, 6, 12288  # ten million parameters
WARM = 8  # steps of each loop that are not counted
LEAST = 5  # steps of each rank in each part
MOST = 170.0  # seconds that ranks may take
TARGET = "one of four throttled: samples a second over those of the three calm ones"
SHARE = "a step of four ranks: copies, share"
TARGETS = {TARGET: ">= 0.9", SHARE: "<= 0.15"}

Said = dict[int, dict[str, Any]]
"""By rank: when it began, and when its steps ended."""


def say(**what: object) -> None:
    os.write(1, (json.dumps(what) + "\n").encode())


def network(device: str, width: int) -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(LAYERS):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10)).to(device)


class Stopwatch:
    """Adds up how long calls take, and what they have the GPU do, while it is on."""

    def __init__(self, synchronize: Callable[[], None]) -> None:
        self.on, self.seconds, self._synchronize = False, 0.0, synchronize

    def around(self, owner: Any, name: str, begins: bool = True, ends: bool = True) -> None:
        """Time a method; `begins` and `ends` say whether the GPU is to be idle before and after."""
        call = getattr(owner, name)

        def timed(*arguments: Any) -> Any:
            if not self.on:
                return call(*arguments)
            if begins:
                self._synchronize()
            begin = time.perf_counter()
            try:
                return call(*arguments)
            finally:
                if ends:
                    self._synchronize()
                self.seconds += time.perf_counter() - begin

        setattr(owner, name, timed)


class Rank:
    """One rank's loops.

    Arguments:
        options: of the command line.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        torch.set_num_threads(1)
        self.options = options
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.parts = 0
        self.gather()

    def synchronize(self) -> None:
        if self.options.device == "cuda":
            torch.cuda.synchronize()

    def gather(self) -> None:
        """Wait until all ranks are here, whichever loop they have."""
        self.parts += 1
        folder = Path(self.options.folder)
        (folder / f"{self.parts} {self.rank}").touch()
        while len(list(folder.glob(f"{self.parts} *"))) < self.size:
            time.sleep(0.002)

    def loop(self, kind: str, backend: str = "gloo") -> tuple[nn.Module, Any]:
        model = network(self.options.device, self.options.width)
        optimizer: Any = torch.optim.SGD(model.parameters(), 1e-3, 0.9)
        if kind == "DDP":
            dist.init_process_group(backend)
            model = DistributedDataParallel(model)
        elif kind != "plain":
            self.team = eht.join()
            optimizer = self.team.optimizer(optimizer, model, way=kind)
        return model, optimizer

    def watched(self) -> tuple[Stopwatch, Stopwatch]:
        """Return what measures copies of the team, to the host and back."""
        whole: Any = self.team._whole  # pyright: ignore[reportPrivateUsage]
        momentum = getattr(self.team._meeting, "_momentum", None)  # pyright: ignore[reportPrivateUsage]
        out, into = Stopwatch(self.synchronize), Stopwatch(self.synchronize)
        out.around(whole, "change")
        out.around(whole, "gradients")
        into.around(whole, "set_gradients")
        into.around(whole, "write", begins=momentum is None)
        if momentum is not None:
            into.around(momentum, "write", ends=False)  # just before the model's
        return out, into

    def part(
        self, name: str, loop: tuple[nn.Module, Any], steps: int = 0, seconds: float = 0.0, backwards: int = 1
    ) -> None:
        """Make so many steps, or those that fit in a time, beside the other ranks; and say when each ended."""
        self.synchronize()
        self.gather()
        begin, ends = time.monotonic(), list[float]()
        while len(ends) < (steps or (LEAST if seconds else 0)) or time.monotonic() < begin + seconds:
            self.step(loop, backwards)
            ends.append(time.monotonic())
        if name and ends:
            say(rank=self.rank, part=name, begin=begin, ends=ends)
        self.gather()

    def step(self, loop: tuple[nn.Module, Any], backwards: int = 1) -> None:
        """Make a step, whose gradients are computed so many times."""
        model, optimizer = loop
        options = self.options
        inputs = torch.randn(options.batch, options.width, device=options.device)
        labels = torch.randint(0, 10, (options.batch,), device=options.device)
        for again in reversed(range(backwards)):
            optimizer.zero_grad()
            with model.no_sync() if again and isinstance(model, DistributedDataParallel) else nullcontext():
                nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        self.synchronize()

    def copies(self, team: tuple[nn.Module, Any], watches: tuple[Stopwatch, Stopwatch]) -> None:
        """Make steps of the team, and say for how long a step waits for copies."""
        for watch in watches:
            watch.on, watch.seconds = True, 0.0
        self.part("with copies alone", team, self.options.steps)
        for watch, name in zip(watches, ("out", "in"), strict=True):
            watch.on = False
            say(rank=self.rank, part=f"copies {name}", seconds=watch.seconds / self.options.steps)

    def of_a_team(self, way: str) -> None:
        """A team alone, whose ranks never stop between parts: some ways of meeting have one wait for the others."""
        team = self.loop(way)
        watches, seconds = self.watched(), self.options.seconds
        self.gather()
        end = time.monotonic() + seconds  # to warm up
        while time.monotonic() < end:
            self.step(team)
        for _ in range(self.options.repeats):
            for name in ("calm", "with copies alone"):
                for watch in watches:
                    watch.on, watch.seconds = name != "calm", 0.0
                begin, ends = time.monotonic(), list[float]()
                end += seconds
                while not ends or ends[-1] < end:
                    self.step(team)
                    ends.append(time.monotonic())
                say(rank=self.rank, part=name, begin=begin, ends=ends)
            for watch, name in zip(watches, ("out", "in"), strict=True):
                say(rank=self.rank, part=f"copies {name}", seconds=watch.seconds / len(ends))
        self.team.close()

    def of_all(self) -> None:
        """All loops, in turn."""
        seconds, steps, slow = self.options.seconds, self.options.steps, THROTTLED if self.rank == SLOW else 1
        plain, team, ddp = (self.loop(kind) for kind in ("plain", "busy", "DDP"))
        for loop in (plain, team, ddp):
            self.part("", loop, WARM)
        watches = self.watched()
        for _ in range(self.options.repeats):
            self.part("one plain process", plain, seconds=seconds * (self.rank == 0))
            self.part("four plain processes", plain, seconds=seconds)
            self.part("a team, calm", team, seconds=seconds)
            self.part("a team, one throttled", team, seconds=seconds, backwards=slow)
            self.copies(team, watches)
            self.part("DDP with gloo, calm", ddp, steps)
            self.part("DDP with gloo, one throttled", ddp, steps, backwards=slow)
        self.team.close()
        dist.barrier()
        dist.destroy_process_group()

    def of_nccl(self) -> None:
        """DDP with nccl, which takes no second rank on a GPU so far."""
        self.part("DDP with nccl, calm", self.loop("DDP", "nccl"), self.options.steps)


def launched(n: int, what: str, options: argparse.Namespace, most: float = MOST) -> list[tuple[str, Said]]:
    """Run so many ranks, and return what they have said of each part, in turn.

    Raises:
        RuntimeError: if not all have come to the end, with what one of them said at last.
    """
    given = {name: getattr(options, name) for name in ("device", "repeats", "seconds", "steps", "width", "batch")}
    with tempfile.TemporaryDirectory() as folder:
        words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        command = [sys.executable, "-m", "erasurehead.torch.run", "-n", str(n), "--output", "plain", __file__, *words]
        command += ["--rank", what, "--folder", folder]
        done = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)
        try:
            told, errors = done.communicate(timeout=most)
        except subprocess.TimeoutExpired:
            done.terminate()
            done.communicate()
            raise RuntimeError(f"did not come to the end within {most:.0f} s") from None
    parts: list[tuple[str, Said]] = []
    for line in told.decode().splitlines():
        if line.startswith("{"):
            one = json.loads(line)
            name, rank = one["part"], int(one["rank"])
            if (place := next((said for part, said in parts if part == name and rank not in said), None)) is None:
                parts.append((name, place := {}))
            place[rank] = one
    if done.returncode:
        lines = [line for line in errors.decode(errors="replace").splitlines() if line.strip()]
        said = [line for line in lines if "rror" in line] or lines or ["nothing"]
        raise RuntimeError(f"ended with code {done.returncode}: {said[0].strip()[:300]}")
    return parts


def pace(said: Said, but: int | None = None) -> float:
    """Return the steps a second of all ranks, or all but one, while all were under way."""
    begin, end = max(one["begin"] for one in said.values()), min(one["ends"][-1] for one in said.values())
    total = 0.0
    for rank, one in said.items():
        own = [one["begin"], *one["ends"]]
        within = [each for each in own if begin <= each <= end]
        if rank != but and len(within) > 1:
            total += (len(within) - 1) / (within[-1] - within[0])
    return total


def copied(device: str, length: int) -> dict[str, float]:
    """Return milliseconds of one copy of all parameters between host and GPU."""
    found: dict[str, float] = {}
    there = torch.ones(length, device=device)
    for kind in ("pinned", "pageable"):
        here = torch.ones(length, pin_memory=kind == "pinned" and device == "cuda")
        for way, source, target in (("out", there, here), ("in", here, there)):
            each: list[float] = []
            for _ in range(15):
                begin = time.perf_counter()
                target.copy_(source)
                if device == "cuda":
                    torch.cuda.synchronize()
                each.append(1e3 * (time.perf_counter() - begin))
            found[f"one copy {way}, {kind}, ms"] = statistics.median(each)
    return found


def main(options: argparse.Namespace) -> None:
    rows: dict[str, list[float]] = {}

    def add(name: str, value: float) -> None:
        rows.setdefault(name, []).append(value)

    def team(whose: str, ranks: int, parts: list[tuple[str, Said]], calm: str) -> None:
        """Add what copies take of a team's step."""
        steps = [1e3 * ranks / pace(said) for name, said in parts if name == calm]
        out, into = (
            [1e3 * statistics.mean(one["seconds"] for one in said.values()) for name, said in parts if name == each]
            for each in ("copies out", "copies in")
        )
        for step, there, back in zip(steps, out, into, strict=True):
            add(f"{whose}: ms", step)
            add(f"{whose}: copies out, ms", there)
            add(f"{whose}: copies in, ms", back)
            add(f"{whose}: copies, share", (there + back) / step)

    parts = launched(RANKS, "all", options)
    calm = plain = throttled = 0.0
    for name, said in parts:
        if name.startswith("copies"):
            continue
        add(f"{name}: steps a second", pace(said))
        if name == "four plain processes":
            plain = pace(said)
        if name == "a team, calm":
            calm = pace(said, but=SLOW)
            add("a step of a team over one of plain processes beside each other", plain / pace(said))
        if name == "a team, one throttled":
            add("a team, one throttled: steps a second of the others", pace(said, but=SLOW))
            add(TARGET, pace(said) / calm)
            throttled = pace(said)
        if name == "DDP with gloo, one throttled":
            add("DDP with gloo, one throttled: samples a second over those of the team", pace(said) / throttled)
    team("a step of four ranks", RANKS, parts, "a team, calm")
    team("a step of two ranks", 2, launched(2, "busy", options), "calm")
    team("a step of four ranks, first gradients", RANKS, launched(RANKS, "first-gradients", options), "calm")
    figures: dict[str, Any] = {
        "card": torch.cuda.get_device_name() if options.device == "cuda" else platform.machine(),
        "PyTorch": torch.__version__,
        "parameters": sum(each.numel() for each in network("cpu", options.width).parameters()),
        "samples of a batch": options.batch,
    }
    for name, values in rows.items():
        figures |= {name: statistics.median(values), f"{name}, from": min(values), f"{name}, to": max(values)}
    if options.device == "cuda":
        try:
            ((_, said),) = launched(RANKS, "nccl", options, most=45.0)
            figures["DDP with nccl, calm: steps a second"] = pace(said)
        except (RuntimeError, ValueError) as error:
            figures["DDP with nccl: refused"] = str(error)
    figures |= copied(options.device, figures["parameters"])
    report(Path(__file__).stem, figures, TARGETS)


ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="for which each loop is counted")
    parser.add_argument("--steps", type=int, default=12, help="of loops that make so many, such as DDP's")
    parser.add_argument("--width", type=int, default=WIDTH)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.device == "cuda" and not torch.cuda.is_available():
        skip(Path(__file__).stem, "no GPU")
    elif not given.rank:
        main(given)
    elif given.rank == "all":
        Rank(given).of_all()
    elif given.rank == "nccl":
        Rank(given).of_nccl()
    else:
        Rank(given).of_a_team(given.rank)

"""Who is late in a loop of PyTorch's `DistributedDataParallel`: one hook that stamps when a rank's gradients are there.

All-reduce makes all ranks look alike: each step takes all of them as long as the slowest. What tells them apart is the
time from the end of one all-reduce to the moment at which a rank's last gradients of the next step are there: what it
needed by itself. The ranks exchange these few numbers beside the all-reduce of the gradients, in a group of their own,
and those of several steps at a time: what costs is that something is said, not how much.
"""

# Annotations are no texts here: PyTorch compares those of a hook with its own classes.

import logging
import socket
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar, cast

import numpy as np

from erasurehead.errors import InvalidArgument, MissingExtra, invalid
from erasurehead.torch._late_ranks import STAGES, LateRank, LateRanks

try:
    import torch
    import torch.distributed
    from torch.distributed import GradBucket  # pyright: ignore[reportPrivateImportUsage]  # documented as its home
    from torch.nn.parallel import DistributedDataParallel
except ImportError:
    raise MissingExtra("Measuring a loop of PyTorch needs it: pip install 'erasurehead[torch]'.") from None

dist: Any = torch.distributed  # of which most is without types
logger = logging.getLogger("erasurehead")

Batch = TypeVar("Batch")
Hook = Callable[[Any, GradBucket], torch.futures.Future[torch.Tensor]]

BETWEEN = 0.03
"""Seconds of training for each message of a rank in an exchange of times: it sends as many as there are ranks."""

_PATIENCE = timedelta(minutes=30)  # as PyTorch has it for collectives with gloo: a rank may compile for minutes


class StepTimes:
    """The times of all ranks, step by step, and who is late.

    Made by `measure`; made by hand for frameworks that register hooks themselves, and then given as the hook's state:
    `DDPStrategy(ddp_comm_state=StepTimes(), ddp_comm_hook=stamped_allreduce)` in Lightning.

    Arguments:
        inner: the hook that reduces the gradients; by default PyTorch's all-reduce.
        inner_state: its state; by default the process group.
        tell: called, on the first rank, with each rank that is newly found to be late; by default it is logged as a
            warning.
        group: the process group over which the model averages, whose ranks are numbered from 0; by default that of all.

    Attributes:
        steps: number of steps whose times have been exchanged, some at a time.
    """

    def __init__(
        self,
        inner: Hook | None = None,
        inner_state: Any = None,
        tell: Callable[[LateRank], None] | None = None,
        group: Any = None,
    ) -> None:
        self.steps = 0
        self._inner, self._inner_state = inner or _allreduce, group if inner_state is None else inner_state
        self._averaged_over = group
        self._tell = tell or _log
        self._ranks: LateRanks | None = None
        self._group: Any = None
        self._rank = 0
        self._named: frozenset[int] = frozenset()
        self._marked = {"data": 0.0, "forward": 0.0}
        self._clock: _Clock | None = None
        self._kept: list[list[float]] = []  # this rank's times of the steps since the newest exchange
        self._due = 1  # how many of them make the next one
        self._under_way: tuple[Any, list[torch.Tensor]] | None = None

    @property
    def late(self) -> tuple[LateRank, ...]:
        """The ranks that are late for good now, the slowest first; every rank knows the same after a step.

        "Now" is the newest step of which the ranks have told each other their times.
        """
        self._judge()
        return () if self._ranks is None else self._ranks.late

    def __str__(self) -> str:
        return "No step has been measured yet." if self._ranks is None else self._ranks.table()

    def loading(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the batches of a loader, and stamp how long each was waited for: the stage `"data"`."""
        source = iter(batches)
        while True:
            with self._stage("data"):
                try:
                    batch = next(source)
                except StopIteration:
                    return
            yield batch

    def forward(self) -> Any:
        """Return a context in which the model and the loss are computed: the stage `"forward"`."""
        return self._stage("forward")

    @contextmanager
    def _stage(self, name: str) -> Generator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._marked[name] += time.perf_counter() - begin

    def reduce(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Reduce a bucket of gradients by the inner hook, and stamp the last one of a step."""
        if self._clock is None:
            self._meet(bucket.buffer().device)
        clock = self._clock
        assert clock is not None
        if not bucket.is_last():
            return self._inner(self._inner_state, bucket)
        clock.ready()
        reduced = self._inner(self._inner_state, bucket)
        self._exchange(clock.seconds())
        return reduced.then(clock.done)

    def _meet(self, device: torch.device) -> None:
        """Learn who is there, at the first gradients: all ranks are at the same place."""
        self._rank = dist.get_rank(self._averaged_over)
        ranks = dist.get_process_group_ranks(self._averaged_over)
        hosts: list[Any] = [None] * len(ranks)
        # Ranks of other groups do not come here, and may not be waited for.
        self._group = dist.new_group(ranks, timeout=_PATIENCE, backend="gloo", use_local_synchronization=True)
        dist.all_gather_object(hosts, socket.gethostname(), group=self._group)
        if len(hosts) > 1:
            self._ranks = LateRanks(hosts)
        self._clock = _Clock() if device.type != "cuda" else _DeviceClock(device)

    def _exchange(self, seconds: float | None) -> None:
        """Keep this rank's times of the newest step that they are known of, and send those kept when it is time to."""
        marked, self._marked = self._marked, dict.fromkeys(self._marked, 0.0)
        if self._ranks is None:
            return
        self._judge()
        own = len(STAGES) * [-1.0]  # not known yet: some rank has no step behind it
        if seconds is not None:
            before = [min(marked["data"], seconds), min(marked["forward"], seconds)]
            own = [*before, max(seconds - sum(before), 0.0)]
        self._kept.append(own)
        if len(self._kept) < self._due:
            return
        kept, self._kept = torch.tensor(self._kept, dtype=torch.float64), []
        times = [torch.empty_like(kept) for _ in self._ranks.hosts]
        self._under_way = (dist.all_gather(times, kept, group=self._group, async_op=True), times)

    def _judge(self) -> None:
        if self._under_way is None or self._ranks is None:
            return
        work, times = self._under_way
        self._under_way = None
        work.wait()  # it was sent with the gradients of a step that has been taken
        for seconds in np.stack([one.numpy() for one in times], axis=1):
            if (seconds < 0.0).any():
                continue
            self._ranks.observe(seconds)
            self.steps += 1
            late = self._ranks.late
            if self._rank == 0:
                for one in late:
                    if one.rank not in self._named:
                        self._tell(one)
            self._named = frozenset(one.rank for one in late)
        self._due = self._ranks.due(BETWEEN * len(self._ranks.hosts))


class _Clock:
    """Stamps one rank's steps on this machine's clock."""

    def __init__(self) -> None:
        self._begin: float | None = None  # of the step: the end of the all-reduce before
        self._ready = 0.0

    def ready(self) -> None:
        """Stamp the moment at which all of this rank's gradients are there."""
        self._ready = time.perf_counter()

    def seconds(self) -> float | None:
        """Return how long this rank took for its own part of the newest step that this is known of, if of any."""
        return None if self._begin is None else self._ready - self._begin

    def done(self, future: torch.futures.Future[torch.Tensor]) -> torch.Tensor:
        """Stamp the moment at which the gradients of all ranks are reduced, and pass them on."""
        self._begin = time.perf_counter()
        return _value(future)


class _DeviceClock(_Clock):
    """Stamps on a GPU's clock, as calls return there long before they are done; the times are known a step later."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device
        self._spans: list[tuple[Any, Any]] = []
        self._from: Any = None

    def ready(self) -> None:
        if self._from is not None:
            self._spans.append((self._from, self._stamp()))

    def seconds(self) -> float | None:
        if len(self._spans) < 2:
            return None
        begin, end = self._spans.pop(0)
        end.synchronize()  # of the step before: this waits for nothing
        return 1e-3 * begin.elapsed_time(end)

    def done(self, future: torch.futures.Future[torch.Tensor]) -> torch.Tensor:
        self._from = self._stamp()
        return _value(future)

    def _stamp(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event


def stamped_allreduce(state: StepTimes, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Return reduced gradients, and stamp when they were there: the hook that belongs to `StepTimes`, for frameworks.

    Arguments:
        state: what measures.
        bucket: the gradients.
    """
    return state.reduce(bucket)


def measure(
    model: DistributedDataParallel,
    inner: Hook | None = None,
    inner_state: Any = None,
    tell: Callable[[LateRank], None] | None = None,
) -> StepTimes:
    """Measure which ranks are late in a loop that uses `DistributedDataParallel`; nothing that it computes changes.

    To be called by all ranks, before the first step. A rank is named after three steps in each of which it took longer
    than the others; where three steps take less than 30 ms for each rank that there is, within that time. The stages
    `"data"` and `"forward"` are told apart from `"backward"` where the loop marks them::

        times = measure(model)
        for x, y in times.loading(loader):
            with times.forward():
                loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()

    What is measured is the time from one all-reduce of gradients to the next. Where ranks meet in between, as with
    `SyncBatchNorm` or an all-reduce of the loss, the time in which they wait for each other there is in it.

    Arguments:
        model: a module wrapped in `DistributedDataParallel`, without a communication hook so far.
        inner: a communication hook that reduces the gradients, such as PyTorch's `fp16_compress_hook`; by default
            all-reduce.
        inner_state: its state.
        tell: called, on rank 0, with each rank that is newly found to be late; by default it is logged as a warning.

    Returns:
        The times, and who is late.

    Raises:
        InvalidArgument: if `model` is not wrapped, or has a hook already.
    """
    if not isinstance(cast("object", model), DistributedDataParallel):
        raise invalid("model", "must be a torch.nn.parallel.DistributedDataParallel", type(model).__name__)
    times = StepTimes(inner, inner_state, tell, cast("Any", model).process_group)
    try:
        cast("Any", model).register_comm_hook(times, stamped_allreduce)
    except RuntimeError as error:
        raise InvalidArgument(
            "model",
            "must have no communication hook yet",
            sentence=f"PyTorch takes no communication hook for this model ({error}). If it has one already, give that "
            "to `measure` as `inner`, with its state as `inner_state`, in place of registering it.",
        ) from error
    return times


def _allreduce(state: Any, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average a bucket over the ranks, as PyTorch does without a hook."""
    buffer = bucket.buffer().div_(dist.get_world_size(state))
    return dist.all_reduce(buffer, group=state, async_op=True).get_future().then(_first)


def _first(future: torch.futures.Future[Any]) -> torch.Tensor:
    return future.value()[0]


def _value(future: torch.futures.Future[torch.Tensor]) -> torch.Tensor:
    return future.value()


def _log(late: LateRank) -> None:
    logger.warning("%s", late)

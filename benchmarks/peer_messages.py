"""What a message from one worker to another costs: between processes, and between two actors of Ray.

    python benchmarks/peer_messages.py

Two that answer each other at once: microseconds from a message to its answer, halved, and of the processor at each end.
The actors run in threads, so that a message is taken while another call waits; peers are not run on them.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from common import report
from erasurehead.engines._processes.peer_channels import SharedChannels

MESSAGES = 300
LENGTHS = (0, 100, 100_000)
HEAD = b"x" * 60


def turns(first: bool, send: Callable[[], None], take: Callable[[], None]) -> tuple[float, float]:
    """Exchange messages; return the seconds of one, by the clock and of this process."""
    begin, busy = time.perf_counter(), time.process_time()
    for _ in range(MESSAGES):
        if first:
            send()
        take()
        if not first:
            send()
    return (time.perf_counter() - begin) / MESSAGES / 2, (time.process_time() - busy) / MESSAGES / 2


def process(channels: SharedChannels, worker: int, length: int, out: Any) -> None:
    """Be one of two processes."""
    endpoint, vector = channels.endpoint(worker), np.zeros(length) if length else None

    def take() -> None:
        while not list(endpoint.receive()):
            endpoint.wait(time.monotonic() + 5.0)

    out.put(turns(worker == 0, lambda: endpoint.send(1 - worker, HEAD, vector), take))


def between_processes(length: int) -> tuple[float, float]:
    """Return what a message costs between processes."""
    context = multiprocessing.get_context("fork")
    channels, out = SharedChannels(2, max(1, length)), context.Queue()
    both = [context.Process(target=process, args=(channels, worker, length, out)) for worker in range(2)]
    for one in both:
        one.start()
    found = [out.get(timeout=60.0) for _ in both]
    for one in both:
        one.join()
    channels.close()
    return max(found)


class Actor:
    """One of two actors of Ray."""

    def __init__(self) -> None:
        self.come = threading.Semaphore(0)

    def message(self, head: bytes, vector: Any) -> None:
        """Take a message."""
        self.come.release()

    def run(self, other: Any, first: bool, length: int) -> tuple[float, float]:
        """Write to another, and wait for its answers."""
        vector = np.zeros(length) if length else None

        def take() -> None:
            self.come.acquire(timeout=20.0)

        return turns(first, lambda: other.message.remote(HEAD, vector), take)


def between_actors() -> dict[int, tuple[float, float]]:
    """Return what messages of each length cost between actors."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    kind: Any = ray.remote(num_cpus=0, max_concurrency=2)(Actor)
    one, other = kind.remote(), kind.remote()
    found: dict[int, tuple[float, float]] = {}
    for length in (0, *LENGTHS):  # the first finds nothing warm
        runs = [other.run.remote(one, False, length), one.run.remote(other, True, length)]
        found[length] = max(ray.get(runs, timeout=60.0))
    ray.shutdown()
    return found


def main() -> None:
    """Measure, and print."""
    ratios: dict[str, float] = {}
    actors = between_actors()
    for length in LENGTHS:
        here, there = between_processes(length), actors[length]
        for name, (seconds, busy) in (("processes", here), ("actors of Ray", there)):
            print(f"{name}, {length} numbers: {1e6 * seconds:.0f} us a message, {1e6 * busy:.0f} us of each processor")
        ratios[f"message of {length} numbers, Ray over processes"] = there[0] / here[0]
    report("peer_messages", ratios, {})


if __name__ == "__main__":
    main()

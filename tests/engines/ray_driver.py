"""A coordinator on another host: it takes calls from its standard input and prints what they return.

Run as `python ray_driver.py ADDRESS`. A call is a line of JSON, `[method, arguments...]`; so is its answer.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

from erasurehead.engines import Arrived, Order, RayEngine
from erasurehead.errors import EngineError
from erasurehead.testing._driving import PATIENCE
from erasurehead.testing._programs import Echo


class Driver:
    """The calls.

    Arguments:
        address: of the cluster's head.
    """

    def __init__(self, address: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.engine = RayEngine(late="carry", address=address)
                break
            except EngineError:  # the head takes some seconds to start
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def hosts(self) -> dict[str, int | None]:
        """Return where workers can run."""
        return dict(self.engine.hosts())

    def assign(self, worker: int, length: int, host: str | None) -> None:
        """Start a worker that answers with so many numbers."""
        self.engine.assign(worker, Echo(worker, (worker,), length=length), host)

    def submit(self, number: int) -> None:
        """Send an order to all workers."""
        self.engine.submit(Order(number, (np.full(3, float(number)),), round=number))

    def event(self, seconds: float) -> dict[str, Any] | None:
        """Return the next event, None if there is none within so many seconds."""
        begin = self.engine.now()
        event = self.engine.next_event(begin + seconds)
        if event is None:
            return None
        told: dict[str, Any] = {"kind": type(event).__name__, "waited": self.engine.now() - begin}
        told |= {name: value for name, value in vars(event).items() if isinstance(value, int | float | str)}
        if isinstance(event, Arrived):
            vector = event.read()
            told |= {"vector": vector[:4].tolist(), "whole": bool((vector.reshape(-1, 4) == vector[:4]).all())}
            self.engine.release(event)
        return told


def main() -> None:
    """Serve until the input ends."""
    driver = Driver(sys.argv[1])
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        method, *arguments = json.loads(line)
        print(json.dumps(getattr(driver, method)(*arguments)), flush=True)
    driver.engine.close()


if __name__ == "__main__":
    main()

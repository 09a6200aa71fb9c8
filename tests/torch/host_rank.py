"""One rank of a team on several hosts, without PyTorch: it says which versions it has closed, and where it is.

Arguments: number, ranks, contact, port, secret file, parameters. Each step takes 10 ms. A line of standard input asks
where it is, the end of standard input ends it.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from pathlib import Path

import numpy as np

from erasurehead.torch._endpoints.zmq import ZmqEndpoint
from erasurehead.torch._member import Member
from erasurehead.torch._runtime import ProcessPlace
from erasurehead.torch._versions import Version
from erasurehead.torch._ways._busy import Busy


def say(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def ask(asked: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        asked.put(line)
    asked.put("")


def main(number: int, size: int, contact: str, port: int, secret: str, length: int) -> None:
    beside = Path(secret).parent  # hosts are of one machine: none gives up another that begins seconds later
    (beside / f"begun-{number}").touch()
    deadline = time.monotonic() + 250.0
    while not all((beside / f"begun-{rank}").exists() for rank in range(size)):
        assert time.monotonic() < deadline, "not all ranks have begun"
        time.sleep(0.01)
    endpoint = ZmqEndpoint("test", number, size, (contact, port), secret)
    place = ProcessPlace(endpoint, size)
    model = np.zeros(length + 1, np.float32)  # and a counter
    place.expect(model.nbytes)

    def closed(version: Version) -> None:
        say(closed=version.version, term=version.term, at=time.monotonic(), members=version.members)

    with place.held():
        ranks = frozenset() if place.joins else frozenset(range(size))
        member = Member(place.port(), Busy(model), model.copy(), ranks, closed)
        place.begin(member)
    place.wait(lambda: member.newest[1] >= 0, "the first model")
    say(up=number)
    change = np.ones(length, np.float32)
    asked: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=ask, args=(asked,), daemon=True).start()
    took: list[float] = []
    while True:
        time.sleep(0.01)
        begin = time.monotonic()
        with place.held():
            member.offer(change, 1, 1.0, 0.01)
        took.append(time.monotonic() - begin)
        if asked.empty():
            continue
        if not asked.get():
            break
        with place.held():
            newest = member.known.latest
            low, high = newest.vector[:-1].min(), newest.vector[:-1].max()
            view = member.membership.view
            say(
                state=number,
                steps=len(took),
                took=sorted(took)[len(took) // 2],
                newest=newest.name,
                model=[float(low), float(high)],
                term=view.term,
                members=sorted(view.members),
                gathers=view.gathers,
            )
    with place.held():
        member.rest()
        member.leave()
    time.sleep(0.5)
    place.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5], int(sys.argv[6]))

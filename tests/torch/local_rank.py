"""One rank of a team on one host, without PyTorch, under any launcher; it ends when a file appears.

Arguments: the file, and seconds that a step takes. Each line that it says is JSON; a version that it closes is said
before others hear of it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

from erasurehead.torch._endpoints.local import LocalEndpoint
from erasurehead.torch._launchers import started
from erasurehead.torch._member import Member
from erasurehead.torch._runtime import ProcessPlace
from erasurehead.torch._versions import Version
from erasurehead.torch._ways._busy import Busy

LENGTH = 10_000


def say(**what: object) -> None:
    os.write(1, (json.dumps(what) + "\n").encode())


def main(stop: Path, seconds: float) -> None:
    how = started()
    assert how is not None
    place = ProcessPlace(LocalEndpoint(how.team, how.number, max(how.size, how.number)), how.size)
    model = np.zeros(LENGTH + 1, np.float32)  # and a counter
    place.expect(model.nbytes)

    def closed(version: Version) -> None:
        say(
            closed=version.version,
            term=version.term,
            at=time.monotonic(),
            by=version.gathered_by,
            steps={str(rank): steps for rank, steps in version.steps.items()},
            members=version.members,
        )

    with place.held():
        ranks = frozenset() if place.joins else frozenset(range(how.size))
        member = Member(place.port(), Busy(model), model.copy(), ranks, closed)
        place.begin(member)
    place.wait(lambda: member.newest[1] >= 0, "the first model")
    say(up=how.number, pid=os.getpid())
    steps = 0
    change = np.ones(LENGTH, np.float32)
    while not stop.exists():
        time.sleep(seconds)
        with place.held():
            if not member.membership.belongs:
                continue  # it is not yet, or no longer: such a step would be for nothing
            member.offer(change, 1, 1.0, seconds)
            newest = member.known.latest.vector[:-1]
            assert newest.min() == newest.max()  # nothing was torn
        steps += 1
        # What a rank offers is a message of one step, however slow who gathers is, and no more than that can be lost.
        place.wait(lambda: member.membership.gathers or member.may_leave, "its last change to be read")
    with place.held():
        member.rest()
    place.wait(lambda: member.may_leave, "its last change to be added")
    with place.held():
        member.leave()
    say(ended=how.number, steps=steps)
    place.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))

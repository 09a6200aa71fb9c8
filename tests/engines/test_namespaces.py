"""The test hosts themselves: they see each other, links can be cut, slowed and healed, and nothing stays behind."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from ..bounded import PATIENCE
from .namespaces import Host, Network, several_hosts

pytestmark = [pytest.mark.processes, pytest.mark.slow]

TALK = """
import socket, sys, time
if sys.argv[1] == "listen":
    with socket.create_server(("0.0.0.0", 5000)) as server:
        print(socket.gethostname(), flush=True)
        while True:
            with server.accept()[0] as peer:
                while peer.recv(65536):
                    pass
                peer.sendall(b"!")
begin = time.monotonic()
with socket.create_connection((sys.argv[2], 5000), timeout=float(sys.argv[3])) as peer:
    peer.sendall(bytes(100_000))
    peer.shutdown(socket.SHUT_WR)
    assert peer.recv(1) == b"!"
print(time.monotonic() - begin)
"""


def seconds_to_send(sender: Host, receiver: Host, patience: float = PATIENCE) -> float | None:
    """Return how long 100 kB take, None if they do not come within the patience."""
    words = (sys.executable, "-c", TALK, "send", receiver.name, str(patience))
    done = subprocess.run(sender.command(*words), capture_output=True, text=True, timeout=2 * PATIENCE, check=False)
    return float(done.stdout) if done.returncode == 0 else None


def check_links(network: Network, here: Host, there: Host) -> None:
    assert seconds_to_send(here, there) is not None
    network.cut(there)
    assert seconds_to_send(here, there, patience=1.0) is None
    network.heal(there)
    deadline = time.monotonic() + PATIENCE  # the bridge looks a second or two before it forwards again
    while seconds_to_send(here, there, patience=1.0) is None:
        assert time.monotonic() < deadline
    network.slow(there, kilobytes=50)
    slow = seconds_to_send(here, there)
    assert slow is not None
    assert slow > 1.0
    network.heal(there)
    healed = seconds_to_send(here, there)
    assert healed is not None
    assert healed < slow / 2
    network.worsen(there, delay=0.1)
    late = seconds_to_send(here, there)
    assert late is not None
    assert late > 0.4  # there and back, twice
    network.heal(there)
    healed = seconds_to_send(here, there)
    assert healed is not None
    assert healed < late


def test_hosts_talk_and_links_can_be_cut_slowed_and_healed() -> None:
    with several_hosts(3) as network:
        assert [host.name for host in network.hosts] == ["host0", "host1", "host2"]
        assert len(list(Path("/run/netns").glob(f"{network.stem}-*"))) == 4  # with the switch
        here, there = network.hosts[0], network.hosts[2]
        command = there.command(sys.executable, "-c", TALK, "listen")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listening:
            assert listening.stdout is not None
            assert listening.stdout.readline() == "host2\n"
            check_links(network, here, there)
            network.kill(there)
            assert listening.wait(PATIENCE) != 0
            assert there.pids() == []
    # Other tests may make networks of their own meanwhile.
    assert list(Path("/run/netns").glob(f"{network.stem}-*")) == []

"""Several hosts on one machine: network namespaces, joined by a bridge that stands for the switch.

Each host has an address, a name, a `/dev/shm` and an `/etc/hosts` of its own; files and process numbers are shared.
The bridge is in a namespace of its own, so that nothing of this can be seen, or reached, from the machine's network::

    with several_hosts(3) as network:
        first, second, third = network.hosts
        process = subprocess.Popen(first.command("python", "server.py", second.address))
        network.cut(second)
        network.heal(second)

It needs Linux and root (or the right to make namespaces); elsewhere the test is skipped, with a sentence.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from ..bounded import PATIENCE

LINK = "net0"
"""Name of the network interface in every host."""

SUBNET = "10.77.0.0/24"
"""Of all hosts of a network; as it is reached from nowhere else, several networks may use it at once."""

_ASIDE = "aside"  # the other switch, while there are two
_ADDRESS = "10.77.0.{}"
_numbers = itertools.count()


class _Refused(Exception):
    """A command that makes a network was refused; the text says why."""


@dataclass(frozen=True)
class Host:
    """One host.

    Attributes:
        name: what `hostname` says there; every host of the network can look it up.
        address: in `SUBNET`.
        namespace: as `ip netns` calls it.
        port: its end of the cable at the switch.
        names: the file that is its `/etc/hosts`.
    """

    name: str
    address: str
    namespace: str
    port: str
    names: Path

    def command(self, *words: str | os.PathLike[str]) -> list[str]:
        """Return the command that runs a command on this host."""
        # `ip netns exec` gives a mount namespace of its own already: what is mounted here, nobody else sees.
        setup = (
            f"hostname {self.name} && mount --bind {shlex.quote(str(self.names))} /etc/hosts && "
            'mount -t tmpfs tmpfs /dev/shm && exec "$@"'
        )
        inside = ["unshare", "--uts", "sh", "-c", setup, "sh", *map(os.fspath, words)]
        return ["ip", "netns", "exec", self.namespace, *inside]

    def pids(self) -> list[int]:
        """Return the numbers of all processes on this host."""
        return [int(pid) for pid in _ip("netns", "pids", self.namespace).split()]


class Network:
    """Hosts and the switch between them.

    Attributes:
        hosts: all of them.
        stem: what the names of its namespaces begin with.
        switch: the namespace of the switch.
    """

    def __init__(self, hosts: list[Host], stem: str) -> None:
        self.hosts, self.stem, self.switch = hosts, stem, f"{stem}-switch"
        self._cables: dict[Host, subprocess.Popen[str]] = {}

    def cut(self, host: Host) -> None:
        """Pull a host's cable: from now on nothing reaches it, and nobody is told."""
        _ip("-n", self.switch, "link", "set", host.port, "down")

    def slow(self, host: Host, kilobytes: int) -> None:
        """Let a host receive and send only so many kilobytes a second; skip the test where the kernel cannot."""
        rate = f"{8 * kilobytes}kbit"
        for space, link in ((self.switch, host.port), (host.namespace, LINK)):
            shaped = ["tc", "-n", space, "qdisc", "replace", "dev", link, "root"]
            # The token bucket is in more kernels than netem is.
            if _tries([*shaped, "tbf", "rate", rate, "burst", "16kb", "latency", "1s"]) is not None:
                why = _tries([*shaped, "netem", "rate", rate])
                if why is not None:
                    pytest.skip(f"the kernel can slow no link: it has neither tbf nor netem ({why})")

    def worsen(self, host: Host, delay: float, jitter: float = 0.0, loss: float = 0.0) -> None:
        """Have what a host sends and receives delayed by so many seconds, more or less, and lost so often.

        By netem, or by a program in its cable (`slow_cable.py`) where the kernel has none; that is not to be combined
        with `split`.
        """
        how = ["delay", f"{1e3 * delay:g}ms", f"{1e3 * jitter:g}ms", "loss", f"{100.0 * loss:g}%"]
        for space, link in ((self.switch, host.port), (host.namespace, LINK)):
            if _tries(["tc", "-n", space, "qdisc", "replace", "dev", link, "root", "netem", *how]) is not None:
                self.unplug(host)
                self._plug(host, delay, jitter, loss)
                break

    def _plug(self, host: Host, *how: float) -> None:
        """Put a program between a host's cable and the switch."""
        if not os.path.exists("/dev/net/tun"):
            pytest.skip("the kernel can delay or lose nothing: it has neither netem nor TAP devices")
        near, far, box = f"n{host.port}", f"f{host.port}", f"b{host.port}"
        for tap in (near, far):
            _ip("-n", self.switch, "tuntap", "add", "dev", tap, "mode", "tap")
        _ip("-n", self.switch, "link", "add", box, "type", "bridge")
        command = [sys.executable, str(Path(__file__).with_name("slow_cable.py")), near, far, *map(str, how)]
        self._cables[host] = process = subprocess.Popen(
            ["ip", "netns", "exec", self.switch, *command], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "plugged\n"
        for link, into in ((near, box), (far, "bridge"), (host.port, box)):
            _ip("-n", self.switch, "link", "set", link, "master", into, "up")
        _ip("-n", self.switch, "link", "set", box, "up")

    def unplug(self, host: Host) -> None:
        """Take out the program that `worsen` may have put into a host's cable."""
        process = self._cables.pop(host, None)
        if process is not None:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
            _tries(["ip", "-n", self.switch, "link", "set", host.port, "master", "bridge"])
            for link in ("n", "f", "b"):
                _tries(["ip", "-n", self.switch, "link", "delete", f"{link}{host.port}"])

    def split(self, hosts: Sequence[Host]) -> None:
        """Let these hosts reach each other, and the others each other, and nobody anybody else."""
        _ip("-n", self.switch, "link", "add", _ASIDE, "type", "bridge")
        _ip("-n", self.switch, "link", "set", _ASIDE, "up")
        for host in hosts:
            _ip("-n", self.switch, "link", "set", host.port, "master", _ASIDE)

    def join(self) -> None:
        """Undo `split`."""
        for host in self.hosts:
            _ip("-n", self.switch, "link", "set", host.port, "master", "bridge")
        _ip("-n", self.switch, "link", "delete", _ASIDE)

    def heal(self, host: Host) -> None:
        """Undo `cut`, `slow` and `worsen`."""
        self.unplug(host)
        for space, link in ((self.switch, host.port), (host.namespace, LINK)):
            _tries(["tc", "-n", space, "qdisc", "del", "dev", link, "root"])
        _ip("-n", self.switch, "link", "set", host.port, "up")

    def kill(self, host: Host) -> None:
        """End every process of a host at once, as a power cut would."""
        for pid in host.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def several_hosts(count: int) -> Generator[Network]:
    """Make so many hosts, named `host0`, `host1`, ..., and remove them at the end with all that runs on them.

    Skips the test, with a sentence, where this machine does not allow it.
    """
    if sys.platform != "linux" or any(shutil.which(tool) is None for tool in ("ip", "tc", "unshare")):
        pytest.skip("several hosts on one machine need Linux with iproute2 (ip, tc) and util-linux (unshare)")
    stem = f"eh{os.getpid()}x{next(_numbers)}"
    folder = Path(tempfile.mkdtemp(prefix="erasurehead-hosts-"))
    hosts = [
        Host(f"host{i}", _ADDRESS.format(i + 1), f"{stem}-{i}", f"port{i}", folder / "hosts") for i in range(count)
    ]
    network = Network(hosts, stem)
    try:
        try:
            _build(network)
        except _Refused as refused:
            pytest.skip(f"no network namespaces here: {refused}")
        yield network
    finally:
        _tear_down(network)
        shutil.rmtree(folder)


def _build(network: Network) -> None:
    hosts, switch = network.hosts, network.switch
    lines = ["127.0.0.1 localhost", *(f"{host.address} {host.name}" for host in hosts)]
    hosts[0].names.write_text("\n".join(lines) + "\n")
    _ip("netns", "add", switch)
    _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
    _ip("-n", switch, "link", "set", "bridge", "up")
    for host in hosts:
        _ip("netns", "add", host.namespace)
        _ip("-n", host.namespace, "link", "set", "lo", "up")
        cable = ["link", "add", host.port, "type", "veth", "peer", "name", LINK, "netns", host.namespace]
        _ip("-n", switch, *cable)
        _ip("-n", switch, "link", "set", host.port, "master", "bridge", "up")
        _ip("-n", host.namespace, "address", "add", f"{host.address}/24", "dev", LINK)
        _ip("-n", host.namespace, "link", "set", LINK, "up")
    why = _tries(hosts[0].command("true"))
    if why is not None:
        raise _Refused(why)


def _tear_down(network: Network) -> None:
    for host in network.hosts:
        network.unplug(host)
        with contextlib.suppress(_Refused):
            network.kill(host)
        _tries(["ip", "netns", "delete", host.namespace])
    _tries(["ip", "netns", "delete", network.switch])


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        raise _Refused(f"`ip {' '.join(words)}` says {done.stderr.strip()!r}")
    return done.stdout


def _tries(command: list[str]) -> str | None:
    """Run a command; return what it complains of, None if it succeeds."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    return done.stderr.strip() or f"status {done.returncode}" if done.returncode else None

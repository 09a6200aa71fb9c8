"""The machines of a Ray cluster: their names, and who has come."""

from __future__ import annotations

import contextlib
import math
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from erasurehead.errors import EngineError, invalid

_EVERY = 1.0  # seconds between two looks at the cluster
_REFUSALS = 2  # looks in a row at which nobody listens
_SHUTDOWN = 5.0  # seconds that a look under way has to end


@dataclass(frozen=True)
class Node:
    """A machine of the cluster.

    Attributes:
        id: as Ray numbers nodes.
        name: unique among the nodes that live.
        cpus: as many as Ray may give away.
    """

    id: str
    name: str
    cpus: float


class Nodes:
    """The nodes of a cluster, each under a name that stays.

    A node is called what it was named when it was started, else by its address; a second one of that name has the
    beginning of its number behind it.

    Arguments:
        ray: the library, connected.
        local: whether the only node is this machine.
        found: told of each node that has come since.
    """

    def __init__(self, ray: Any, local: bool, found: Callable[[Node], None]) -> None:
        self._ray = ray
        self._local = local
        self._found = found
        self._lock = threading.Lock()
        self._known: dict[str, Node] = {}
        self._names: set[str] = set()
        self._look()

    def look(self) -> None:
        """Ask who lives."""
        for node in self._look():
            self._found(node)

    def _look(self) -> list[Node]:
        told: list[Mapping[str, Any]] = [node for node in self._ray.nodes() if node["Alive"]]
        with self._lock:
            before = self._known
            self._known = {node["NodeID"]: before[node["NodeID"]] for node in told if node["NodeID"] in before}
            new = [node for node in told if node["NodeID"] not in before]
            for node in new:
                cpus = float(node["Resources"].get("CPU", 0.0))
                self._known[node["NodeID"]] = Node(node["NodeID"], self._name(node), cpus)
            self._names |= {node.name for node in self._known.values()}
            return [self._known[node["NodeID"]] for node in new]

    def _name(self, node: Mapping[str, Any]) -> str:
        if self._local:
            return socket.gethostname()
        name: str = node.get("NodeName") or node["NodeManagerAddress"]
        if name in {known.name for known in self._known.values()}:
            return f"{name}-{node['NodeID'][:8]}"
        return name

    def alive(self) -> list[Node]:
        """Return the nodes that lived when we last looked."""
        with self._lock:
            return list(self._known.values())

    def name(self, number: str) -> str:
        """Return the name of a node of which an actor has told."""
        for again in (False, True):
            if again:
                self.look()
            with self._lock:
                if number in self._known:
                    return self._known[number].name
        return number

    def named(self, name: str) -> Node | None:
        """Return the node of a name; None if it has gone meanwhile."""
        for node in self.alive():
            if node.name == name:
                return node
        if name in self._names:
            return None
        raise invalid("host", f"must be one of {[node.name for node in self.alive()]}", name)


class Manager:
    """The manager of our own node (its raylet), without which nothing is told any more: Ray itself does not say so.

    Arguments:
        ray: the library, connected.
    """

    def __init__(self, ray: Any) -> None:
        own = ray.get_runtime_context().get_node_id()
        told = next((node for node in ray.nodes() if node["NodeID"] == own), None)
        self._address = None if told is None else (str(told["NodeManagerAddress"]), int(told["NodeManagerPort"]))
        self._next = time.monotonic() + _EVERY
        self._refused = 0

    def check(self) -> None:
        """Look, at most once a second.

        Raises:
            EngineError: if it is gone: nobody listens at its port any more.
        """
        now = time.monotonic()
        if self._address is None or now < self._next:
            return
        self._next = now + _EVERY
        try:
            with socket.create_connection(self._address, timeout=_EVERY):
                self._refused = 0
        except ConnectionRefusedError:
            self._refused += 1
        except OSError:
            return  # it has too much to do, say
        if self._refused >= _REFUSALS:
            raise EngineError(
                f"the node manager of Ray (raylet) at {self._address[0]}:{self._address[1]}, on the coordinator's own "
                "machine, has ended, and all workers are lost with it; start Ray anew, and go on from the checkpoint."
            )


class NodeWatch:
    """Looks for new nodes once a second, in a thread, so that no arrival waits for the answer.

    Arguments:
        nodes: where to look.
    """

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="erasurehead-ray-nodes", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(_EVERY):
            with contextlib.suppress(Exception):  # the head does not answer just now: it may the next time
                self._nodes.look()

    def close(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join(_SHUTDOWN)


def room(node: Node, cpus: float) -> int | None:
    """Return how many workers a node bears that take so many processors each; None for any number."""
    return math.floor(node.cpus / cpus) if cpus > 0 else None

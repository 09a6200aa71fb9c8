"""The way into a Ray cluster: one of our own on this machine, or one that is there already.

Ray has one connection a process. Engines of one process share it; the last of them ends it, if the first made it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Generator
from importlib import import_module
from typing import Any

from erasurehead._internal.cleanup_process import cleanup
from erasurehead._internal.resources import usable_cores
from erasurehead.engines._ray.quirks import no_monitors, quiet, sigterm_kept
from erasurehead.errors import EngineError, MissingExtra, invalid

_LOOPBACK = "127.0.0.1"
_AT_ONCE = 1024
"""Processes that our own cluster may start at once. Ray's default, one a core, is no faster, and warns beyond that."""

_NEWS = 100
"""Milliseconds that Ray waits for the news of a death before it calls an actor unavailable; its default is a second."""

_DIRECT = 1_000_000
"""Bytes up to which a message comes with the call, rather than through the store, which costs more up to there.

With 30 messages of 160 kB a step took 105 ms at Ray's default of 100 kB, and 67 ms with this; of 1.9 MB, 126 ms through
the store and 163 ms without it.
"""

_PATIENCE = 10.0  # seconds that the head of a cluster has to open its door

_LONGEST = 24
"""Bytes of the folder for temporary files that leave room for the names of Ray's sockets: 107 are allowed."""

_INNER = "r"
"""Folder within ours that Ray gets, whose name is as short as can be for the same reason."""


def library() -> Any:
    """Return the ray module.

    Raises:
        MissingExtra: if it is not installed.
    """
    try:
        return import_module("ray")
    except ImportError:
        raise MissingExtra("The Ray engine needs ray: pip install 'erasurehead[ray]'.") from None


class Connection:
    """This process's connection to a cluster; make it with `connect`.

    Attributes:
        address: the cluster's, as `connect` was told; None for one of our own.
        local: whether it is our own: it then ends with the connection, and no machine can join it.
        users: how many engines use it.
    """

    def __init__(self, address: str | None, mine: bool) -> None:
        self.address = address
        self.local = mine and address is None
        self.users = 1
        self._mine = mine
        self._ends = contextlib.ExitStack()

    def open(self) -> None:
        """Start or join the cluster."""
        ray = library()
        with contextlib.ExitStack() as ends:
            ends.enter_context(quiet())
            started = ends.enter_context(sigterm_kept())
            if self.address is None:
                folder = ends.enter_context(_folder())
                ends.enter_context(_private_cluster())
                ends.callback(ray.shutdown)
                with no_monitors():
                    _start(ray, folder)
            else:
                ends.callback(ray.shutdown)
                _join(ray, self.address)
            started()
            self._ends = ends.pop_all()

    def close(self) -> None:
        """Leave the cluster, and end it if it is our own, unless another engine of this process still uses it."""
        global _current
        self.users -= 1
        if self._mine and self.users == 0:
            _current = None
            self._ends.close()


_current: Connection | None = None


def connect(address: str | None) -> Connection:
    """Return a connection to a cluster; `close` it after use.

    Arguments:
        address: host and port of the cluster's head, or `"auto"` for the one that runs on this machine; None for
            the one that this process is connected to already, else a new one of our own.

    Raises:
        InvalidArgument: if the address is none that workers can be driven through.
        EngineError: if the cluster cannot be reached or started, or this process is connected to another one.
    """
    global _current
    ray = library()
    if address is not None and (not address or "://" in address):
        raise invalid("address", "must be HOST:PORT of the cluster's head, or 'auto'", address)
    if not ray.is_initialized():
        connection = Connection(address, mine=True)
        connection.open()
        _current = connection
        return connection
    joined: str = ray.get_runtime_context().gcs_address
    if address not in (None, "auto", joined) and (_current is None or address != _current.address):
        raise EngineError(
            f"this process is connected to the Ray cluster at {joined} already, and cannot join {address} as well; "
            "leave that one first (ray.shutdown())."
        )
    if _current is None:
        return Connection(joined, mine=False)
    _current.users += 1
    return _current


def cpus(address: str | None) -> int:
    """Return how many CPUs a cluster has, at least 1; for one that is yet to be started here, the cores it may use.

    Arguments:
        address: as for `connect`.

    Raises:
        InvalidArgument, EngineError: as for `connect`.
    """
    if address is None and not ("ray" in sys.modules and library().is_initialized()):
        return usable_cores()
    connection = connect(address)
    try:
        return max(1, int(sum(node["Resources"].get("CPU", 0.0) for node in library().nodes() if node["Alive"])))
    finally:
        connection.close()


def _start(ray: Any, folder: str) -> None:
    try:
        ray.init(
            address="local",
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
            job_config=_job_config(),
            _temp_dir=folder,
            _system_config={
                "worker_maximum_startup_concurrency": _AT_ONCE,
                "timeout_ms_task_wait_for_death_info": _NEWS,
                "max_direct_call_object_size": _DIRECT,
            },
        )
    except Exception as error:
        raise EngineError(f"Ray cannot start a cluster on this machine: {error}") from error
    (node,) = ray.nodes()
    if node["NodeManagerAddress"] != _LOOPBACK:
        raise EngineError(
            f"Ray {ray.__version__} would listen at {node['NodeManagerAddress']} rather than only on this machine; "
            "start a cluster yourself (ray start --head) and name its address."
        )


def _job_config() -> Any:
    """Return Ray's settings of a job whose workers import from where this process does, and from nowhere else.

    Ray would put the current folder before all else, where a file `numpy.py` is imported in place of numpy.
    """
    base: Any = import_module("ray.job_config").JobConfig
    own = {os.path.realpath(place) for place in sys.path}  # an empty one stands for the current folder, as here

    class OwnPath(base):
        def _serialize(self) -> Any:
            job: Any = self
            job._py_driver_sys_path = [path for path in job._py_driver_sys_path if os.path.realpath(path) in own]
            return base._serialize(self)

    return OwnPath()


def _join(ray: Any, address: str) -> None:
    _knock(ray, _found(address) if address == "auto" else address)
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False, job_config=_job_config())
    except Exception as error:
        raise EngineError(f"the Ray cluster at {address} cannot be reached: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Return why Ray could not connect: what it raises may only say that, and its cause end with a whole traceback."""
    last = str(error.__cause__ or "").strip().rpartition("\n")[2]
    return last.partition(": ")[2] or str(error)


def _found(address: str) -> str:
    """Return where Ray itself would look for a cluster on this machine."""
    services = import_module("ray._private.services")
    try:
        return str(services.canonicalize_bootstrap_address_or_die(address))
    except ConnectionError as error:
        raise EngineError(f"no Ray cluster runs on this machine: {error}") from error


def _knock(ray: Any, address: str) -> None:
    """Find out at once that nobody is there: Ray itself would try for ten minutes, and print each attempt."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise invalid("address", "must be HOST:PORT of the cluster's head, or 'auto'", address)
    try:
        if host in ("localhost", "127.0.0.1", "[::1]"):
            host = ray.util.get_node_ip_address()  # Ray takes the one for the other
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE):
            pass
    except OSError as error:
        raise EngineError(f"the Ray cluster at {address} cannot be reached: {error}.") from error


@contextlib.contextmanager
def _folder() -> Generator[str]:
    """Make the folder for the logs and sockets of our own cluster; a cleanup process removes it in the end.

    Ray opens the folder that it is given to every user of the machine, and whoever can write there can put a socket of
    their own in the place of the raylet's. So it is given one inside a folder that only this user can enter.
    """
    base = tempfile.gettempdir()
    outer = tempfile.mkdtemp(prefix="eh-ray-", dir=base if len(os.fsencode(base)) <= _LONGEST else "/tmp")
    with cleanup("holders", outer, [outer]):
        yield os.path.join(outer, _INNER)


@contextlib.contextmanager
def _private_cluster() -> Generator[None]:
    """Keep our own cluster to this machine and this user: it listens on loopback only, and asks for a token.

    Ray has switches for both: it is what it does by default on macOS, and where it is told to ask for tokens. The
    token is in this process and those that it starts, and nowhere else.
    """
    constants: Any = import_module("ray._private.ray_constants")
    before, everywhere = dict(os.environ), constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    os.environ |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    _read_settings_again()
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = everywhere
        for name in _SETTINGS:
            os.environ.pop(name, None)
            if name in before:
                os.environ[name] = before[name]
        _read_settings_again()


_SETTINGS = ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "RAY_USAGE_STATS_ENABLED", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN")


def _read_settings_again() -> None:
    """Let Ray look at the environment again: it does so when it is imported, and remembers."""
    with contextlib.suppress(ImportError, AttributeError):  # older versions know no tokens
        raylet: Any = import_module("ray._raylet")
        raylet.Config.initialize("")
        raylet.AuthenticationTokenLoader.instance().reset_cache()

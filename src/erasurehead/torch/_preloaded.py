"""Ranks that begin at once: forked from one process that has imported PyTorch, which takes seconds.

To a script this must be the same as a Python of its own. So it is done only where PyTorch is imported before anything
else is done: its import then finds the environment that the launcher has set. What is forked has no other thread, and
has opened no device. Wherever this is not so, ranks are started as any program is.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import json
import multiprocessing
import os
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from struct import Struct
from types import ModuleType, TracebackType
from typing import IO, Any, final

from erasurehead.engines._end_with_parent import end_with_parent

_LOADED = ("torch", "erasurehead.torch._team", "torch._dynamo")  # the last by an optimizer, in its first step
_HARMLESS = sys.stdlib_module_names | {"numpy", "erasurehead"}  # it is the same before PyTorch is imported and after
_NUMBER = Struct("q")


def begins_with_torch(words: Sequence[str]) -> bool:
    """Return whether a script imports PyTorch before it does anything but import what is the same after that.

    Arguments:
        words: what follows `python`: a script, or -m and a module, and their arguments.
    """
    try:
        for path in _files_of(words[1]) if words[0] == "-m" else [words[0]]:
            source = Path(path).read_bytes()
            if b'"TORCH' in source or b"'TORCH" in source:
                return False  # a variable, perhaps, which the compiler reads when it is imported, later
            for statement in ast.parse(source).body:
                match statement:
                    case ast.Import(names=found):
                        names = [name.name.partition(".")[0] for name in found]
                    case ast.ImportFrom(module=str(name), level=0):
                        names = [name.partition(".")[0]]
                    case ast.Expr(value=ast.Constant()):
                        continue
                    case _:
                        return False
                if names[0] == "torch":
                    return True
                if not _HARMLESS.issuperset(names):
                    return False
    except (OSError, SyntaxError, ValueError):  # it is not there, or no source
        pass
    return False


def _files_of(module: str) -> Iterator[str]:
    """Yield the files that Python runs for a module, one after the other: of its packages, and its own."""
    places = [os.getcwd(), *sys.path]
    for part in [*module.split("."), "__main__"]:
        found = PathFinder.find_spec(part, places)
        if found is None or found.origin is None:
            return
        yield found.origin
        if found.submodule_search_locations is None:
            return
        places = found.submodule_search_locations


@final
class RankServer:
    """The process that ranks are forked from, as the launcher knows it; its file can be read from when it has loaded.

    Arguments:
        words: what follows `python`.
        environment: what all ranks have in theirs.
    """

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        self._asks, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.fileno = self._asks.fileno
        with there:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, *words],
                env=environment,
                stdin=there.fileno(),
                process_group=0,
                preexec_fn=end_with_parent,
            )

    def start(self, own: Mapping[str, str], piped: bool) -> ForkedRank | None:
        """Start a rank; return None if it cannot be.

        Arguments:
            own: what it alone has in its environment.
            piped: whether to read what it writes.
        """
        pipes = [os.pipe() for _ in range(2 * piped)]
        pid = self.told(own, [to for _, to in pipes])
        for _, to in pipes:
            os.close(to)
        streams = [os.fdopen(source, "rb", 0) for source, _ in pipes]
        if pid > 0:
            return ForkedRank(self, pid, *streams)
        for stream in streams:
            stream.close()
        return None

    def told(self, asked: object = None, files: Sequence[int] = ()) -> int:
        """Return what it answers, or answers by itself when it has loaded; `-SIGKILL` if it has ended."""
        try:
            if asked is not None:
                socket.send_fds(self._asks, [json.dumps(asked).encode()], files)
            said = self._asks.recv(_NUMBER.size)
        except OSError:
            said = b""
        return _NUMBER.unpack(said)[0] if said else -signal.SIGKILL

    def close(self) -> None:
        """End it, and with it all ranks that run."""
        self._process.kill()
        self._process.wait()
        self._asks.close()


@final
class ForkedRank:
    """A rank that was forked: what the launcher uses of `subprocess.Popen`."""

    def __init__(self, server: RankServer, pid: int, *streams: IO[bytes]) -> None:
        self._server, self.pid = server, pid
        self.stdout, self.stderr = streams or (None, None)

    def wait(self) -> int:
        """Wait for its end, and return its exit code."""
        return self._server.told(self.pid)


def _has_loaded() -> bool:
    """Import what ranks need, and return whether they can be forked then."""
    if "LD_PRELOAD" in os.environ or sys.gettrace() or sys.getprofile():
        return False  # profilers and debuggers follow programs that are started
    devices = _open_devices()
    try:
        for name in _LOADED:
            importlib.import_module(name)
    except Exception:  # which each rank tells of by itself
        return False
    probe = os.fork()  # for which OpenBLAS ends its threads, and begins others when it next computes
    if probe == 0:
        os._exit(0)
    os.waitpid(probe, 0)
    return len(os.listdir("/proc/self/task")) == 1 and _open_devices() <= devices


def _open_devices() -> set[str]:
    """Return the devices that this process has open: what has begun with a GPU does not survive a fork."""
    with os.scandir("/proc/self/fd") as files:
        return {to for file in files if (to := os.readlink(file.path)).startswith("/dev/")}


def _serve(asks: socket.socket) -> bool:
    """Fork ranks, and tell how they have ended, as long as there is a launcher; return True in each rank."""
    server, answer = os.getpid(), 0
    while True:
        asks.send(_NUMBER.pack(answer))
        message, files, _, _ = socket.recv_fds(asks, 1 << 16, 2)
        if not message:
            return False
        asked = json.loads(message)
        if isinstance(asked, int):
            answer = os.waitstatus_to_exitcode(os.waitpid(asked, 0)[1])
            continue
        try:
            answer = os.fork()
        except OSError:
            answer = -1
        if answer == 0:
            asks.close()
            _begin(server, asked, files)
            return True
        if answer > 0:
            os.setpgid(answer, answer)
        for file in files:
            os.close(file)


def _begin(server: int, own: Mapping[str, str], files: Sequence[int]) -> None:
    """Make a process that was forked a rank, with what it alone has in its environment and its output."""
    os.setpgid(0, 0)
    end_with_parent()
    if os.getppid() != server:
        os._exit(1)
    for given, usual in zip((os.open(os.devnull, os.O_RDONLY), *files), range(3), strict=False):
        os.dup2(given, usual)
        os.close(given)
    os.environ.update(own)
    multiprocessing.current_process().authkey = os.urandom(32)
    for seeded in (sys.modules["torch"].default_generator, sys.modules["numpy"].random):  # Python seeds its own
        seeded.seed()


def _run(words: Sequence[str]) -> None:
    """Run a script, or a module, as `python` does that these words follow."""
    ours = inspect.currentframe()

    def told(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """Leave out of a traceback what is not the script's."""
        below = trace
        while below is not None and below.tb_frame is not ours:
            below = below.tb_next
        sys.__excepthook__(kind, error.with_traceback(trace if below is None else below.tb_next), None)

    sys.excepthook = told
    sys.orig_argv = [sys.executable, *words]
    sys.modules["__main__"] = main = ModuleType("__main__")
    names: dict[str, Any] = vars(main)
    names["__builtins__"] = builtins
    if words[0] == "-m":
        sys.argv = ["-m", *words[2:]]
        as_main: Any = getattr(runpy, "_run_module_as_main")  # noqa: B009  # not declared; what Python itself calls
        as_main(words[1])
    else:
        sys.argv, path = [*words], os.path.abspath(words[0])
        loader = SourceFileLoader("__main__", path)
        names.update(__file__=path, __cached__=None, __loader__=loader)
        exec(compile(loader.get_data(path), path, "exec", dont_inherit=True), names)


def main() -> None:
    """Be the server of ranks, and then, in each of them, the rank."""
    words = sys.argv[1:]
    if not sys.flags.safe_path:
        sys.path[0] = os.getcwd() if words[0] == "-m" else os.path.dirname(os.path.realpath(words[0]))
    if _has_loaded() and _serve(socket.socket(fileno=os.dup(0))):
        _run(words)


if __name__ == "__main__":
    main()

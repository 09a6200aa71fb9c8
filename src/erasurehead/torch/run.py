"""Start the ranks of a team on this host: `python -m erasurehead.torch.run -n 8 train.py ARGUMENTS`.

Ranks survive each other: one that dies is told of, and the others go on, with another in its place if that is wished.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import select
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from types import FrameType
from typing import IO, Any, final

from erasurehead._internal.resources import usable_cores
from erasurehead.engines._end_with_parent import end_with_parent
from erasurehead.torch._launchers import END, ENDS, JOINED, JOINS, NUMBER, TEAM
from erasurehead.torch._preloaded import ForkedRank, RankServer, begins_with_torch

_GRACE = 10.0  # seconds that ranks have to end when they are asked to
_MOST_RESTARTS = 64  # that ranks of one host may need without the hosts' numbers getting into each other's way
_READ = 1 << 16

_ABOUT = """\
Start a script as several ranks on this host, which train one model together without waiting for each other.

The script calls join() of erasurehead.torch or erasurehead.jax, which tells it its rank and its team; what it has to do
besides is in docs/networks.md and docs/networks-jax.md. Everything that torchrun sets is set (RANK, WORLD_SIZE,
LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT), so that scripts for torchrun run, too. OMP_NUM_THREADS is set,
unless it is already, to each rank's share of the cores. For JAX, JAX_COMPILATION_CACHE_DIR is set, so that ranks read
what another one has compiled, and XLA_PYTHON_CLIENT_PREALLOCATE, so that none takes the whole memory of a GPU.
"""

_MORE = """\
what happens when
  a rank dies         the others go on; it costs its steps and nothing else. With --restarts another takes its place,
                      and goes on from the team's newest model.
  all ranks die       none is started again: nobody is left who has the model.
  a rank hangs        the others go on. When they have ended, it is waited for, or killed after --patience seconds.
  Ctrl-C, SIGTERM     all ranks get the signal, and ten seconds; a second one kills them at once.
  this process dies   all ranks are killed by the system.

exit codes
  0      the script has ended without an error in at least one rank, and with an error of its own in none; ranks that
         were killed by a signal meanwhile are told of
  1 ...  the code with which the script has ended in the first rank that had an error of its own
  2      the options make no sense
  128+s  all ranks were killed, the last one by signal s; or this process was asked to end by signal s

examples
  python -m erasurehead.torch.run -n 8 train.py --epochs 10
  python -m erasurehead.torch.run -n 4 --restarts 3 --output first -m my_package.train
  python -m erasurehead.torch.run -n 8 --of 16 --contact host0:29500 train.py              (on host0)
  python -m erasurehead.torch.run -n 8 --of 16 --first 8 --contact host0:29500 train.py    (on the other host)
"""


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m erasurehead.torch.run",
        description=_ABOUT,
        epilog=_MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("-n", "--ranks", type=int, required=True, help="how many ranks to start here")
    parser.add_argument(
        "--restarts", type=int, default=0, metavar="K", help="how many times, in all, to start a rank again (default 0)"
    )
    parser.add_argument(
        "--output",
        choices=("prefixed", "plain", "first"),
        default="prefixed",
        help="what to show: each line after its rank (the default); lines as they come; or of standard output only "
        "what the first rank here writes",
    )
    parser.add_argument(
        "--patience",
        type=float,
        metavar="SECONDS",
        help="how long ranks may run on after the last one that has ended (default: as long as they like)",
    )
    parser.add_argument("--of", type=int, metavar="N", help="ranks of the team on all hosts (default: those here)")
    parser.add_argument("--first", type=int, default=0, metavar="R", help="number of the first rank here (default 0)")
    parser.add_argument(
        "--contact", metavar="HOST:PORT", help="where rank 0's host is reached, with a free port; for several hosts"
    )
    parser.add_argument("-m", action="store_true", dest="module", help="the script is the name of a module")
    parser.add_argument("script", help="the script, or the module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    options = parser.parse_args(arguments)
    of = options.ranks if options.of is None else options.of
    host, _, port = (options.contact or "").rpartition(":")
    wrong = [
        (options.ranks < 1, f"-n must be at least 1, but it is {options.ranks}"),
        (
            options.patience is not None and not options.patience >= 0.0,
            f"--patience must be at least 0, but it is {options.patience:g}" if options.patience is not None else "",
        ),
        (options.restarts < 0, f"--restarts must be at least 0, but it is {options.restarts}"),
        (
            options.first < 0 or of < options.first + options.ranks,
            f"there are no ranks {options.first} to {options.first + options.ranks - 1} among {of}: give --of all "
            "ranks of the team, and --first the number of the first one here",
        ),
        (of > options.ranks and not options.contact, "with ranks on other hosts, --contact must say where rank 0 is"),
        (
            bool(options.contact) and not (host and port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16),
            f"--contact must be a host and a port, such as host0:29500, but it is {options.contact!r}",
        ),
        (
            not options.module and not os.path.isfile(options.script),
            f"there is no file {options.script!r} to run; to run a module, give -m before its name",
        ),
    ]
    for is_wrong, why in wrong:
        if is_wrong:
            parser.error(f"{why}.")
    options.of, options.host, options.port = of, host or "127.0.0.1", int(port) if port else _free_port()
    return options


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class _Rank:
    """One rank: its process, and how it ended."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: subprocess.Popen[bytes] | ForkedRank | None = None
        self.began = 0.0
        self.code: int | None = None  # of its last life, once it has ended
        self.killed = False  # by us, which was told
        self.ends: tuple[int, int] | None = None  # a pipe in which it is told who has ended
        self.name = number  # of its life, among ranks

    @property
    def runs(self) -> bool:
        """Whether it runs."""
        return self.process is not None and self.code is None


class _Output:
    """One stream of a rank, shown line by line."""

    def __init__(self, source: IO[bytes], to: int, prefix: bytes, hidden: bool) -> None:
        self.source, self._to = source, to
        self._prefix, self._hidden = prefix, hidden
        self._line = b""
        os.set_blocking(source.fileno(), False)

    def show(self, last: bool = False) -> bool:
        """Show the lines that have come; return whether there may be more.

        Arguments:
            last: whether nothing comes any more that has not come.
        """
        try:
            data = os.read(self.source.fileno(), _READ)
        except BlockingIOError:
            if not last:
                return True
            data = b""
        lines = (self._line + data).splitlines(keepends=True)
        self._line = b"" if not data or not lines or lines[-1].endswith((b"\n", b"\r")) else lines.pop()
        if not self._hidden:
            text = b"".join(self._prefix + line for line in lines)
            if lines and not data and not text.endswith(b"\n"):
                text += b"\n"
            _write(self._to, text)
        return bool(data)


def _write(to: int, text: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):
        while text:
            text = text[os.write(to, text) :]


@final
class _Launcher:
    """Starts ranks, shows what they write, and waits for their end."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.ranks = [_Rank(options.first + number) for number in range(options.ranks)]
        self.restarts, self.started = options.restarts, 0
        self.error = 0  # the first code of an error of the script's own
        self.signal = 0  # that this process got
        self._deadline = float("inf")  # when what still runs is killed
        self._selector = selectors.DefaultSelector()
        self._ends: list[bytes] = []
        self._joiners: set[int] = set()
        self._joined = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        team = f"{options.host}:{options.port}" if options.of > options.ranks else secrets.token_hex(8)
        self._shared = {
            TEAM: team,
            JOINED: f"/proc/{os.getpid()}/fd/{self._joined[1]}",
            "WORLD_SIZE": str(options.of),
            "LOCAL_WORLD_SIZE": str(options.ranks),
            "MASTER_ADDR": options.host,
            "MASTER_PORT": str(options.port),
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(max(1, usable_cores() // options.ranks))),
        }
        # A folder that is made by whoever compiles something, and is removed with the team.
        self._compiled = os.path.join(tempfile.gettempdir(), f"erasurehead-jax-{secrets.token_hex(8)}")
        for_jax = {
            "JAX_COMPILATION_CACHE_DIR": self._compiled,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",  # by default, not what takes less than a second
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        }
        if "JAX_COMPILATION_CACHE_DIR" not in os.environ and find_spec("filelock") is not None:
            # Where there is a limit, JAX locks the folder to read and to write, so that nobody reads half of something.
            for_jax["JAX_COMPILATION_CACHE_MAX_SIZE"] = str(1 << 40)
        if options.ranks > 1:
            self._shared |= {name: os.environ.get(name, value) for name, value in for_jax.items()}
        if options.output != "plain":
            self._shared["PYTHONUNBUFFERED"] = "1"  # a line is shown when it is written
        self._words = [*(["-m"] if options.module else []), options.script, *options.arguments]
        self._server: RankServer | None = None

    def run(self) -> int:
        """Run all ranks to their end, and return the exit code."""
        before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        bell, ring = socket.socketpair()
        ring.setblocking(False)
        bell.setblocking(False)
        woken = signal.set_wakeup_fd(ring.fileno(), warn_on_full_buffer=False)
        self._selector.register(bell, selectors.EVENT_READ, None)
        try:
            self._preload(bell)
            for rank in self.ranks:
                if not self.signal:
                    self._start(rank)
            while any(rank.runs for rank in self.ranks):
                self._wait(bell)
        finally:
            for rank in self.ranks:
                if rank.runs:
                    self._kill(rank, signal.SIGKILL)
            for key in list(self._selector.get_map().values()):
                while isinstance(key.data, _Output) and key.data.show(last=True):
                    pass
            self._end_server()
            signal.set_wakeup_fd(woken)
            for number, handler in before.items():
                signal.signal(number, handler)
            bell.close()
            ring.close()
            self._selector.close()
            shutil.rmtree(self._compiled, ignore_errors=True)
        self._say_who_has_not_joined()
        for end in self._joined:
            os.close(end)
        return self._code()

    def _preload(self, bell: socket.socket) -> None:
        """Have PyTorch imported once for all ranks, if that is the same to them."""
        if self.options.ranks + self.restarts > 1 and begins_with_torch(self._words):
            server = RankServer(self._words, {**os.environ, **self._shared})
            self._server = server
            while not self.signal and server not in select.select([server, bell], [], [])[0]:
                bell.recv(_READ)
            if not self.signal and server.told() != 0:
                self._end_server()

    def _end_server(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _say_who_has_not_joined(self) -> None:
        """Say so where ranks have run to their end without a team: they knew nothing of each other, perhaps unmeant."""
        joined = self._who_has_joined()
        alone = [rank.number for rank in self.ranks if rank.code == 0 and rank.name not in joined]
        if self.options.of > 1 and alone and not joined:
            _say(
                "no rank has called erasurehead.torch.join(): unless the script lets its ranks meet in another way, "
                "each has run it by itself"
            )
        elif self.options.of > 1:
            for number in alone:
                _say(f"rank {number} has ended without calling erasurehead.torch.join(): it was in no team")

    def _code(self) -> int:
        if self.signal:
            return 128 + self.signal
        if self.error:
            return self.error
        codes = [rank.code for rank in self.ranks if rank.code is not None]
        return 0 if 0 in codes else 128 - codes[-1]

    def _start(self, rank: _Rank) -> None:
        local = rank.number - self.options.first
        plain, first = self.options.output == "plain", self.options.output == "first"
        own = {"RANK": str(rank.number), "LOCAL_RANK": str(local)}
        if rank.process is not None:  # a number that nobody has had: the others know that the one before is dead
            rank.name = self.options.of + self.options.first * _MOST_RESTARTS + self.started
            own[NUMBER] = str(rank.name)
            self.started += 1
        rank.ends = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        own[ENDS] = f"/proc/{os.getpid()}/fd/{rank.ends[0]}"
        for end in self._ends:
            os.write(rank.ends[1], end)
        process = self._server.start(own, piped=not plain) if self._server is not None else None
        if process is None:
            process = subprocess.Popen(
                [sys.executable, *self._words],
                env={**os.environ, **self._shared, **own},
                stdin=subprocess.DEVNULL,
                stdout=None if plain else subprocess.PIPE,
                stderr=None if plain else subprocess.PIPE,
                process_group=0,
                preexec_fn=end_with_parent,  # this process has no other thread
            )
        rank.process, rank.code, rank.began = process, None, time.monotonic()
        prefix = b"" if first and local == 0 else f"[{rank.number}] ".encode()
        for source, to, hidden in ((process.stdout, 1, first and local > 0), (process.stderr, 2, False)):
            if source is not None:
                self._selector.register(source, selectors.EVENT_READ, _Output(source, to, prefix, hidden))
        self._selector.register(os.pidfd_open(process.pid), selectors.EVENT_READ, rank)

    def _wait(self, bell: socket.socket) -> None:
        """Wait for output, an end or a signal, and handle it."""
        left = self._deadline - time.monotonic()
        if left <= 0.0:
            self._deadline = float("inf")
            for rank in self.ranks:
                if rank.runs:
                    if not self.signal:
                        _say(f"rank {rank.number} runs on {self.options.patience:g} s after others ended: it is killed")
                        rank.killed = True
                    self._kill(rank, signal.SIGKILL)
        events = self._selector.select(None if left == float("inf") else max(0.0, left))
        for key, _ in sorted(events, key=lambda event: isinstance(event[0].data, _Rank)):
            what: Any = key.data
            if what is None:
                bell.recv(_READ)
            elif isinstance(what, _Output):
                if not what.show():
                    self._selector.unregister(what.source)
                    what.source.close()
            else:
                self._selector.unregister(key.fd)
                os.close(key.fd)
                self._ended(what)

    def _ended(self, rank: _Rank) -> None:
        """Take note of a rank's end, and start another in its place, if that is wished."""
        assert rank.process is not None
        self._kill(rank, signal.SIGKILL)  # what it has started; its number is not anybody else's yet
        rank.code = code = rank.process.wait()
        others = [other for other in self.ranks if other.runs]
        self._tell_end(rank, others)
        if code and not self.signal and not rank.killed:
            if code > 0:
                self.error = self.error or code
            seconds = time.monotonic() - rank.began
            how = f"was killed by {_name(-code)}" if code < 0 else f"has ended with exit code {code}"
            over = any(other.code == 0 for other in self.ranks)
            if others and self.restarts and not over:
                self.restarts -= 1
                _say(f"rank {rank.number} {how} after {seconds:.1f} s; it is started again, and joins the others")
                if code > 0 and self.error == code:
                    self.error = 0
                self._start(rank)
                return
            go_on = f"the other {len(others)} go on" if len(others) > 1 else "the other one goes on"
            _say(f"rank {rank.number} {how} after {seconds:.1f} s; {go_on if others else 'no other runs here'}")
        if code == 0 and self.options.patience is not None and not self.signal:
            self._deadline = time.monotonic() + self.options.patience

    def _who_has_joined(self) -> set[int]:
        """Return the ranks that have said that they have."""
        with contextlib.suppress(BlockingIOError):
            while told := os.read(self._joined[0], JOINS.size * 1024):
                self._joiners |= {number for (number,) in JOINS.iter_unpack(told)}
        return self._joiners

    def _tell_end(self, rank: _Rank, others: list[_Rank]) -> None:
        """Tell the others that a rank has ended: if it never came to its team, they would wait for it."""
        end = END.pack(rank.name, rank.code == 0 and rank.name in self._who_has_joined())
        self._ends.append(end)
        for other in others:
            if other.ends is not None:
                with contextlib.suppress(BlockingIOError):  # thousands, of which a script has not read one
                    os.write(other.ends[1], end)
        if rank.ends is not None:
            for end in rank.ends:
                os.close(end)
            rank.ends = None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        again, self.signal = bool(self.signal), number
        self._deadline = time.monotonic() + (0.0 if again else _GRACE)
        for rank in self.ranks:
            if rank.runs:
                self._kill(rank, signal.SIGKILL if again else number)

    def _kill(self, rank: _Rank, number: int) -> None:
        """Send a signal to a rank and all that it has started."""
        if rank.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(rank.process.pid, number)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _say(sentence: str) -> None:
    _write(2, f"erasurehead.torch.run: {sentence}.\n".encode())


def main(arguments: Sequence[str] | None = None) -> int:
    """Start ranks as the arguments of the command say, and return its exit code."""
    options = _options(sys.argv[1:] if arguments is None else arguments)
    if sys.platform != "linux":
        _say(f"ranks beside each other on one host need Linux, and this is {sys.platform}")
        return 2
    return _Launcher(options).run()


if __name__ == "__main__":
    sys.exit(main())

"""What all tests share: deterministic hypothesis, the order they run in, Ctrl-C as a terminal has it, the real data."""

from __future__ import annotations

import gc
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from erasurehead._internal import cleanup_process

from .bounded import PATIENCE
from .leftovers import left_since, unclaimed

_COMMON = settings(derandomize=True, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", _COMMON, max_examples=20)
settings.register_profile("thorough", _COMMON, max_examples=500)
settings.load_profile("quick")  # but for what `--hypothesis-profile` says

ROOT = Path(__file__).resolve().parent.parent

LONGEST = ("clusters", "mpi", "ray", "documentation", "sabotage", "exhibits", "figures")
"""Groups of tests that run one after the other, the longest first: what starts last decides when all are over."""


def group_of(item: pytest.Item) -> str:
    """Return the group of tests that run one after the other in one process to which a test belongs, or nothing.

    Tests that share what is made once for their module are a group: else each process would make it anew.
    """
    group = item.get_closest_marker("xdist_group")
    if group or not isinstance(item, pytest.Function):
        return str(group.args[0]) if group else ""
    used = item._fixtureinfo.name2fixturedefs.values()
    return item.module.__name__ if any(made[-1].scope == "module" for made in used) else ""


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples in the library only, not in tests: their collector is a `pytest.Module` of its own kind."""
    return [found for found in (yield) if type(found) is pytest.Module]


class _Examples:
    """Leaves out the files of the library that have no examples, which are most: to look there, they are imported."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        found = yield
        if ROOT / "src" in file_path.parents and ">>> " not in file_path.read_text(encoding="utf-8"):
            return []
        return found


def pytest_configure(config: pytest.Config) -> None:
    """Look at files of the library, too, of which the hooks of this file hear nothing."""
    config.pluginmanager.register(_Examples())


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put first what takes long."""

    def place(item: pytest.Item) -> int:
        name = group_of(item)
        if name in LONGEST:
            return LONGEST.index(name)
        slow, real = item.get_closest_marker("slow"), item.get_closest_marker("processes")
        return len(LONGEST) + (0 if slow and real else 1 if slow or real else 2)

    items.sort(key=lambda item: (place(item), item.path))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, pytest.CollectReport]:
    """Have each process that xdist starts begin with other tests, so that each compiles a share of them for all.

    Beside each other in one order, all of them would compile each file, wherever that is not done yet.
    The order in which the tests are run is not that in which they are found.
    """
    report = yield
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker and report.passed and collector.path == ROOT / "tests":
        found = report.result
        begin = len(found) * int(worker.removeprefix("gw")) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        report.result = [*found[begin:], *found[:begin]]
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare Python to look for garbage among thousands of tests and all that they import, which stay to the end.

    Not even once, before they are set aside: that takes two seconds, and what little there is may stay, too.
    From then on it looks less often than it would: with all that the tests load and make, a look takes long.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 10, 10)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collection_finish(session: pytest.Session) -> Generator[None]:
    """Name the group of each test behind its id, where `--dist loadgroup` looks for it.

    xdist 3.8 writes to an attribute that pytest has no more since 9.2, which nobody notices: each worker then starts
    its own cluster, builds its own documentation and so on.
    """
    if getattr(session.config.option, "loadgroup", False):  # only in the processes that xdist starts
        for item in session.items:
            name = group_of(item)
            if name and not item.nodeid.endswith(f"@{name}"):
                item._id = type(item.id).parse(f"{item.nodeid}@{name}")
    return (yield)


@pytest.fixture(scope="session", autouse=True)
def signals_as_in_a_terminal() -> Generator[None]:
    """Let SIGINT and SIGHUP be what they are in a terminal: shells, and nohup, ignore them for what they start behind.

    Python then installs no handler, and whatever the tests start would inherit that.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler), signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, before[0])
    signal.signal(signal.SIGHUP, before[1])


@pytest.fixture
def nothing_is_left_in_shared_memory() -> Generator[None]:
    """Fail a test after which there is something in /dev/shm that was not there before, and that nobody uses."""
    before = unclaimed()
    yield
    assert not left_since(before)


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_in_shared_memory_by_all_tests() -> Generator[None]:
    """The same for the whole session: what any test has left."""
    before = unclaimed()
    yield
    assert not left_since(before)


@pytest.fixture(scope="session", autouse=True)
def what_tests_start_ends_with_them() -> Generator[None]:
    """Kill every process that tests have started and that outlives them, also if the tests themselves are killed."""
    mark = secrets.token_hex(8)
    command = [sys.executable, "-I", "-S", cleanup_process.__file__, "marked", mark]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as process,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv(cleanup_process.MARK, mark)
        yield
        assert process.stdin is not None
        process.stdin.close()
        process.wait(PATIENCE)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with the public data files in their original formats, or a skip that says where it was looked for."""
    named = os.environ.get("ERASUREHEAD_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} is not there (set ERASUREHEAD_DATA to the folder that holds them)")
    return folder

"""Ranks that are forked from a process which has imported PyTorch: to a script the same as a Python of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from erasurehead.torch._preloaded import begins_with_torch

from ..bounded import PATIENCE, PROMPT, left_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ranks beside each other need Linux")

REAL = [pytest.mark.processes, pytest.mark.slow, pytest.mark.usefixtures("quick_start")]

COMMAND = [sys.executable, "-m", "erasurehead.torch.run", "--output", "plain", "-n", "2"]

VIEW = """\
'''What a script sees of itself and of its process.'''
from __future__ import annotations
import inspect, json, multiprocessing, os, pickle, random, signal, sys
import torch
class Own:
    at: NoSuchName
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGUSR1)
streams = [(s.encoding, s.errors, s.line_buffering, s.write_through, s.isatty()) for s in (sys.stdout, sys.stderr)]
seen = {
    "argv": sys.argv, "orig_argv": sys.orig_argv, "path": sys.path, "flags": str(sys.flags), "streams": streams,
    "names": sorted(globals().keys() - {"__annotations__", "torch"}),
    "main": (__file__, __name__, __package__, __spec__ and __spec__.name, __cached__, type(__loader__).__name__),
    "pickled": pickle.loads(pickle.dumps(Own)) is Own, "source": inspect.getsource(Own), "stack": Own.__module__,
    "signals": [str(signal.getsignal(s)) for s in SIGNALS], "mask": list(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "own group": os.getpgid(0) == os.getpid(), "own session": os.getsid(0) == os.getpid(),
    "threads": len(os.listdir("/proc/self/task")), "folder": os.getcwd(), "stdin": os.readlink("/proc/self/fd/0"),
    "process": (multiprocessing.current_process().name, multiprocessing.parent_process()),
    "environment": {n: v for n, v in os.environ.items() if n not in ("MASTER_PORT",) and "ERASUREHEAD" not in n},
}
own = {"Python": random.random(), "process": os.getpid()}
if torch:
    import numpy
    key = multiprocessing.current_process().authkey.hex()
    own |= {"PyTorch": torch.rand(2).tolist(), "NumPy": numpy.random.random(), "multiprocessing": key}
alike = os.getppid()
os.write(1, (json.dumps([seen, alike, own]) + "\\n").encode())
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=folder)


def views(folder: Path, *words: str) -> list[Any]:
    """Return what each rank tells, by rank."""
    done = run(folder, *words)
    assert done.returncode == 0, done.stderr
    return sorted(map(json.loads, done.stdout.splitlines()), key=lambda told: told[0]["environment"]["RANK"])


class TestReal:
    pytestmark = REAL

    @pytest.mark.parametrize("words", [("there/link.py", "--epochs", "3", "-m"), ("-m", "there.train", "-n", "9")])
    def test_a_script_sees_what_it_sees_in_a_python_of_its_own(self, tmp_path: Path, words: tuple[str, ...]) -> None:
        package = tmp_path / "there"
        package.mkdir()
        (package / "__init__.py").write_text('"""Of a user."""\nimport os\n')
        (package / "link.py").symlink_to(tmp_path / "train.py" if words[0] != "-m" else package / "train.py")
        script = (package / "link.py").resolve()
        script.write_text(VIEW.replace("import torch\n", "torch = None\n"))
        plain = views(tmp_path, *words)
        script.write_text(VIEW)
        forked = views(tmp_path, *words)
        for seen in (plain, forked):
            for told in seen:
                told[0]["environment"].pop("JAX_COMPILATION_CACHE_DIR")
        for (one, _, _), (other, _, _) in zip(plain, forked, strict=True):
            one["source"] = other["source"] = one["source"] == other["source"]
            assert other == one
        (_, alike, own), (_, alike_too, own_too) = forked
        assert alike == alike_too  # they have one parent
        assert set(own) == {"PyTorch", "NumPy", "Python", "multiprocessing", "process"}
        assert not {str(drawn) for drawn in own.values()} & {str(drawn) for drawn in own_too.values()}

    def test_a_rank_is_forked_again_with_data_loaders_and_errors_as_ever(self, tmp_path: Path) -> None:
        """Workers of data loaders that are spawned import the script, and find the classes in it."""
        script = tmp_path / "train.py"
        script.write_text(
            "import os, sys\nimport torch\nfrom torch.utils.data import DataLoader, Dataset\n"
            "class Numbers(Dataset):\n"
            "    def __len__(self): return 4\n"
            "    def __getitem__(self, item): return item, os.getppid()\n"
            "def loaded():\n"
            "    return list(DataLoader(Numbers(), num_workers=1, multiprocessing_context='spawn'))\n"
            "if __name__ == '__main__':\n"
            "    number = int(os.environ.get('ERASUREHEAD_NUMBER', os.environ['RANK']))\n"
            "    os.write(1, f'{number} {os.getppid()}\\n'.encode())\n"
            "    if number == 1:\n"
            "        os.kill(os.getpid(), 9)\n"
            "    if number == 2:\n"
            "        raise ValueError(number)\n"
            "    items = loaded()\n"
            "    assert [int(item) for item, _ in items] == [0, 1, 2, 3]\n"
            "    assert {int(parent) for _, parent in items} == {os.getpid()}\n"
        )
        done = run(tmp_path, "--restarts", "1", str(script))
        assert done.returncode == 1, done.stderr
        numbers, parents = zip(*map(str.split, done.stdout.splitlines()), strict=True)
        assert sorted(numbers) == ["0", "1", "2"]
        assert len(set(parents)) == 1
        told = done.stderr.splitlines()
        at = told.index("Traceback (most recent call last):")
        assert told[at + 1].startswith(f'  File "{script}", line 15, in <module>')
        assert "_preloaded" not in done.stderr
        assert "ValueError: 2" in told

    @pytest.mark.parametrize(
        "does",
        ["threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()", "devices = [open('/dev/full')]"],
    )
    def test_where_a_backend_begins_something_when_it_is_imported_ranks_are_started_as_any_program(
        self, does: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """PyTorch imports what is installed as a backend of it."""
        (tmp_path / "backend.py").write_text(f"import threading, time\n{does}\ndef begin(): pass\n")
        installed = tmp_path / "backend-1.0.dist-info"
        installed.mkdir()
        (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: backend\nVersion: 1.0\n")
        (installed / "entry_points.txt").write_text("[torch.backends]\nbackend = backend:begin\n")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
        script = tmp_path / "train.py"
        script.write_text(
            "import os, sys\nimport torch\nos.write(1, f'{os.getppid()}'.encode() * ('backend' in sys.modules))\n"
        )
        command = [*COMMAND[:-1], "1", "--restarts", "1", str(script)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as launcher:
            out, _ = launcher.communicate(timeout=PATIENCE)
        assert out == str(launcher.pid)

    @pytest.mark.parametrize("victim", ["launcher", "server"])
    def test_ranks_end_with_who_has_forked_them_and_with_the_launcher(self, tmp_path: Path, victim: str) -> None:
        script = tmp_path / "train.py"
        script.write_text(
            "import os, time\nimport torch\nos.write(1, f'{os.getpid()} {os.getppid()}\\n'.encode())\ntime.sleep(3600)"
        )
        with subprocess.Popen([*COMMAND, str(script)], stdout=subprocess.PIPE, text=True) as launcher:
            assert launcher.stdout is not None
            pids = {int(pid) for _ in range(2) for pid in launcher.stdout.readline().split()}
            ranks = {pid for pid in pids if os.getpgid(pid) == pid}
            assert len(ranks) == len(pids) == 3  # the server is one of them, and has a group of its own, too
            parents = [int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in pids]
            server = next(pid for pid in pids if parents.count(pid) == 2)
            os.kill(server if victim == "server" else launcher.pid, signal.SIGKILL)
            assert launcher.wait(PROMPT) == (137 if victim == "server" else -signal.SIGKILL)
            assert left_of(pids) == []

    def test_a_signal_ends_it_while_it_imports_and_no_rank_begins(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        importing = tmp_path / "importing"
        (tmp_path / "sitecustomize.py").write_text(
            "import os, sys, time\n"
            "if 'erasurehead.torch._preloaded' in sys.orig_argv:\n"
            f"    open({str(importing)!r} + '.part', 'w').write(str(os.getpid()))\n"
            f"    os.rename({str(importing)!r} + '.part', {str(importing)!r})\n"
            "    time.sleep(3600)\n"
        )
        monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
        script = tmp_path / "train.py"
        script.write_text("import torch\nopen('begun', 'w')\n")
        with subprocess.Popen([*COMMAND, str(script)], cwd=tmp_path) as launcher:
            deadline = time.monotonic() + PATIENCE
            while not importing.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            launcher.terminate()
            assert launcher.wait(PROMPT) == 143
        assert left_of([int(importing.read_text())]) == []
        assert not (tmp_path / "begun").exists()


@pytest.mark.parametrize(
    ("source", "begins"),
    [
        ("import torch", True),
        ('"""Of mine."""\nfrom __future__ import annotations\nimport os, sys\nimport numpy as np\nimport torch', True),
        ("import erasurehead.torch as eht\nfrom torch.nn import Linear\nimport jax", True),
        ("import torch.nn as nn\nimport os\nos.environ['X'] = '1'", True),
        ("", False),
        ("import os\nos.environ['OMP_NUM_THREADS'] = '1'\nimport torch", False),
        ("import settings\nimport torch", False),
        ("import jax, torch", False),
        ("from . import settings\nimport torch", False),
        ("import os, settings\nimport torch", False),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None", False),
        ("def train():\n    import torch\ntrain()", False),
        ("import os\nimport torch\nos.environ['TORCHINDUCTOR_MAX_AUTOTUNE'] = '1'", False),
        ("import erasurehead.torch as eht\neht.join()\nimport torch", False),
        ("import torch\nprint 'of another Python'", False),
        ("import torch\0", False),
    ],
)
def test_only_a_script_that_imports_torch_before_all_that_matters_is_forked(
    source: str, begins: bool, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(source)
    assert begins_with_torch([str(tmp_path / "train.py"), "--epochs", "3"]) == begins


@pytest.mark.parametrize(
    ("files", "module", "begins"),
    [
        ({"train.py": "import torch"}, "train", True),
        ({"a/__init__.py": "", "a/b/__init__.py": "import os", "a/b/train.py": "import torch"}, "a.b.train", True),
        ({"of/__init__.py": "from of import settings", "of/train.py": "import torch"}, "of.train", False),
        ({"of/__init__.py": "import torch", "of/train.py": "print()"}, "of.train", True),
        ({"of/__init__.py": "", "of/__main__.py": "import torch"}, "of", True),
        ({"of/train.py": "import torch"}, "of.train", False),  # a namespace, of which there may be more elsewhere
        ({}, "no_such_module", False),
    ],
)
def test_of_a_module_what_its_packages_do_comes_first(
    files: dict[str, str], module: str, begins: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, source in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)
    monkeypatch.chdir(tmp_path)
    assert begins_with_torch(["-m", module]) == begins
    assert not set(sys.modules) & {module, "of", "a", "a.b", "no_such_module"}

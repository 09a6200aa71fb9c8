"""Our own launcher: ranks that survive each other, and a defined end of everything."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ..bounded import PATIENCE, PROMPT

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="ranks beside each other need Linux"),
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.usefixtures("quick_start"),
]

JOIN = "from erasurehead.torch._launchers import started\njoined = started().say_joined"
"""What `join` does of itself to be known to the launcher; the rest needs PyTorch."""

BEGIN = """\
import os, signal, sys, time
rank = int(os.environ['RANK'])
def await_file(name):
    end = time.monotonic() + 250
    while not os.path.exists(name):
        assert time.monotonic() < end, name
        time.sleep(0.005)
def touch(name):
    open(name, 'w').close()
"""
"""How a script begins; ranks that have to wait for each other do so by files, whatever the machine's pace."""

COMMAND = [sys.executable, "-m", "erasurehead.torch.run"]


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., str]:
    def write(code: str, first: str = "") -> str:
        path = tmp_path / "train.py"
        path.write_text(f"{first}\n{BEGIN}\n{code}\n", encoding="utf-8")
        return str(path)

    return write


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_each_rank_is_told_who_it_is_and_lines_name_their_rank(script: Callable[[str], str]) -> None:
    names = "'RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR'.split()"
    line = f"' '.join(os.environ[n] for n in {names}) + f' {{sys.argv[1:]}}\\n'"
    path = script(f"sys.stdout.write({line})\nsys.stderr.write('half a line')")
    done = run("-n", "3", path, "--epochs", "3", "-n", "9")
    assert done.returncode == 0
    rest = "['--epochs', '3', '-n', '9']"
    assert sorted(done.stdout.splitlines()) == [f"[{n}] {n} 3 {n} 3 127.0.0.1 {rest}" for n in range(3)]
    said = done.stderr.splitlines()
    assert said.pop().startswith(
        "erasurehead.torch.run: no rank has called erasurehead.torch.join(): unless the script"
    )
    assert sorted(said) == [f"[{n}] half a line" for n in range(3)]
    first = run("-n", "2", "--output", "first", path)
    assert first.stdout == "0 2 0 2 127.0.0.1 []\n"
    assert sorted(first.stderr.splitlines()[:-1]) == ["[1] half a line", "half a line"]
    assert sorted(run("-n", "2", "--output", "plain", path).stdout.splitlines()) == [
        f"{n} 2 {n} 2 127.0.0.1 []" for n in range(2)
    ]


def test_ranks_of_several_hosts_and_modules(script: Callable[[str], str], tmp_path: Path) -> None:
    path = script("print(*(os.environ[n] for n in 'RANK WORLD_SIZE LOCAL_RANK MASTER_PORT ERASUREHEAD_TEAM'.split()))")
    done = run("-n", "1", "--of", "3", "--first", "2", "--contact", "host0:29500", path)
    assert done.stdout == "[2] 2 3 0 29500 host0:29500\n"
    module = run("-n", "1", "-m", "json.tool", "--help")
    assert "usage: python -m json.tool" in module.stdout


@pytest.mark.parametrize(
    ("code", "exit_code", "told"),
    [
        ("sys.exit(rank and 3)", 3, "rank 1 has ended with exit code 3 after"),
        ("rank == 1 and os.kill(os.getpid(), 9)\ntime.sleep(0.5)", 0, "rank 1 was killed by SIGKILL after"),
        ("os.kill(os.getpid(), 9)", 137, "no other runs here"),
        ("time.sleep(0.2 * rank)", 0, "no rank has called erasurehead.torch.join()"),
        (f"{JOIN}\nrank or joined()\ntime.sleep(0.2)", 0, "rank 1 has ended without calling erasurehead.torch.join()"),
        (f"{JOIN}\njoined()", 0, ""),
    ],
)
def test_exit_codes(script: Callable[[str], str], code: str, exit_code: int, told: str) -> None:
    done = run("-n", "2", script(code))
    assert done.returncode == exit_code
    assert told in done.stderr
    assert bool(done.stderr) == bool(told)


def test_a_rank_is_started_again_so_often_and_while_others_run(script: Callable[[str], str], tmp_path: Path) -> None:
    lives, told = tmp_path / "lives", tmp_path / "told"
    path = script(
        f"open({str(lives)!r}, 'a').write(f'{{rank}}\\n')\n"
        f"rank == 1 and os.kill(os.getpid(), 9)\n"
        f"await_file({str(told)!r})"
    )
    said = ""
    with subprocess.Popen(
        [*COMMAND, "-n", "2", "--restarts", "2", path], stderr=subprocess.PIPE, text=True
    ) as launcher:
        assert launcher.stderr is not None
        for line in launcher.stderr:
            said += line
            if "the other one goes on" in line:
                told.touch()
    assert launcher.returncode == 0
    assert sorted(lives.read_text().split()) == ["0", "1", "1", "1"]
    assert said.count("it is started again, and joins the others") == 2
    assert said.count("the other one goes on") == 1


def test_ranks_that_were_started_again_do_not_wait_for_each_other_when_all_that_had_the_model_have_died(
    script: Callable[..., str], tmp_path: Path
) -> None:
    path = script(
        "number = int(os.environ.get('ERASUREHEAD_NUMBER', rank))\n"
        f"os.chdir({str(tmp_path)!r})\n"
        "touch(f'{number} has begun')\n"
        "number == 2 and await_file('3 has begun')\n"  # and nobody has the model any more
        "import erasurehead.torch as eht\n"
        "team, model = eht.join(), torch.nn.Linear(2, 1)\n"
        "optimizer = team.optimizer(torch.optim.SGD(model.parameters(), lr=0.1), model)\n"
        "touch(f'{number} trains')\n"
        "await_file(('1 trains', '2 has begun')[rank])\nos.kill(os.getpid(), 9)",
        first="import torch",  # so that all four are forked
    )
    done = run("-n", "2", "--restarts", "2", path)
    assert done.stderr.count("it is started again, and joins the others") == 2
    assert done.stderr.count("was started to join a team of which nobody is there any more") == 2
    assert done.returncode == 1


@pytest.mark.parametrize(("ends", "code"), [("joined()", 1), ("", 0), ("joined(); sys.exit(3)", 3)])
def test_a_rank_that_begins_when_all_others_have_ended_trains_alone_unless_they_have_a_model(
    ends: str, code: int, script: Callable[[str], str]
) -> None:
    """Theirs, which they have saved perhaps, must not be replaced by what one rank makes of its own first weights."""
    path = script(
        f"if rank == 0:\n    {JOIN.replace(chr(10), '; ')}\n    {ends}\n    sys.exit(0)\n"
        "import torch\nimport erasurehead.torch as eht\n"
        "team, model = eht.join(), torch.nn.Linear(2, 1)\n"
        "team.optimizer(torch.optim.SGD(model.parameters(), lr=0.1), model)\n"
    )
    done = run("-n", "2", path)
    assert done.returncode == code
    told = (
        "Rank 1 began when the others had come to their end" if code == 1 else "All other ranks had ended when rank 1"
    )
    assert told in done.stderr


def test_who_runs_on_for_too_long_after_the_others_is_killed(script: Callable[[str], str]) -> None:
    begin = time.monotonic()
    done = run("-n", "3", "--patience", "1", script("rank and time.sleep(3600)"))
    assert time.monotonic() - begin < PROMPT
    assert done.returncode == 0
    assert done.stderr.count("runs on 1 s after others ended: it is killed") == 2


WAIT = "os.fork()\nos.write(1, f'{os.getpid()}\\n'.encode())\ntime.sleep(3600)"


def started(path: str, count: int = 4) -> tuple[subprocess.Popen[str], set[int]]:
    """Return a launcher of two ranks, and the numbers of so many processes that tell theirs."""
    launcher = subprocess.Popen([*COMMAND, "-n", "2", path], stdout=subprocess.PIPE, text=True)
    pids: set[int] = set()
    assert launcher.stdout is not None
    while len(pids) < count:
        pids |= {int(number) for number in re.findall(r"\] (\d+)$", launcher.stdout.readline())}
    return launcher, pids


def ended(pids: set[int]) -> bool:
    deadline = time.monotonic() + PROMPT
    while time.monotonic() < deadline:
        if not any(Path(f"/proc/{pid}").exists() and _state(pid) != "Z" for pid in pids):
            return True
        time.sleep(0.01)
    return False


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all(script: Callable[[str], str], number: int) -> None:
    launcher, pids = started(script(WAIT))
    with launcher:
        launcher.send_signal(number)
        assert launcher.wait(PROMPT) == 128 + number
        assert ended(pids)


def test_a_second_signal_ends_at_once_who_does_not_listen(script: Callable[[str], str]) -> None:
    hears = "signal.signal(signal.SIGTERM, lambda *_: os.write(1, b'heard\\n'))\n"
    launcher, pids = started(script(hears + WAIT))
    with launcher:
        assert launcher.stdout is not None
        launcher.terminate()
        heard = [launcher.stdout.readline().split()[-1] for _ in pids]
        assert heard == ["heard"] * len(pids)
        assert launcher.poll() is None
        launcher.terminate()
        assert launcher.wait(PROMPT) == 143
        assert ended(pids)


def test_ranks_end_with_a_launcher_that_is_killed(script: Callable[[str], str]) -> None:
    launcher, pids = started(script(WAIT.replace("os.fork()", "pass")), count=2)
    with launcher:
        launcher.kill()
        assert ended(pids)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-n", "0", "x"], "-n must be at least 1, but it is 0."),
        (["-n", "1", "--restarts", "-1", "x"], "--restarts must be at least 0, but it is -1."),
        (["-n", "1", "--patience", "-3", "x"], "--patience must be at least 0, but it is -3."),
        (["-n", "2", "no_such_file.py"], "there is no file 'no_such_file.py' to run; to run a module, give -m"),
        (["-n", "2", "--of", "4", "x"], "with ranks on other hosts, --contact must say where rank 0 is."),
        (["-n", "2", "--first", "2", "x"], "there are no ranks 2 to 3 among 2: give --of all ranks"),
        (["-n", "2", "--contact", "host", "x"], "such as host0:29500, but it is 'host'."),
    ],
)
def test_options_that_make_no_sense(words: list[str], told: str) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert told in done.stderr


def test_help_teaches() -> None:
    told = run("--help").stdout
    for word in ("a rank dies", "a rank hangs", "Ctrl-C", "exit codes", "128+s", "--restarts"):
        assert word in told

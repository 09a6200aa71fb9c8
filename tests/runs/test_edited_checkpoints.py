"""A checkpoint whose state was edited, and sealed again: it is refused in a sentence, or the run ends. Nothing else."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from erasurehead._internal.storage.sealed import sealed
from erasurehead.runs._checkpoints.manifests import FORMAT, KEY, VERSION

from ..bounded import in_time
from ..cli.shop import write_shop
from ..typed import typed

DATA = ("--data", "shop.csv", "--categorical", "-q", "--checkpoint-every", 1)
PEERS = (
    "consensus",
    *DATA,
    "--loss",
    "logistic",
    "--peers",
    4,
    "--graph",
    "ring()",
    "--steps",
    4,
    "--batch",
    8,
    "--no-against-full",
    "--no-pictures",
)
RUN = ("train", *DATA, "--engine", "virtual", "-w", 6, "-n", 4, "--delays", "exponential(mean=0.5)")
POLICIES = ("full()", "static(wait_for=1)", "dynamic()", "local()", "bounded_staleness()", "pairwise()")
ALGORITHMS = ("sgd()", "momentum()", "quasi_global()", "gradient_tracking()")
SCHEMES = ("uncoded()", "adaptive()", "erasurehead(load=2, wait_for=3)", "asynchronous()", "piag()", "rennala(batch=3)")

BASES: dict[str, tuple[object, ...]] = {
    **{policy: (*PEERS, "--policy", policy) for policy in POLICIES},
    **{algorithm: (*PEERS, "--policy", "dynamic()", "--algorithm", algorithm) for algorithm in ALGORITHMS},
    **{f"{scheme}, carry": (*RUN, "--scheme", scheme, "--late", "carry") for scheme in SCHEMES},
    "adaptive(), preempt": (*RUN, "--scheme", "adaptive()"),
}

VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    10**18,
    -(10**18),
    10**30,
    1.5,
    1e308,
    {"$float": "nan"},
    {"$float": "inf"},
    "x",
    "",
    [],
    {},
    [[]],
    {"a": 1},
    [1, 2, 3],
    {"$tensor": 0},
    {"$tensor": 10**6},
    {"$tensor": "x"},
    {"$tensor": []},
    {"$float": "x"},
    {"$float": []},
)


def places(tree: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where something is in nested lists and mappings: keys and indices."""
    if place:
        yield place
    for key in tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ():
        yield from places(tree[key], (*place, key))


def edit(tree: Any, chance: random.Random) -> None:
    """Change a state in one place: another type or value, a key or an item more or less, another order."""
    if not (found := list(places(tree))):
        return
    place = chance.choice(found)
    for key in place[:-1]:
        tree = tree[key]
    key, old = place[-1], tree[place[-1]]
    number = isinstance(old, int | float) and not isinstance(old, bool)
    acts: list[Callable[[], Any]] = [
        lambda: tree.__setitem__(key, chance.choice(VALUES)),
        lambda: tree.__delitem__(key),
    ]
    if number:
        acts += [lambda: tree.__setitem__(key, -old - 1), lambda: tree.__setitem__(key, old + chance.choice((-1, 1)))]
    if isinstance(old, dict):
        acts.append(lambda: old.update(extra=1))
    if isinstance(old, list) and old:
        acts += [old.pop, old.reverse, lambda: old.append(copy.deepcopy(old[-1]))]
    chance.choice(acts)()


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder, the current one, in which each run is made when it is first asked for."""
    folder, here = tmp_path_factory.mktemp("bases"), Path.cwd()
    os.chdir(folder)
    write_shop(folder / "shop.csv")
    yield folder
    os.chdir(here)


def gone_on(base: str, change: Callable[[Any], Any]) -> tuple[int, str]:
    """Go on with a run whose newest checkpoint was edited; return the exit code and the last line on stderr."""
    words = BASES[base]
    kept = Path(f"base-{list(BASES).index(base)}")
    if not kept.exists():
        assert typed(*words, "--out", kept).code == 0
    shutil.rmtree("run", ignore_errors=True)
    shutil.copytree(kept, "run")
    *older, newest = sorted(Path("run", "checkpoints").glob("step-*.json"))
    for path in older:
        path.unlink()
    body = json.loads(newest.read_text())[KEY]
    change(body)
    newest.write_bytes(sealed(FORMAT, VERSION, KEY, body))
    more: Sequence[object] = ("--no-pictures", "--no-against-full") if words[0] == "consensus" else ()
    with in_time():
        done = typed(words[0], "--resume", "run", "-q", "--steps", 7, *more)
    assert "Traceback" not in done.err
    return done.code, done.sentence


@pytest.mark.slow
@pytest.mark.parametrize("base", BASES)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(chance=st.randoms(use_true_random=False), edits=st.integers(1, 3), whole=st.booleans())
def test_an_edited_state_is_refused_in_a_sentence_or_the_run_ends(
    bases: Path, base: str, chance: random.Random, edits: int, whole: bool
) -> None:
    def change(body: Any) -> None:
        for _ in range(edits):
            edit(body if whole else body["state"], chance)

    code, said = gone_on(base, change)
    assert code in (0, 1, 2)
    assert code != 2 or said.startswith("erasurehead: ")


ENDLESS: list[tuple[str, str, Any]] = [
    ("dynamic()", "training.clock.total", -(10**12)),
    ("dynamic()", "training.evaluations", -(10**12)),
    ("dynamic()", "training.clock.time", {"$float": "nan"}),
    ("dynamic()", "training.clock.steps", [-(10**12)] * 4),
    ("dynamic()", "training.clock.heap", [{"tuple": [{"$float": "nan"}, 2, 1, 0, 1]}]),
    ("dynamic()", "training.joint.parents", [1, 2, 0, 0]),
    ("dynamic()", "training.orphaned", [0, "gradient", 2]),
    ("dynamic()", "training.orphaned", ["0"]),
    ("dynamic()", "training.orphaned", [1]),
    ("dynamic()", "training.orphaned", [0, 1, 2, 3, 4]),
    ("dynamic()", "training.orphaned", {}),
    ("dynamic()", "training.shares", [[0, 1], [2], [3], [4]]),
    ("dynamic()", "training.shares", ["x"]),
    ("dynamic()", "training.joint.since", "x"),
    ("dynamic()", "training.joint.steps", "x"),
    ("dynamic()", "training.joint.windows", [{"tuple": ["x", 1, 1]}]),
    ("dynamic()", "training.first_objective", "0.5"),
    ("dynamic()", "training.clock.gone", [4]),
    ("dynamic()", "training.clock.gone", {"set": [4]}),
    ("dynamic()", "training.clock.gone", {"set": ["x"]}),
    ("dynamic()", "training.clock.known_gone", {"set": [-1]}),
    ("dynamic()", "training.clock.sides", {"tuple": [{"set": [0, "x"]}, {"set": [1]}]}),
    ("dynamic()", "training.clock.known_sides", {"tuple": [{"set": ["x"]}]}),
    ("dynamic()", "training.clock.views", [{"tuple": [1, {"set": ["x"]}, {"tuple": []}]}]),
    ("dynamic()", "training.clock.pending", [7]),
    ("dynamic()", "training.clock.unsettled", [-1]),
    ("dynamic()", "training.clock.models", ["x", None, None, None]),
    ("full()", "training.clock.peers.0.attributes", {}),
    ("full()", "training.clock.peers.0.attributes.rejoining", []),
    ("adaptive(), preempt", "optimizer.step", -(10**12)),
    ("adaptive(), preempt", "elapsed", {"$float": "nan"}),
    ("adaptive(), preempt", "engine", "x"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("base", "place", "value"), ENDLESS, ids=[f"{base} {place}" for base, place, _ in ENDLESS])
def test_a_state_that_no_run_can_have_is_refused(bases: Path, base: str, place: str, value: Any) -> None:
    def change(body: Any) -> None:
        tree, (*above, last) = body["state"], [int(key) if key.isdigit() else key for key in place.split(".")]
        for key in above:
            tree = tree[key]
        assert tree[last] != value
        tree[last] = value

    code, said = gone_on(base, change)
    assert code == 2
    assert said.startswith("erasurehead: ")
    assert place.startswith(("optimizer", "engine")) or "The checkpoint does not fit this run" in said

"""State that is declared: what is saved, what comes back, and what is refused."""

from __future__ import annotations

import json
import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from erasurehead._internal.resumable import Resumable, to_plain
from erasurehead._internal.state_json import decode, encode
from erasurehead._internal.storage.sealed import Unfit
from erasurehead.errors import InvalidArgument


@dataclass(frozen=True)
class Slice:
    tasks: tuple[int, ...]
    loss: float


class Inner(Resumable):
    checkpointed = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Base(Resumable):
    checkpointed = ("step", "inner")

    def __init__(self) -> None:
        self.step = 0
        self.inner: Inner | None = Inner()


class Everything(Base):
    checkpointed = (
        "level",
        "exact",
        "why",
        "best",
        "x",
        "pair",
        "parts",
        "due",
        "ages",
        "hosts",
        "deaths",
        "seen",
        "_hidden",
    )
    records = (Slice,)

    def __init__(self) -> None:
        super().__init__()
        self.level = math.inf
        self.exact = True
        self.why = ""
        self.best: tuple[int, NDArray[Any]] | None = None
        self.x = np.zeros(3)
        self.pair: tuple[int, float] = (0, 0.0)
        self.parts: dict[tuple[int, int], list[Slice]] = {}
        self.due = deque[int](maxlen=3)
        self.ages = defaultdict[int, set[int]](set)
        self.hosts = OrderedDict[str, int]()
        self.deaths = Counter[int]()
        self.seen = {1}
        self._hidden = 0
        self.other = 5


def changed() -> Everything:
    one = Everything()
    assert one.inner is not None
    one.step, one.inner.count, one.level, one.exact, one.why = 7, 2, np.float64(0.1), False, "so"
    one.best, one.x, one.pair = (3, np.arange(2.0)), np.array([1.0, math.nan, -0.0]), (1, 0.5)
    one.parts = {(1, 2): [Slice((1,), 0.5)], (0, 3): []}
    one.due.extend((1, 2))
    one.ages[3].add(5)
    one.hosts["b"], one.hosts["a"] = 1, 2
    one.deaths[4] += 2
    one.seen, one.other = {9, 3}, 6
    return one


def saved(state: Mapping[str, Any]) -> Any:
    """A state as it is read back from a checkpoint."""
    tensors: dict[int, NDArray[Any]] = {}

    def refer(array: NDArray[Any]) -> int:
        tensors[len(tensors)] = array
        return len(tensors) - 1

    return decode(json.loads(json.dumps(encode(state, refer))), tensors)


@pytest.mark.parametrize("way", [saved, dict], ids=["saved", "in memory"])
def test_whatever_is_declared_comes_back_as_it_was(way: Any) -> None:
    one, other = changed(), Everything()
    other.restore(way(one.state()))
    for name, value in vars(one).items():
        got = getattr(other, name)
        if name in ("x", "inner", "best", "other"):
            continue
        assert got == value
        assert type(got) is type(value) or name == "level"
    assert other.inner is not None
    assert one.best is not None
    assert other.best is not None
    assert (other.inner.count, other.other, other.due.maxlen, other.ages[9]) == (2, 5, 3, set())
    assert list(other.hosts) == ["b", "a"]
    assert other.x.tobytes() == one.x.tobytes()
    assert (other.best[0], other.best[1].tobytes()) == (3, one.best[1].tobytes())


@pytest.mark.parametrize("way", [saved, dict], ids=["saved", "in memory"])
def test_a_whole_number_that_became_a_float_comes_back_as_that(way: Any) -> None:
    one, other = Everything(), Everything()
    one.step, one.pair = 0.25, (1.5, 2.0)  # type: ignore[assignment]
    other.restore(way(one.state()))
    assert (other.step, other.pair) == (0.25, (1.5, 2.0))


class Anything(Resumable):
    checkpointed = ("it",)

    def __init__(self, it: Any) -> None:
        self.it = it


KINDS: list[tuple[Any, Any]] = [
    (np.bool_(False), np.bool_(True)),
    (np.str_("a"), np.str_("b")),
    (np.float32(0), np.float32(0.1)),
    (np.float64(0), np.float64(0.1)),
    (np.int32(0), np.int32(7)),
    (frozenset(), frozenset({2, "b", (1, 2)})),
    ({}, {1: {"b", 2}, 2: frozenset({(1, 2)}), frozenset({3}): [{4}]}),
]


@pytest.mark.parametrize(("begun", "later"), KINDS)
def test_numbers_of_numpy_and_sets_within_sets_come_back_as_what_they_were(begun: Any, later: Any) -> None:
    one = Anything(begun)
    one.restore(saved(Anything(later).state()))
    assert one.it == later
    assert type(one.it) is type(later)
    if isinstance(later, dict):
        one.it[1].add(3)
        one.it[frozenset({3})][0].add(3)
        assert {type(value) for value in one.it.values()} == {set, frozenset, list}


def test_a_record_that_is_not_declared_is_refused_when_it_is_saved() -> None:
    with pytest.raises(
        InvalidArgument, match=r"must name in `records` whatever dataclasses .* Slice\(tasks=\(\), loss=0.5\)"
    ):
        Anything([{"a": Slice((), 0.5)}]).state()


def test_a_state_does_not_change_with_its_object() -> None:
    one = changed()
    before = json.dumps(encode(state := one.state(), id))
    one.due.append(9)
    one.parts[0, 3].append(Slice((), 0.0))
    one.ages[3].add(6)
    one.seen.clear()
    assert json.dumps(encode(state, id)) == before


def test_names_of_keys_are_those_of_the_attributes() -> None:
    keys = "step inner level exact why best x pair parts due ages hosts deaths seen hidden"
    assert list(Everything().state()) == keys.split()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("step", True),
        ("step", "1"),
        ("level", "x"),
        ("level", False),
        ("exact", 1),
        ("why", 0),
        ("x", np.zeros(2)),
        ("x", np.zeros(3, dtype=np.int64)),
        ("x", [0.0, 0.0, 0.0]),
        ("pair", [1, 0.5]),
        ("pair", {"tuple": [1]}),
        ("pair", {"tuple": [0.5, True]}),
        ("due", {"tuple": []}),
        ("ages", []),
        ("seen", {"map": []}),
        ("deaths", {"set": []}),
    ],
)
def test_another_kind_is_refused_in_a_clause(name: str, value: Any) -> None:
    with pytest.raises(
        Unfit, match=f"^'{name}' is of another kind than the [A-Za-z]+ as which it begins; what begins as"
    ):
        Everything().restore({**changed().state(), name: value})


@pytest.mark.parametrize("parts", [{"map": [[1]]}, {"what": []}, {"map": 3}, {}, {"map": [[1, {"Slice": [1]}]]}])
def test_what_was_never_saved_is_an_error_that_checkpoints_refuse(parts: Any) -> None:
    with pytest.raises((LookupError, TypeError, ValueError)):
        Everything().restore({**changed().state(), "parts": parts})


def test_a_record_that_is_not_declared_is_not_built() -> None:
    with pytest.raises(LookupError):
        Inner().restore({"count": {"Slice": [[], 0.0]}})


@dataclass(frozen=True)
class Named:
    """A record with a field that only a keyword gives."""

    tasks: tuple[int, ...]
    loss: float = field(default=0.0, kw_only=True)


def test_no_field_of_a_record_is_left_out_of_a_state() -> None:
    assert to_plain(Named((1,), loss=2.0), (Named,)) == {"Named": [to_plain((1,)), 2.0]}

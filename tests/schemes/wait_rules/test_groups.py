"""When each group of equal messages is there, and the last of them, over whole rounds at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.codes import fractional_repetition
from erasurehead.schemes.wait_rules._group_arrival_times import ReplicaGroups


@given(
    seed=st.integers(0, 1000),
    rounds=st.integers(0, 5),
    n_groups=st.one_of(st.integers(1, 70), st.just(20_000)),
    replicas=st.integers(1, 5),
    contiguous=st.booleans(),
)
def test_the_first_of_each_group_and_the_last_of_those(
    seed: int, rounds: int, n_groups: int, replicas: int, contiguous: bool
) -> None:
    rng = np.random.default_rng(seed)
    times = rng.exponential(size=(rounds, n_groups * replicas))
    times[rng.random(times.shape) < 0.1] = np.inf
    given_as = times if contiguous else np.asfortranarray(times)
    groups = ReplicaGroups(fractional_repetition(n_groups * replicas, replicas))
    before = given_as.copy()
    earliest = groups.earliest(given_as)
    expected = times.reshape(rounds, n_groups, replicas).min(axis=2)
    assert (earliest == expected).all()
    last = groups.complete(earliest)
    assert (last == expected.max(axis=1)).all()
    assert not np.shares_memory(last, given_as)
    assert (given_as == before).all()


@pytest.mark.parametrize("replicas", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize(("rounds", "n_groups"), [(1024, 10), (1100, 7), (2000, 1)])
def test_many_rounds_of_few_workers_are_compared_by_machine_code(rounds: int, n_groups: int, replicas: int) -> None:
    rng = np.random.default_rng(replicas)
    times = rng.exponential(size=(rounds, n_groups * replicas))
    times[rng.random(times.shape) < 0.1] = np.inf
    before = times.copy()
    groups = ReplicaGroups(fractional_repetition(n_groups * replicas, replicas))
    expected = times.reshape(rounds, n_groups, replicas).min(axis=2)
    assert (groups.earliest(times) == expected).all()
    assert (groups.complete(groups.earliest(times)) == expected.max(axis=1)).all()
    assert (times == before).all()

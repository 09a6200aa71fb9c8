"""When each group of equal messages is there, and the last of them, over whole rounds at once."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from erasurehead.codes import fractional_repetition
from erasurehead.schemes.wait_rules.replica_groups import ReplicaGroups


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

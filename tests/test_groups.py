"""Tests of one group run in one process, where they share what is dear."""

from __future__ import annotations

import pytest

from .conftest import group_of


@pytest.mark.xdist_group("some group")
def test_a_group_is_named_where_it_is_looked_for(request: pytest.FixtureRequest) -> None:
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("the tests are not dealt out in groups")
    assert request.node.nodeid.endswith("@some group")


@pytest.fixture(scope="module")
def shared() -> object:
    return object()


@pytest.mark.usefixtures("shared")
def test_what_is_made_once_for_a_module_is_made_in_one_process(request: pytest.FixtureRequest) -> None:
    assert group_of(request.node) == __name__


def test_tests_of_no_group_keep_their_names(request: pytest.FixtureRequest) -> None:
    assert "@" not in request.node.nodeid

"""Policies: which neighbours a peer waits for before it mixes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from erasurehead._internal.text_parser import read_or_keep
from erasurehead.consensus._policies.base import Policy as Policy
from erasurehead.consensus._policies.dynamic import Dynamic as Dynamic
from erasurehead.consensus._policies.full import Full as Full
from erasurehead.consensus._policies.pairwise import Pairwise as Pairwise
from erasurehead.consensus._policies.rendezvous import (
    Local as Local,
    RendezvousPeer as RendezvousPeer,
    Static as Static,
)
from erasurehead.consensus._policies.stale import BoundedStaleness as BoundedStaleness

POLICIES: Mapping[str, Callable[..., Policy]] = {
    "full": Full,
    "static": Static,
    "dynamic": Dynamic,
    "local": Local,
    "bounded_staleness": BoundedStaleness,
    "pairwise": Pairwise,
}
"""The class for each name in the text of a policy."""


def parse_policy(text: str | Policy) -> Policy:
    """Return the policy that a text stands for, such as `"static(wait_for=2)"`, or a policy as it is.

    Raises:
        InvalidArgument: if the text is not a policy, or an argument is out of its range.
    """
    return read_or_keep(text, "policy", Policy, POLICIES)

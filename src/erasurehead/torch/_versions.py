"""Versions of a team's model: what is told of one, and those that a rank keeps."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, TypeAlias, final

from erasurehead._internal.arrays import Array

_MOST_BEHIND = 2  # versions that are kept for a script that must follow each; who is further behind asks for all

_MOST_KEPT = 1 << 26  # bytes of versions before these that are kept, too, as those who have the model may die

Name: TypeAlias = tuple[int, int]
"""Of a version of the team's model: the term in which it was closed, and its number."""


class KnownVersion(NamedTuple):
    """What a rank was told of a version.

    Attributes:
        name: of the version.
        after: the term of the version that it follows.
        vector: what was told; it must not be changed, and is not by anybody.
    """

    name: Name
    after: int
    vector: Array


@final
class Version(NamedTuple):
    """A version of the team's model that was closed.

    Attributes:
        version: its number, from 1.
        term: in which it was closed; versions of a later term replace those of earlier ones with the same number.
        seconds: when it was closed, by the clock of who gathers.
        gathered_by: the rank that gathered it.
        steps: by rank, how many of its steps are in it.
        members: the ranks that made steps then.
        residual: with a code, what it lacks of the whole gradient, in tasks: 0 is exact.
    """

    version: int
    term: int
    seconds: float
    gathered_by: int
    steps: dict[int, int]
    members: tuple[int, ...]
    residual: float | None = None


@final
class KnownVersions:
    """The newest versions that a rank was told of; false if there are none.

    Arguments:
        each: whether a script must follow each of them, and those before are kept until it has.

    Attributes:
        followed: the version that the script followed last.
        bereft: whether ranks have gone, who may have been the only ones with the newest model.
    """

    def __init__(self, each: bool) -> None:
        self.followed: Name = (0, -1)
        self.bereft = False
        self._each = each
        self._newest: deque[KnownVersion] = deque()
        self._behind: deque[KnownVersion] = deque()  # before these, and not yet followed by the script

    def __bool__(self) -> bool:
        return bool(self._newest)

    @property
    def latest(self) -> KnownVersion:
        """The newest of them."""
        return self._newest[-1]

    def add(self, version: KnownVersion, all_stay: bool) -> None:
        """Keep one more, and all of them or as many as the script may be behind."""
        self._newest.append(version)
        while not all_stay and len(self._newest) > (_MOST_BEHIND if self._each else 1):
            oldest = self._newest.popleft()
            if self._each and oldest.name > self.followed:
                self._behind.append(oldest._replace(vector=oldest.vector.copy()))
                if len(self._behind) > max(4, _MOST_KEPT // version.vector.nbytes):
                    self._behind.popleft()

    def following(self, name: Name) -> list[KnownVersion] | None:
        """Return all after one that the script has followed, in their order; None if they are not all here."""
        while self._behind and self._behind[0].name <= name:
            self._behind.popleft()
        self.followed = name
        every = (*self._behind, *self._newest) if self.bereft else self._newest
        found = [version for version in every if version.name > self.followed]
        for version in found:
            if version.name[1] and (version.after, version.name[1] - 1) != name:
                return None
            name = version.name
        return found

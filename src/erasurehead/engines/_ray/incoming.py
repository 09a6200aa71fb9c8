"""What comes from actors: first that there is something, then the thing itself, which may have a way to go."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any

from erasurehead.engines._ray.actor import Item
from erasurehead.engines._ray.handle import Handle

_SLICE = 0.002
"""Seconds between two looks while a message is on its way from another machine."""

Found = dict[Handle, Item | Exception | None]
"""For each actor an item of its stream, the error that came instead, or None at the end of the stream."""


class Incoming:
    """Waits for actors, for all of them at once.

    Were Ray asked to wait until messages are *here*, it would settle for one that is announced, and look at no other
    until that has crossed: a slow network would hold up the fast workers. So announcements are waited for, and what
    was announced is looked for by and by.

    Arguments:
        ray: the library, connected.

    Attributes:
        node: number of the node that this process is on.
    """

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self.node: str = ray.get_runtime_context().get_node_id()

    def wait(self, handles: Collection[Handle], seconds: float) -> tuple[list[Handle], Found]:
        """Wait until there is something, at most so many seconds.

        Returns:
            Actors that have taken their order and are due for a newer one; and what has come.
        """
        streams = {one.stream: one for one in handles if one.stream is not None and one.coming is None}
        taken = {one.sent: one for one in handles if one.sent is not None and one.ready}
        on_their_way = any(one.coming is not None for one in handles)
        pause = min([seconds, *(one.wait() for one in handles)])
        ready = self._announced([*streams, *taken], min(pause, _SLICE) if on_their_way else pause)
        items: Found = {}
        announced = [streams[one] for one in ready if one in streams]
        for handle in announced:
            handle.coming = next(handle.stream, None)
            if handle.coming is None:
                items[handle] = None
        items |= self._fetch(self._here([one for one in handles if one.coming is not None]))
        return [taken[one] for one in ready if one in taken], items

    def _announced(self, watched: list[Any], seconds: float) -> list[Any]:
        if not watched:
            time.sleep(seconds)
            return []
        ready, rest = self._ray.wait(watched, num_returns=1, timeout=seconds, fetch_local=False)
        if ready and rest:
            ready += self._ray.wait(rest, num_returns=len(rest), timeout=0, fetch_local=False)[0]
        return ready

    def _here(self, handles: list[Handle]) -> list[Handle]:
        """Return those whose message is on this machine; ask for the others'."""
        near = [one for one in handles if one.home is not None and one.home.node == self.node]
        far = {one.coming: one for one in handles if one not in near}
        if far:
            near += [far[one] for one in self._ray.wait([*far], num_returns=len(far), timeout=0)[0]]
        return near

    def _fetch(self, handles: Sequence[Handle]) -> Found:
        """Take what has come for each of these."""
        references = [one.coming for one in handles]
        for handle in handles:
            handle.coming = None
        try:
            return dict(zip(handles, self._ray.get(references), strict=True))  # all at once is a lot faster
        except self._ray.exceptions.RayError:
            return {handle: self._one(one) for handle, one in zip(handles, references, strict=True)}

    def _one(self, reference: Any) -> Item | Exception:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return error

"""Peers for tests of message passing: they do not learn, but record in their models what happened to their messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from erasurehead.consensus import Policy
from erasurehead.consensus._contract import Message
from erasurehead.consensus._peers import LocalPeer, Setup

from ..arrays import Array

MESSAGES = 200
"""Number of messages of each kind that `_Flooding` sends at once."""

NUMBERS = 30_000
"""Number of numbers in the long message of `_Flooding`."""

ROUNDS = 60
"""Number of messages of `_PingPong`."""


class _Observing(LocalPeer):
    """A peer whose model has its observations, in the order of `FIELDS`, padded with zeros to (n_parameters,)."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.observations = np.zeros(len(setup.x))

    @property
    def model(self) -> Array:
        return self.observations

    def observe(self, **observations: float) -> None:
        """Record observations, in a new array, as models must not be changed in place."""
        self.observations = self.observations.copy()
        for name, value in observations.items():
            self.observations[FIELDS.index(name)] = value

    def observed(self, name: str) -> float:
        """Return a recorded observation."""
        return float(self.observations[FIELDS.index(name)])

    def offer(self) -> None:
        return

    def on_message(self, sender: int, message: Message) -> None:
        return

    def settle(self) -> None:
        return


FIELDS = ("controls", "disorder", "vectors", "newest", "torn", "whole")
"""Names of the first elements of these peers' models: numbers of control messages, of messages out of order and of
vectors that arrived, the newest vector, the number of vectors with mixed contents, and whether the long message arrived
undamaged."""


class _Flooding(_Observing):
    """Peer 0 sends many messages at once, and peer 1 records which of them arrive; each takes a single step."""

    def offer(self) -> None:
        if self.peer == 0 and not self.steps:
            for number in range(1, MESSAGES + 1):
                self.port.send(1, Message("control", number))
                self.port.send(1, Message("vector", number, (), np.full(len(self.observations), float(number))))
            self.port.send(1, Message("long", 0, tuple(range(NUMBERS))))
            self.finish((), self.steps)

    def on_message(self, sender: int, message: Message) -> None:
        if message.vector is not None:
            disorder = message.round <= self.observed("newest")
            self.observe(
                vectors=self.observed("vectors") + 1,
                newest=message.round,
                disorder=self.observed("disorder") + disorder,
                torn=self.observed("torn") + bool((message.vector != message.round).any()),
            )
        elif message.tag == "control":
            self.observe(
                controls=self.observed("controls") + 1,
                disorder=self.observed("disorder") + (message.round != self.observed("controls") + 1),
            )
        else:
            self.observe(whole=float(message.data == tuple(range(NUMBERS))))

    def settle(self) -> None:
        if self.peer == 1 and self.ready is not None and not self.steps and self.observed("whole"):
            self.finish((), self.steps)


class _PingPong(_Observing):
    """Two peers that answer each other's messages many times within a single step."""

    def offer(self) -> None:
        if self.peer == 0 and not self.steps:
            self.port.send(1, Message("ping", 1))

    def on_message(self, sender: int, message: Message) -> None:
        self.observe(controls=message.round)
        if message.round < ROUNDS:
            self.port.send(sender, Message("pong", message.round + 1))

    def settle(self) -> None:
        if self.ready is not None and not self.steps and self.observed("controls") >= ROUNDS - 1:
            self.finish((), self.steps)


class _Raising(_Observing):
    """Peer 1 raises in its second step."""

    def offer(self) -> None:
        if self.steps and self.peer == 1:
            raise ArithmeticError("peer 1 cannot go on")
        self.finish((), self.steps)


@dataclass(frozen=True)
class Scripted(Policy):
    """A policy whose peers follow a script: one of `flood`, `ping_pong`, `raising`."""

    script: str
    kinds: ClassVar[dict[str, Callable[[Setup], Any]]] = {
        "flood": _Flooding,
        "ping_pong": _PingPong,
        "raising": _Raising,
    }

    def peer(self, setup: Setup) -> LocalPeer:
        return self.kinds[self.script](setup)

    def __str__(self) -> str:
        return f"scripted(script={self.script!r})"

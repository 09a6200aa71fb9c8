"""Peers that do not learn, but report in their models what happened to their messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.consensus.contract import Message
from erasurehead.consensus.peers import LocalPeer, Setup
from erasurehead.consensus.policies import Policy

MESSAGES = 200
"""Number of messages that `_Flooding` sends at once."""

NUMBERS = 30_000
"""Numbers in one message of `_Flooding`."""

ROUNDS = 60
"""Rounds of `_PingPong`."""


class _Telling(LocalPeer):
    """A peer whose model is what it has observed, shape (n_parameters,), padded with zeros."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.seen = np.zeros(len(setup.x))

    @property
    def model(self) -> Array:
        return self.seen

    def note(self, **what: float) -> None:
        """Record an observation, in a new array, as models must not change."""
        self.seen = self.seen.copy()
        for name, value in what.items():
            self.seen[FIELDS.index(name)] = value

    def told(self, name: str) -> float:
        """Return a recorded observation."""
        return float(self.seen[FIELDS.index(name)])

    def offer(self) -> None:
        return

    def on_message(self, sender: int, message: Message) -> None:
        return

    def settle(self) -> None:
        return


FIELDS = ("words", "disorder", "vectors", "newest", "torn", "whole")
"""Names of the first elements of these peers' models."""


class _Flooding(_Telling):
    """Peer 0 sends many messages at once, and peer 1 reports what arrived; each takes a single step."""

    def offer(self) -> None:
        if self.peer == 0 and not self.steps:
            for number in range(1, MESSAGES + 1):
                self.port.send(1, Message("word", number))
                self.port.send(1, Message("vector", number, (), np.full(len(self.seen), float(number))))
            self.port.send(1, Message("long", 0, tuple(range(NUMBERS))))
            self.finish((), self.steps)

    def on_message(self, sender: int, message: Message) -> None:
        if message.vector is not None:
            disorder = message.round <= self.told("newest")
            self.note(
                vectors=self.told("vectors") + 1, newest=message.round, disorder=self.told("disorder") + disorder,
                torn=self.told("torn") + bool((message.vector != message.round).any()),
            )  # fmt: skip
        elif message.tag == "word":
            self.note(words=self.told("words") + 1, disorder=self.told("disorder") + (
                message.round != self.told("words") + 1))  # fmt: skip
        else:
            self.note(whole=float(message.data == tuple(range(NUMBERS))))

    def settle(self) -> None:
        if self.peer == 1 and self.ready is not None and not self.steps and self.told("whole"):
            self.finish((), self.steps)


class _PingPong(_Telling):
    """Two peers that wait for each other's words, many times within a single step."""

    def offer(self) -> None:
        if self.peer == 0 and not self.steps:
            self.port.send(1, Message("ping", 1))

    def on_message(self, sender: int, message: Message) -> None:
        self.note(words=message.round)
        if message.round < ROUNDS:
            self.port.send(sender, Message("pong", message.round + 1))

    def settle(self) -> None:
        if self.ready is not None and not self.steps and self.told("words") >= ROUNDS - 1:
            self.finish((), self.steps)


class _Raising(_Telling):
    """A peer that fails in its second step."""

    def offer(self) -> None:
        if self.steps and self.peer == 1:
            raise ArithmeticError("peer 1 cannot go on")
        self.finish((), self.steps)


@dataclass(frozen=True)
class Scripted(Policy):
    """Peers that follow a script: one of `flood`, `ping_pong`, `raising`."""

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

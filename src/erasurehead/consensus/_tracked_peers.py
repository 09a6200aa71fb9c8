"""Trackers as callbacks of runs of peers."""

from __future__ import annotations

from typing import final

from erasurehead.consensus._plans import ConsensusPlan
from erasurehead.consensus._rows import MeanRow, PeerRow, ViewChangeRow
from erasurehead.consensus._training_options import ConsensusCallback
from erasurehead.errors import listed
from erasurehead.trackers import Tracker
from erasurehead.trackers._tracked_run import Point
from erasurehead.trackers._tracker import measured
from erasurehead.training import Notice


@final
class TrackedPeers(ConsensusCallback):
    """Tells a tracker of a run without a coordinator, at each evaluation of the mean model.

    Arguments:
        tracker: the tracker.
    """

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self.own_notices, self.on_notice = tracker.own_notices, tracker.on_notice
        self._turns: list[PeerRow] = []

    def on_begin(self, plan: ConsensusPlan, steps: int) -> None:
        policy = str(plan.policy)
        self._tracker.begin(policy, {"policy": policy, "graph": str(plan.graph), "steps": str(steps)})

    def on_step(self, row: PeerRow) -> None:
        self._turns.append(row)

    def on_mean(self, row: MeanRow) -> None:
        values = {"objective": row.objective, "distance": row.distance, "seconds": row.time, "peers": row.peers}
        if turns := self._turns:
            values["waited"] = sum(turn.end - turn.ready for turn in turns) / len(turns)
            values["links"] = sum(len(turn.links) for turn in turns) / len(turns)
        self._turns = []
        self._tracker.show(Point(row.step, row.time, {**values, **measured(row.metrics)}))

    def on_view_change(self, row: ViewChangeRow) -> None:
        self.on_notice(gone(row))

    def on_done(self, status: str) -> None:
        if not self._tracker.has_folder:  # otherwise, what is in it is not complete yet
            self._tracker.end(status)


def gone(row: ViewChangeRow) -> Notice:
    """Return a change of the network as a notice."""
    return Notice("died", data={"workers": row.gone}, text=f"peers that are gone: {listed(row.gone)}", time=row.time)

"""The records of a run without a coordinator while it is running, whatever runs its peers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.consensus.conduct import Conduct
from erasurehead.consensus.joint import JointConnectivity
from erasurehead.consensus.plans import ConsensusPlan
from erasurehead.consensus.result import ConsensusRun, distance_of
from erasurehead.consensus.rows import MeanRow, PeerRow, TroubleRow
from erasurehead.consensus.shares import Holdings
from erasurehead.consensus.views import View
from erasurehead.errors import Diverged
from erasurehead.training.notices import Notice

_WINDOW = 100
"""Steps per peer after which a union of graphs that is not connected is reported."""


@final
class RunRecords:
    """Rows, evaluations of the mean model, faults, and the current holders of samples.

    Arguments:
        made: the plan.
        conduct: what to keep, and which hooks watch.

    Attributes:
        run: the run that is returned at the end.
        holdings: the samples of each peer.
        joint: when the union of the realised graphs was connected.
    """

    def __init__(self, made: ConsensusPlan, conduct: Conduct) -> None:
        self.made, self.conduct = made, conduct
        self.holdings = Holdings(made.graph, made.shares, made.orphans)
        self.joint = JointConnectivity(made.graph.n_peers)
        self.run = ConsensusRun(str(made.policy), made.graph, np.empty((0, 0)), [], joint=self.joint)
        self._said = False

    def begin(self) -> None:
        """Tell the watchers that training begins."""
        for watcher in self.conduct.watchers:
            watcher.on_begin(self.made, self.conduct.steps)

    def step(self, row: PeerRow) -> None:
        """Record a step of a peer; steps are reported in the order in which they ended."""
        if row.links:
            self.joint.add(row.peer, row.links, row.end)
        if self.conduct.records:
            self.run.rows.append(row)
        for watcher in self.conduct.watchers:
            watcher.on_step(row)

    def look(self, models: Array, steps: int, time: float) -> MeanRow:
        """Evaluate the mean model.

        Arguments:
            models: models of the present peers, shape (n, n_parameters).
            steps: total number of steps of all peers.
            time: seconds since training began.

        Raises:
            Diverged: if it, its objective or its distance from the peers' models is not finite.
        """
        mean, problem, n_peers = models.mean(axis=0), self.made.problem, self.made.graph.n_peers
        finite = np.isfinite(mean).all()
        objective, distance = (problem.objective(mean), distance_of(models)) if finite else (np.nan, np.nan)
        if not np.isfinite([objective, distance]).all():
            raise Diverged("The peers' models are no longer finite: the rate is too large.")
        measured = problem.metrics(mean) if self.conduct.metrics else {}
        row = MeanRow(steps / n_peers, time, objective, distance, measured, len(models))
        self.run.means.append(row)
        for watcher in self.conduct.watchers:
            watcher.on_mean(row)
        if not self._said and self.joint.open_steps > _WINDOW:
            self._said = True
            text = (
                f"In the last {_WINDOW} steps, the links in use have not connected all peers: some learn nothing from"
                " the data of others. Wait for more neighbours."
            )
            self.notice(Notice("not_connected", data={"steps": _WINDOW}, text=text, time=time))
        return row

    def notice(self, notice: Notice) -> None:
        """Pass a notice to the watchers."""
        for watcher in self.conduct.watchers:
            watcher.on_notice(notice)

    def trouble(
        self,
        time: float,
        gone: frozenset[int],
        sides: Sequence[frozenset[int]],
        noticed: Sequence[tuple[int, int, float]] = (),
    ) -> bool:
        """Record which peers are gone now, and cuts; return whether samples have changed hands.

        Arguments:
            time: when it was first noticed.
            gone: all peers that are gone.
            sides: the sides of a cut.
            noticed: which neighbour noticed which peer's death, and when.
        """
        moved = self.holdings.change(gone)
        self.joint.change(self.made.graph.n_peers - len(gone), time)
        shares = "" if not gone else "taken over" if self.made.orphans == "taken over" else "out"
        knitted = View(self.made.graph, gone, tuple(sides)).knitted
        row = TroubleRow(time, sorted(gone), [sorted(side) for side in sides], [list(link) for link in knitted], shares,
                         list(noticed))  # fmt: skip
        self.run.troubles.append(row)
        for watcher in self.conduct.watchers:
            watcher.on_trouble(row)
        return moved

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs, as plain data."""
        return {**self.holdings.state(), "joint": self.joint.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.holdings.restore(state)
        self.joint.restore(state["joint"])

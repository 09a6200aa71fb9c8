"""What is written down of a run without a coordinator while it goes on, whatever runs its peers."""

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
"""Steps a peer after which it is said that the union of the graphs is still not connected."""


@final
class RunRecords:
    """Rows, looks at the mean model, troubles, and whose data are whose by now.

    Arguments:
        made: the plan.
        conduct: what is to be kept, and who watches.

    Attributes:
        run: what is returned at the end.
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
        """Tell those who watch that training begins."""
        for watcher in self.conduct.watchers:
            watcher.on_begin(self.made, self.conduct.steps)

    def step(self, row: PeerRow) -> None:
        """Record a step of a peer; steps are told in the order in which they ended."""
        if row.links:
            self.joint.add(row.peer, row.links, row.end)
        if self.conduct.records:
            self.run.rows.append(row)
        for watcher in self.conduct.watchers:
            watcher.on_step(row)

    def look(self, models: Array, steps: int, time: float) -> MeanRow:
        """Look at the mean model.

        Arguments:
            models: of those who are there, shape (n, n_parameters).
            steps: of all peers together.
            time: seconds since training began.

        Raises:
            Diverged: if it is not finite.
        """
        mean = models.mean(axis=0)
        if not np.isfinite(mean).all():
            raise Diverged("The peers' models are no longer finite: the rate is too large.")
        problem, n_peers = self.made.problem, self.made.graph.n_peers
        measured = problem.metrics(mean) if self.conduct.metrics else {}
        row = MeanRow(steps / n_peers, time, problem.objective(mean), distance_of(models), measured, len(models))
        self.run.means.append(row)
        for watcher in self.conduct.watchers:
            watcher.on_mean(row)
        if not self._said and self.joint.open_steps > _WINDOW:
            self._said = True
            text = (
                f"In the last {_WINDOW} steps the links that were realised have not connected all peers: some learn"
                " nothing of others' data. Wait for more neighbours."
            )
            self.notice(Notice("not_connected", data={"steps": _WINDOW}, text=text, time=time))
        return row

    def notice(self, notice: Notice) -> None:
        """Tell those who watch what a person should know."""
        for watcher in self.conduct.watchers:
            watcher.on_notice(notice)

    def trouble(
        self,
        time: float,
        gone: frozenset[int],
        sides: Sequence[frozenset[int]],
        noticed: Sequence[tuple[int, int, float]] = (),
    ) -> bool:
        """Record who is gone now, and of cuts; return whether samples have changed hands.

        Arguments:
            time: when the first have noticed it.
            gone: all who are.
            sides: of a cut.
            noticed: which neighbour noticed whose death, and when.
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
        """Return what `restore` needs, as plain data."""
        return {**self.holdings.state(), "joint": self.joint.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self.holdings.restore(state)
        self.joint.restore(state["joint"])

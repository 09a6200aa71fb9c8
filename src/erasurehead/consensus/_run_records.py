"""The records of a run without a coordinator while it is running, on the virtual clock or on an engine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.documents import Entries, PlainData
from erasurehead.consensus._joint_connectivity import JointConnectivity
from erasurehead.consensus._plans import ConsensusPlan
from erasurehead.consensus._result import ConsensusRun, distance_of
from erasurehead.consensus._rows import MeanRow, PeerRow, ViewChangeRow
from erasurehead.consensus._shares import SampleOwnership
from erasurehead.consensus._tracked_peers import TrackedPeers, gone as gone_peers
from erasurehead.consensus._training_options import TrainingOptions
from erasurehead.consensus._views import NetworkView
from erasurehead.errors import Diverged
from erasurehead.trackers import Tracker
from erasurehead.training import Notice
from erasurehead.training._evaluation import SOON
from erasurehead.training._log_records import log_notice, logger_of
from erasurehead.training._result import far_above

_LOGGER = logger_of("consensus")
_WARN_AFTER = 100
"""Steps per peer after which the user is warned that the union of the graphs is still not connected."""


@final
class RunRecords:
    """The rows of a run: steps, evaluations of the mean model and view changes; and who holds which samples now.

    Arguments:
        plan: the plan.
        options: what to record, and the callbacks.

    Attributes:
        run: the run, as it is returned at the end.
        ownership: the samples that each peer holds now.
        joint: the windows in which the union of the realised graphs became connected.
    """

    def __init__(self, plan: ConsensusPlan, options: TrainingOptions) -> None:
        self.plan, self.options = plan, options
        self.ownership = SampleOwnership(plan.graph, plan.shares, plan.orphans)
        self.joint = JointConnectivity(plan.graph.n_peers)
        self.run = ConsensusRun(str(plan.policy), plan.graph, np.empty((0, 0)), [], joint=self.joint)
        self._warned = False
        self._watchers = [TrackedPeers(one) if isinstance(one, Tracker) else one for one in options.callbacks]

    def begin(self) -> None:
        """Call `on_begin` of the callbacks."""
        _LOGGER.info("%s peers on %s with %s begin", self.plan.graph.n_peers, self.plan.graph, self.plan.policy)
        for callback in self._watchers:
            callback.on_begin(self.plan, self.options.steps)
        self._ask()

    def end(self) -> None:
        """Call `on_done` of the callbacks.

        Raises:
            Diverged: if the objective of a run that has finished is far above that of the first model.
        """
        run = self.run
        if not run.stopped and run.steps >= SOON * run.graph.n_peers and far_above(run.objective, run.first_objective):
            raise Diverged(
                f"The peers' models are worse than the first one: their mean has an objective of {run.objective:.5g}, "
                f"and the first of {run.first_objective:.5g}; take a smaller step size (rate)."
            )
        _LOGGER.info("%s", self.run.status)
        for callback in self._watchers:
            callback.on_done(self.run.status)
        self._ask()

    def _ask(self) -> None:
        """Pass on what callbacks have noticed of themselves."""
        for callback in self._watchers:
            for notice in callback.own_notices():
                self.notice(notice)

    def step(self, row: PeerRow) -> None:
        """Record a step of a peer. Must be called in the order in which the steps ended."""
        if row.links:
            self.joint.add(row.peer, row.links, row.end)
        if self.options.records:
            self.run.rows.append(row)
        for callback in self._watchers:
            callback.on_step(row)

    def evaluate(self, models: Array, steps: int, time: float) -> MeanRow:
        """Evaluate the mean model.

        Arguments:
            models: models of the present peers, shape (n, n_parameters).
            steps: total number of steps of all peers.
            time: seconds since training began.

        Raises:
            Diverged: if it, its objective or its distance from the peers' models is not finite.
        """
        mean, problem, n_peers = models.mean(axis=0), self.plan.problem, self.plan.graph.n_peers
        finite = np.isfinite(mean).all()
        objective, distance = (problem.objective(mean), distance_of(models)) if finite else (np.nan, np.nan)
        if not np.isfinite([objective, distance]).all():
            raise Diverged("The peers' models are no longer finite: the rate is too large.")
        measured = problem.metrics(mean) if self.options.metrics else {}
        row = MeanRow(steps / n_peers, time, objective, distance, measured, len(models))
        if math.isnan(self.run.first_objective):
            self.run.first_objective = objective
        self.run.means.append(row)
        _LOGGER.debug("step %.4g: objective %.6g", row.step, objective, extra={"step": row.step, "row": vars(row)})
        for callback in self._watchers:
            callback.on_mean(row)
        self._ask()
        if not self._warned and self.joint.open_steps > _WARN_AFTER:
            self._warned = True
            text = (
                f"In the last {_WARN_AFTER} steps, the links in use have not connected all peers: some learn nothing "
                "from the data of others. Wait for more neighbours."
            )
            self.notice(Notice("not_connected", data={"steps": _WARN_AFTER}, text=text, time=time))
        return row

    def notice(self, notice: Notice) -> None:
        """Pass a notice to the callbacks."""
        log_notice(_LOGGER, notice)
        for callback in self._watchers:
            callback.on_notice(notice)

    def view_change(
        self,
        time: float,
        gone: frozenset[int],
        sides: Sequence[frozenset[int]],
        noticed: Sequence[tuple[int, int, float]] = (),
    ) -> bool:
        """Record a new view of the network.

        Arguments:
            time: when the change was first noticed, in seconds since training began.
            gone: all peers that are gone.
            sides: the sides of a network partition; empty for none.
            noticed: for each detected death: the detecting neighbour, the dead peer, and when.

        Returns:
            Whether samples have moved between peers.
        """
        moved = self.ownership.update(gone)
        self.joint.reset(self.plan.graph.n_peers - len(gone), time)
        shares = "" if not gone else "taken over" if self.plan.orphans == "taken over" else "out"
        added_links = NetworkView(self.plan.graph, gone, tuple(sides)).added_links
        row = ViewChangeRow(
            time,
            sorted(gone),
            [sorted(side) for side in sides],
            [list(link) for link in added_links],
            shares,
            list(noticed),
        )
        self.run.view_changes.append(row)
        log_notice(_LOGGER, gone_peers(row))
        for callback in self._watchers:
            callback.on_view_change(row)
        return moved

    def state(self) -> PlainData:
        """Return everything that `restore` needs, as plain data."""
        return {**self.ownership.state(), "joint": self.joint.state(), "first_objective": self.run.first_objective}

    def restore(self, state: Entries) -> None:
        """Continue from what `state` returned."""
        self.ownership.restore(state)
        self.joint.restore(state["joint"])
        self.run.first_objective = float(state["first_objective"])

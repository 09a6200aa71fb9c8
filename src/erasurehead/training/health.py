"""Who is watched and who is trusted: workers that do not start, hang or lie are found while rounds are gathered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, final

from erasurehead._internal.arrays import Tree
from erasurehead.engines.base import Arrived
from erasurehead.faults.byzantine import Verifier, check_comparable
from erasurehead.faults.failure_detector import Suspicion
from erasurehead.training.round_state import Round
from erasurehead.training.worker_pool import Crew


@final
class Oversight:
    """Watches the workers of a crew over its rounds, as far as the crew's policy of survival asks for it.

    It is told whom orders go to and what comes back, names whom it suspects or catches, and replaces or puts aside
    those whom the policy does not bear with.

    Arguments:
        crew: whose workers they are.
        tell: takes a sentence for people.

    Raises:
        InvalidArgument: messages are to be compared, and code and wait rule never leave anything to compare.
    """

    def __init__(self, crew: Crew, tell: Callable[[str], None]) -> None:
        self.crew = crew
        self.tell = tell
        self._formation = crew.formation
        watches = crew.survival.suspected != "ignore"
        self._suspicion = Suspicion(after=crew.survival.suspect_after, late=crew.engine.late) if watches else None
        self._verifier: Verifier | None = None  # made when the first round begins
        if crew.survival.verify:
            check_comparable(crew.formation.scheme.decoder, crew.formation.scheme.rule)

    def begin(self) -> None:
        """Take note that a round begins, and who sits where by now."""
        before, self._formation = self._formation, self.crew.formation
        moved = before is not self._formation
        if self._suspicion is not None and moved:
            for worker in {*before.seats} - {*self.crew.present()}:  # gone, or started anew
                self._suspicion.left(worker)
        if self.crew.survival.verify:
            self._prepared(moved).begin()

    def _prepared(self, moved: bool) -> Verifier:
        """Return the verifier of the formation, which may have moved since the last one was made."""
        code, layout, seats = self._formation.code, self._formation.layout, self._formation.seats
        if self._verifier is None:
            self._verifier = Verifier(code, layout, seats=seats)
        elif moved:
            self._verifier = self._verifier.reformed(code, layout, seats)
        return self._verifier

    # --- what happens to workers ----------------------------------------------------------------------------------

    def ordered(self, workers: Iterable[int]) -> None:
        """Take note that an order has gone out to some workers."""
        if self._suspicion is not None:
            now = self.crew.engine.now()
            for worker in workers:
                if worker not in self._formation.mute:
                    self._suspicion.ordered(worker, now)

    def heard(self, event: Arrived, current: Round) -> None:
        """Take note of a message, in time or late; who was suspected is cleared by it."""
        if self._suspicion is not None:
            latest = (event.worker, event.part.message) in current.formation.lasts
            done = latest and event.order_round == current.order.round
            if cleared := self._suspicion.heard(event.worker, event.time, event.started, done):
                self.tell(cleared)

    def failed(self, worker: int) -> None:
        """Take note that a worker said that it cannot answer."""
        if self._suspicion is not None:
            self._suspicion.failed(worker)

    def forget(self, worker: int) -> None:
        """Forget what is known of a worker: it is gone, or another has its number."""
        if self._suspicion is not None:
            self._suspicion.left(worker)
        if self._verifier is not None:
            self._verifier.joined(worker)

    # --- who is missing -------------------------------------------------------------------------------------------

    def next_look(self) -> float:
        """Return when to `look` again at who is missing, in the engine's seconds; inf if there is no need."""
        starting = self.crew.wake()
        return starting if self._suspicion is None else min(starting, self._suspicion.next_check())

    def look(self, now: float) -> list[int]:
        """Give up workers that do not start, and name, or replace, those that seem to hang; return whom that loses."""
        gone = self.crew.look(now)
        if self._suspicion is not None:
            for worker in self._suspicion.check(now):
                self.tell(self._suspicion.suspects[worker])
                self.crew.happened("suspected", worker, self._suspicion.suspects[worker])
                if self.crew.survival.suspected == "replace" and not self.crew.replace_suspect(worker):
                    gone.append(worker)
        return gone

    # --- who lies -------------------------------------------------------------------------------------------------

    def examine(self, current: Round) -> bool:
        """Compare what should be equal, before anything is decoded; return whether something was wrong with it."""
        if self._verifier is None:
            return False
        view = current.view
        found = self._verifier.examine(current.arrivals, current.read, view.pending.tolist())
        for sentence in found.reasons:
            self.tell(sentence)
        changed = found.settle(view)
        current.doubtful = bool(found.doubtful)
        current.refused.update(found.refused)
        for message, why in found.refused.items():
            arrived = current.arrivals.pop(message)
            if arrived.worker not in found.accused:
                self.crew.happened("refused", arrived.worker, why)
            self.crew.engine.release(arrived)
        for worker, why in found.accused.items():
            self.crew.put_aside(worker, why)
            if self._suspicion is not None:
                self._suspicion.left(worker)
        return changed

    def accused(self, current: Round) -> list[int]:
        """Return who is put aside for lying, of those that sit anywhere in a round."""
        lying = () if self._verifier is None else self._verifier.accused
        return [worker for worker in lying if worker in current.formation.places]

    def end(self, seconds: float) -> None:
        """Say what verification has cost.

        Arguments:
            seconds: that all rounds have taken on this machine.
        """
        if self._verifier is not None:
            self.tell(self._verifier.cost(seconds))

    # --- state ----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Tree]:
        """Return all that `restore` needs: who is suspected, and who is trusted."""
        return {
            "suspicion": None if self._suspicion is None else self._suspicion.state(),
            "verifier": None if self._verifier is None else self._verifier.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; the crew is restored already."""
        self._formation = self.crew.formation
        if state["suspicion"] is not None and self._suspicion is not None:
            self._suspicion.restore(state["suspicion"])
        if state["verifier"] is not None and self.crew.survival.verify:
            verifier = self._prepared(moved=True)
            verifier.begin()
            verifier.restore(state["verifier"])

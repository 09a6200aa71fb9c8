"""Conformance test suites for engines and for implementations of `Port`, and the programs, delays and peers they use.

Names are imported on first use: a worker that runs one of the programs needs neither pytest nor the test problems.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.testing.conformance import EngineConformance as EngineConformance
    from erasurehead.testing.fault_conformance import FaultInjectionConformance as FaultInjectionConformance
    from erasurehead.testing.peer_conformance import PeerConformance as PeerConformance
    from erasurehead.testing.peer_conformance import PeerStateConformance as PeerStateConformance
    from erasurehead.testing.problems import Quadratic as Quadratic
    from erasurehead.testing.programs import Echo as Echo
    from erasurehead.testing.programs import Faulty as Faulty
    from erasurehead.testing.programs import Raising as Raising
    from erasurehead.testing.programs import Stateful as Stateful
    from erasurehead.testing.programs import Timetable as Timetable
    from erasurehead.testing.programs import Typed as Typed

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "EngineConformance": "conformance",
        "FaultInjectionConformance": "fault_conformance",
        "PeerConformance": "peer_conformance",
        "PeerStateConformance": "peer_conformance",
        "Quadratic": "problems",
        "Echo": "programs",
        "Faulty": "programs",
        "Raising": "programs",
        "Stateful": "programs",
        "Timetable": "programs",
        "Typed": "programs",
    },
)

"""Conformance test suites for engines and for implementations of `Port`.

Subclass one of these in your tests. The room knows the contracts of engines and peers; its programs, delays and peers
are loaded by workers, too, which need neither pytest nor the test problems.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.testing._conformance import EngineConformance as EngineConformance
    from erasurehead.testing._fault_conformance import FaultInjectionConformance as FaultInjectionConformance
    from erasurehead.testing._peer_conformance import (
        PeerConformance as PeerConformance,
        PeerStateConformance as PeerStateConformance,
    )

__getattr__, __dir__ = lazy_names(__name__)

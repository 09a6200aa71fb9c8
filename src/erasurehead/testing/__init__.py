"""Conformance test suites for engines.

Subclass one of these in your tests. The room knows the contract of engines; its programs and delays are loaded by
workers, too, which need neither pytest nor the test problems.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.testing._conformance import EngineConformance as EngineConformance
    from erasurehead.testing._fault_conformance import FaultInjectionConformance as FaultInjectionConformance

__getattr__, __dir__ = lazy_names(__name__)

"""Where workers run: the engine interface and its implementations.

An engine moves orders, programs and vectors, and stamps the time; it knows nothing of codes, schemes or gradients. In
what numbers a vector is sent, exact, shorter or quantised, is a wire (`_wires.py`).
The room offers the contracts for an engine, a wire or channels of your own, and five engines. A worker belongs to one
engine, and loads none of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.engines._base import (
        Arrived as Arrived,
        Died as Died,
        Engine as Engine,
        Failed as Failed,
        Joined as Joined,
        MessageSpec as MessageSpec,
        Order as Order,
        Program as Program,
    )
    from erasurehead.engines._fault_injection import FaultInjection as FaultInjection
    from erasurehead.engines._in_process import InProcessEngine as InProcessEngine
    from erasurehead.engines._mpi.engine import MPIEngine as MPIEngine
    from erasurehead.engines._peer_channels import (
        Endpoint as Endpoint,
        PeerChannels as PeerChannels,
        PeerMessaging as PeerMessaging,
    )
    from erasurehead.engines._processes.engine import ProcessEngine as ProcessEngine
    from erasurehead.engines._ray.engine import RayEngine as RayEngine
    from erasurehead.engines._virtual import VirtualEngine as VirtualEngine
    from erasurehead.engines._wires import Wire as Wire
    from erasurehead.engines._worker_loop import Room as Room, Transport as Transport

__getattr__, __dir__ = lazy_names(__name__)

"""Where workers run: the engine interface and its implementations, each imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names
from erasurehead.engines.base import BY_TASK as BY_TASK
from erasurehead.engines.base import PRECISE as PRECISE
from erasurehead.engines.base import Arrived as Arrived
from erasurehead.engines.base import Died as Died
from erasurehead.engines.base import Engine as Engine
from erasurehead.engines.base import Event as Event
from erasurehead.engines.base import Failed as Failed
from erasurehead.engines.base import Joined as Joined
from erasurehead.engines.base import LateWork as LateWork
from erasurehead.engines.base import Lease as Lease
from erasurehead.engines.base import MessageLost as MessageLost
from erasurehead.engines.base import MessageSpec as MessageSpec
from erasurehead.engines.base import NoRoom as NoRoom
from erasurehead.engines.base import Offered as Offered
from erasurehead.engines.base import Order as Order
from erasurehead.engines.base import Program as Program
from erasurehead.engines.fault_injection import FaultInjection as FaultInjection
from erasurehead.engines.peer_channels import Endpoint as Endpoint
from erasurehead.engines.peer_channels import PeerChannels as PeerChannels
from erasurehead.engines.peer_channels import PeerMessage as PeerMessage
from erasurehead.engines.peer_channels import PeerMessaging as PeerMessaging

if TYPE_CHECKING:
    from erasurehead.engines.in_process import InProcessEngine as InProcessEngine
    from erasurehead.engines.mpi import MPIEngine as MPIEngine
    from erasurehead.engines.processes import ProcessEngine as ProcessEngine
    from erasurehead.engines.ray import RayEngine as RayEngine
    from erasurehead.engines.virtual import VirtualEngine as VirtualEngine
    from erasurehead.engines.wired_engine import WiredEngine as WiredEngine
    from erasurehead.engines.wires import Cast as Cast
    from erasurehead.engines.wires import Dithered as Dithered
    from erasurehead.engines.wires import TopK as TopK
    from erasurehead.engines.wires import Wire as Wire

# A worker belongs to one engine, and imports none of the others.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "InProcessEngine": "in_process",
        "MPIEngine": "mpi",
        "ProcessEngine": "processes",
        "RayEngine": "ray",
        "VirtualEngine": "virtual",
        **dict.fromkeys(("Cast", "Dithered", "TopK", "Wire"), "wires"),
        "WiredEngine": "wired_engine",
    },
)

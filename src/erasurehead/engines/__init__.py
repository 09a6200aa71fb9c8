"""Where workers run: the contract, and engines as equal peers."""

from erasurehead.engines.base import Arrived as Arrived
from erasurehead.engines.base import Died as Died
from erasurehead.engines.base import Engine as Engine
from erasurehead.engines.base import Event as Event
from erasurehead.engines.base import Failed as Failed
from erasurehead.engines.base import Joined as Joined
from erasurehead.engines.base import LateWork as LateWork
from erasurehead.engines.base import MessageLost as MessageLost
from erasurehead.engines.base import NoRoom as NoRoom
from erasurehead.engines.base import Offered as Offered
from erasurehead.engines.base import Order as Order
from erasurehead.engines.base import Part as Part
from erasurehead.engines.base import Program as Program
from erasurehead.engines.mpi import MPIEngine as MPIEngine
from erasurehead.engines.processes import ProcessEngine as ProcessEngine
from erasurehead.engines.ray import RayEngine as RayEngine
from erasurehead.engines.virtual import VirtualEngine as VirtualEngine

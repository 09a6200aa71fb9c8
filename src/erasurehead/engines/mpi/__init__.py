"""Workers as ranks of an MPI job; mpi4py is imported only when one of these is used."""

from erasurehead.engines.mpi.engine import MPIEngine as MPIEngine
from erasurehead.engines.mpi.job import serve as serve
from erasurehead.engines.mpi.job import serve_unless_coordinator as serve_unless_coordinator
from erasurehead.engines.mpi.start import Start as Start

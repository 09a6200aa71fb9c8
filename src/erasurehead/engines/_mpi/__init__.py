"""Workers as ranks of an MPI job; mpi4py is imported only when one of these is used."""

from erasurehead.engines._mpi.engine import MPIEngine as MPIEngine
from erasurehead.engines._mpi.job import serve as serve, serve_unless_coordinator as serve_unless_coordinator

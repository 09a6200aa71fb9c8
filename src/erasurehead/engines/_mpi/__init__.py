"""Workers as ranks of an MPI job; mpi4py is imported only when one is made."""

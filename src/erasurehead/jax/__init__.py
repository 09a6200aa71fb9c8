"""JAX loops of the user's own as a team that nobody waits in: ranks are processes, each with a jitted step.

A script joins its team (`join`), asks it for its step (`JaxTeam.step`) and stays as it is; `simulate` runs it on a
virtual clock. Who belongs, who gathers and what is sent is that of `erasurehead.torch`, whose files without PyTorch it
stands on: here is only what JAX makes of a model, an optimizer of optax and a data set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.jax._join import join as join, simulate as simulate
    from erasurehead.jax._step import TeamStep as TeamStep
    from erasurehead.jax._team import JaxTeam as JaxTeam

__getattr__, __dir__ = lazy_names(__name__)

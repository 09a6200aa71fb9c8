"""Training without a coordinator: peers average their models with neighbours, and wait only for some of them.

This room may use all that a run with a coordinator is made of: problems, delays, engines, run files and folders, and
fault schedules; none of these knows of peers. A plan says who is linked to whom (`Graph`, which knows its spectral
gap), how neighbours average (`Mixing`), whom a peer waits for (`Policy`), how its model moves (`Algorithm`), which
samples it has, and which faults there are. `train` runs a plan on a virtual clock, or with peers that are workers of an
engine; a `Peer` knows neither, and acts through its `Port`. In a worker, `_peer_runtime.py` notices which neighbours
have died; what that does to the links is a `NetworkView` (`_views.py`). What happened is told as it happens
(`ConsensusCallback`), recorded (`PeerRow`, `MeanRow`, `ViewChangeRow`), and returned (`ConsensusRun`; how far models
are from consensus is computed beside it, in `_result.py`). Run files of peers (`ConsensusConfig`), drills and pictures
are here.

>>> import numpy as np, erasurehead as eh
>>> rng = np.random.default_rng(0)
>>> X = rng.standard_normal((600, 5)); y = np.sign(X @ np.arange(1.0, 6.0) + rng.standard_normal(600))
>>> problem = eh.problems.LogisticRegression(X, y, l2=1e-3)
>>> run = eh.consensus.train(problem, "ring()", "dynamic()", peers=6, steps=60, rate=1.0, batch=32,
...                          delays="shifted_exponential(shift=1.0, mean=1.0)")
>>> run.objective < 0.6 * run.means[0].objective
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.consensus._contract import Peer as Peer, Port as Port
    from erasurehead.consensus._injected_faults import Crash as Crash, NetworkPartition as NetworkPartition
    from erasurehead.consensus._mixing import Mixing as Mixing
    from erasurehead.consensus._peers import LocalPeer as LocalPeer
    from erasurehead.consensus._policies.base import Policy as Policy
    from erasurehead.consensus._policies.rendezvous import RendezvousPeer as RendezvousPeer
    from erasurehead.consensus._training import train as train
    from erasurehead.consensus._training_options import ConsensusCallback as ConsensusCallback

__getattr__, __dir__ = lazy_names(__name__)

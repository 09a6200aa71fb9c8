"""Training without a coordinator: peers average their models with neighbours, and wait only for some of them.

This room may use all that a run with a coordinator is made of: problems, delays, engines, run files and folders, and
fault schedules; none of these knows of peers. A plan says who is linked to whom (`Graph`), how neighbours average
(`Mixing`), whom a peer waits for (`Policy`), how its model moves (`Algorithm`), which samples it has, and which faults
there are. `train` runs a plan on a virtual clock, or with peers that are workers of an engine; a `Peer` knows neither,
and acts through its `Port`. What happened is told as it happens (`ConsensusCallback`), recorded (`PeerRow`, `MeanRow`,
`ViewChangeRow`), and returned (`ConsensusRun`). Run files of peers (`ConsensusConfig`), drills and pictures are here.

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
    from erasurehead.consensus.algorithms import Algorithm as Algorithm
    from erasurehead.consensus.algorithms import DecentralizedSGD as DecentralizedSGD
    from erasurehead.consensus.algorithms import GradientTracking as GradientTracking
    from erasurehead.consensus.algorithms import Momentum as Momentum
    from erasurehead.consensus.algorithms import QuasiGlobalMomentum as QuasiGlobalMomentum
    from erasurehead.consensus.config import ConsensusConfig as ConsensusConfig
    from erasurehead.consensus.contract import Message as Message
    from erasurehead.consensus.contract import MixedStep as MixedStep
    from erasurehead.consensus.contract import Peer as Peer
    from erasurehead.consensus.contract import Port as Port
    from erasurehead.consensus.faults import Crash as Crash
    from erasurehead.consensus.faults import NetworkPartition as NetworkPartition
    from erasurehead.consensus.finished import compare_finished as compare_finished
    from erasurehead.consensus.finished import finished_run as finished_run
    from erasurehead.consensus.graphs import Graph as Graph
    from erasurehead.consensus.graphs import edges as edges
    from erasurehead.consensus.graphs import parse_graph as parse_graph
    from erasurehead.consensus.mixing import FixedMixing as FixedMixing
    from erasurehead.consensus.mixing import MaxDegree as MaxDegree
    from erasurehead.consensus.mixing import Metropolis as Metropolis
    from erasurehead.consensus.mixing import Mixing as Mixing
    from erasurehead.consensus.peers import LocalPeer as LocalPeer
    from erasurehead.consensus.peers import Setup as Setup
    from erasurehead.consensus.plans import ConsensusPlan as ConsensusPlan
    from erasurehead.consensus.plans import plan as plan
    from erasurehead.consensus.policies import BoundedStaleness as BoundedStaleness
    from erasurehead.consensus.policies import Dynamic as Dynamic
    from erasurehead.consensus.policies import Full as Full
    from erasurehead.consensus.policies import Local as Local
    from erasurehead.consensus.policies import Pairwise as Pairwise
    from erasurehead.consensus.policies import Policy as Policy
    from erasurehead.consensus.policies import RendezvousPeer as RendezvousPeer
    from erasurehead.consensus.policies import Static as Static
    from erasurehead.consensus.result import ConsensusRun as ConsensusRun
    from erasurehead.consensus.rows import MeanRow as MeanRow
    from erasurehead.consensus.rows import PeerRow as PeerRow
    from erasurehead.consensus.rows import ViewChangeRow as ViewChangeRow
    from erasurehead.consensus.shares import dirichlet as dirichlet
    from erasurehead.consensus.shares import even as even
    from erasurehead.consensus.training import train as train
    from erasurehead.consensus.training_options import ConsensusCallback as ConsensusCallback
    from erasurehead.consensus.training_options import TrainingOptions as TrainingOptions

_HOMES = {
    "algorithms": ("Algorithm", "DecentralizedSGD", "GradientTracking", "Momentum", "QuasiGlobalMomentum"),
    "config": ("ConsensusConfig",),
    "contract": ("Message", "MixedStep", "Peer", "Port"),
    "faults": ("Crash", "NetworkPartition"),
    "finished": ("compare_finished", "finished_run"),
    "graphs": ("Graph", "edges", "parse_graph"),
    "mixing": ("FixedMixing", "MaxDegree", "Metropolis", "Mixing"),
    "peers": ("LocalPeer", "Setup"),
    "plans": ("ConsensusPlan", "plan"),
    "policies": ("BoundedStaleness", "Dynamic", "Full", "Local", "Pairwise", "Policy", "RendezvousPeer", "Static"),
    "result": ("ConsensusRun",),
    "rows": ("MeanRow", "PeerRow", "ViewChangeRow"),
    "shares": ("dirichlet", "even"),
    "training": ("train",),
    "training_options": ("ConsensusCallback", "TrainingOptions"),
}

__getattr__, __dir__ = lazy_names(__name__, {name: home for home, names in _HOMES.items() for name in names})

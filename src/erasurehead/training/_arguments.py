"""The arguments of `train`: what they stand for, how many workers a run has if nobody says, and clear errors."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence

from erasurehead import engines
from erasurehead._internal.late_work import check_late
from erasurehead._internal.ours import ours
from erasurehead._internal.resources import usable_cores
from erasurehead.codes import GradientCode
from erasurehead.decoding._rounding import check_rounding
from erasurehead.delays import Delays
from erasurehead.delays._base import check_models, check_own
from erasurehead.engines import Engine, Wire
from erasurehead.engines._engine_around import EngineAround
from erasurehead.engines._wired_engine import WiredEngine
from erasurehead.engines._wires import parse_wire
from erasurehead.errors import InvalidArgument, check_choice, check_count, check_type, invalid, real
from erasurehead.faults import FaultPolicy
from erasurehead.optimizers import Optimizer
from erasurehead.optimizers._order_kinds import CURVATURE
from erasurehead.problems import Problem
from erasurehead.problems._own import check_problem
from erasurehead.schemes import Scheme, parse_scheme
from erasurehead.schemes._text import PAPER_WORKERS
from erasurehead.training._result import Resumption

_ENGINES = {
    "processes": "ProcessEngine",
    "in_process": "InProcessEngine",
    "virtual": "VirtualEngine",
    "mpi": "MPIEngine",
    "ray": "RayEngine",
}
"""Names of engines, and their classes, which are imported only when they are used."""

FEW_WORKERS = 4
"""Workers on a virtual clock on which nobody is late. Their number changes nothing then but how samples are split into
tasks; as it does not depend on the machine, the same command gives the same bits on every machine."""


def as_scheme(scheme: Scheme | str, engine: Engine, n_samples: int) -> Scheme:
    """Return a scheme as it is, or the scheme that a text stands for.

    Arguments:
        scheme: a scheme, or a text such as `"uncoded"` or `"erasurehead(load=3, wait_for=11)"`.
        engine: where its workers run, which tells the number of them for a scheme given as text.
        n_samples: number of samples, which are at least as many as workers.

    Raises:
        InvalidArgument: if it is neither, or the text is not a scheme.
    """
    if isinstance(scheme, str):
        return parse_scheme(scheme, min(default_workers(engine, [scheme]), n_samples))
    check_type("scheme", scheme, Scheme, "must be a scheme, or the text of one", "such as schemes.uncoded(30)")
    return scheme


def as_engine(engine: Engine | str) -> Engine:
    """Return an engine as it is, or a new one, without delays, of the kind that a text names.

    Raises:
        InvalidArgument: if it is neither, or one of somebody's own whose settings, hosts or clock are none.
    """
    if isinstance(engine, str):
        check_choice("engine", engine, _ENGINES)
        return getattr(engines, _ENGINES[engine])()
    check_type("engine", engine, Engine, "must be an engine, or the name of one", "such as engines.VirtualEngine()")
    if ours(type(engine)):
        return engine
    check_late(engine.late)
    if not math.isfinite(real(now := engine.now())):
        raise invalid("what now() of the engine returns", "must be a finite number of seconds", now)
    hosts = engine.hosts()
    told = "what hosts() of the engine returns"
    check_type(told, hosts, Mapping, "must be a mapping from names of hosts to how many workers fit, or None")
    for name, room in hosts.items():
        check_type(told, name, str, "must have names of hosts as keys")
        check_count(f"the room of {name!r} in {told}", room or 0, at_least=0)
    return engine


def as_wire(wire: Wire | str | None) -> Wire | None:
    """Return a wire as it is, or the wire that a text stands for; None for None.

    Raises:
        InvalidArgument: if it is neither, or the text is not a wire.
    """
    if isinstance(wire, str):
        return parse_wire(wire)
    check_type("wire", wire, Wire | None, "must be a wire, or the text of one", "such as \"cast('float32')\"")
    return wire


def check_delays(engine: Engine, n_workers: int) -> None:
    """Raise if the delays that an engine adds are of a user's own model that contradicts itself."""
    if (delays := getattr(engine, "delays", None)) is not None:
        check_models("delays", [delays])
        check_own(delays, n_workers)


def check_wire(code: GradientCode, engine: Engine) -> None:
    """Raise if a code amplifies the rounding of an engine's messages so much that gradients are useless.

    Raises:
        InvalidArgument: if it does.
    """
    if engine.message_rounding:
        wire = str(engine.wire) if isinstance(engine, WiredEngine) else engine.message_rounding
        check_rounding(code, engine.message_rounding, given=("wire", wire))


def check_parts(problem: Problem, optimizer: Optimizer) -> None:
    """Raise if the problem is not a problem, or the optimizer not an optimizer.

    Raises:
        InvalidArgument: if so; the error names the argument.
    """
    check_problem(problem)
    hint = "such as optimizers.Nesterov(problem.initial(), rate=0.1)"
    check_type("optimizer", optimizer, Optimizer, "must be an optimizer", hint)
    if not (hasattr(optimizer, "x") and hasattr(optimizer, "rejected")):
        hint = "its own __init__ calls super().__init__(x)"
        raise invalid(
            "optimizer", "must be given its first model by Optimizer.__init__", type(optimizer).__name__, hint
        )
    tell = inspect.signature(optimizer.tell)
    try:
        inspect.signature(optimizer.begin).bind(problem, early="", lossy=False)
        tell.bind(None)
        fits = "estimate" not in tell.parameters
    except TypeError:
        fits = False
    if not fits:
        rule = "must be told answers: tell(self, answer), and begin(self, problem, early, lossy)"
        hint = "read `answer.estimate` where an older one was told the estimate"
        raise invalid("optimizer", rule, type(optimizer).__name__, hint)
    if problem.regularizer.sharp and not optimizer.proximal:
        raise invalid(
            "optimizer",
            f"must be proximal for the penalty {problem.regularizer}",
            type(optimizer).__name__,
            "take GradientDescent, HeavyBall or Nesterov, or end your moves with `landed` and say proximal = True",
        )


def check_options(fault_policy: object, resume: object, wanted: object) -> None:
    """Raise if what says how a run deals with deaths, where it goes on, or how many workers it has is something else.

    Raises:
        InvalidArgument: if so; the error names the argument.
    """
    check_type(
        "fault_policy",
        fault_policy,
        FaultPolicy | None,
        "must be a FaultPolicy, or None",
        "such as FaultPolicy(verify=True)",
    )
    check_type(
        "resume", resume, Resumption | None, "must be a Resumption, or None", "take the `resumption` of Recorder.reopen"
    )
    if not callable(wanted):
        raise invalid("wanted", "must be a function of the step", wanted, "such as lambda step: None")


def check_kinds(optimizer: Optimizer | type[Optimizer], scheme: Scheme) -> None:
    """Raise if the optimizer asks for kinds of orders for which the scheme has no wait rule.

    Raises:
        InvalidArgument: if it does; the error names them.
    """
    without = [kind for kind in optimizer.kinds if kind not in scheme.rules]
    if not without:
        return
    name = optimizer.__name__ if isinstance(optimizer, type) else type(optimizer).__name__
    asked, present = ", ".join(map(repr, without)), ", ".join(map(repr, scheme.rules))
    if without == [CURVATURE]:  # only schemes that take messages one by one are without a rule for it
        raise invalid(
            "scheme",
            f"must be one that waits for whole gradients with {name}, which compares them",
            scheme.name,
            "take schemes.adaptive ('adaptive' as a text, also for --scheme), or optimizers.GradientDescent "
            "('gradient_descent' as optimizer.name in a run file, and for --optimizer)",
        )
    raise invalid(
        "scheme",
        f"must have a wait rule for each kind of order that {name} asks for; it has none for {asked}",
        f"one with rules for {present}",
        f"give rules={{{asked}: wait_rules.decodable(), ...}}",
    )


def default_workers(
    engine: Engine | str,
    schemes: Sequence[str] = (),
    delayed: bool = False,
    published: bool = False,
    address: str | None = None,
) -> int:
    """Return how many workers a run has if nobody says.

    That is one for each rank of an MPI job but the coordinator's, for each CPU of a Ray cluster, and for each core that
    processes may use on this machine; one in the coordinator's process. On a virtual clock it is 30, as in the
    published experiments, if there are delays, and few if there are none. Where there can be any number of workers,
    there are more if schemes need more; and everywhere fewer, if they exist for no more: if a code says who holds what.

    Arguments:
        engine: an engine, or the name of one. An engine whose hosts have room for a limited number has that many.
        schemes: texts of schemes that must exist for this number of workers.
        delayed: whether delays are injected, for the name of an engine.
        published: whether the settings are published ones, likewise: 30 then, of processes or on a virtual clock.
        address: address of a Ray cluster, likewise.

    Raises:
        EngineError: if this process is not the coordinator of an MPI job, or the Ray cluster cannot be reached.
    """
    if isinstance(engine, EngineAround):
        return default_workers(engine.engine, schemes)
    if isinstance(engine, Engine):
        rooms = [*engine.hosts().values()]
        if rooms and None not in rooms:
            return _enough(max(1, sum(room or 0 for room in rooms)), schemes, 0)
        delays: Delays | None = getattr(engine, "delays", None)
        return default_workers(engine.name, schemes, delays is not None and delays.expected != 0.0)
    if engine == "mpi":
        from erasurehead.engines._mpi.rendezvous import check_place
        from erasurehead.engines._mpi.transport import world

        check_place(world(None))
        return _enough(world(None).Get_size() - 1, schemes, 0)
    if engine == "ray":
        from erasurehead.engines._ray.cluster import cpus

        return _enough(cpus(address), schemes, 0)
    if engine == "in_process":
        return _enough(1, schemes)
    if published or (engine == "virtual" and delayed):
        return _enough(PAPER_WORKERS, schemes)
    return _enough(FEW_WORKERS if engine == "virtual" else usable_cores(), schemes)


def _enough(workers: int, schemes: Sequence[str], most: int = PAPER_WORKERS) -> int:
    """Return the number of workers for which all schemes exist: the least from this one on, or else the next smaller.

    Arguments:
        workers: the number that is wanted, which is returned if there is none.
        schemes: texts of the schemes.
        most: the most workers that there can be, if these are more.
    """
    for number in (*range(workers, max(workers, most) + 1), *range(workers - 1, 0, -1)):
        try:
            for text in schemes:
                parse_scheme(text, number)
        except InvalidArgument:
            continue
        return number
    return workers

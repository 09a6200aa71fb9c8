"""The arguments of `train`: texts, as in run files, turned into objects; and clear errors for wrong ones."""

from __future__ import annotations

from erasurehead import engines
from erasurehead.codes.base import GradientCode
from erasurehead.decoding.rounding import check_rounding
from erasurehead.engines.base import Engine
from erasurehead.engines.wired_engine import WiredEngine
from erasurehead.engines.wires import Wire, parse_wire
from erasurehead.errors import invalid
from erasurehead.optimizers.base import Optimizer
from erasurehead.problems.base import CURVATURE, Problem
from erasurehead.schemes.named import Scheme
from erasurehead.schemes.text import parse_scheme
from erasurehead.training.default_workers import default_workers

_ENGINES = {
    "processes": "ProcessEngine",
    "in_process": "InProcessEngine",
    "virtual": "VirtualEngine",
    "mpi": "MPIEngine",
    "ray": "RayEngine",
}
"""Names of engines, and their classes, which are imported only when they are used."""


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
    if not isinstance(scheme, Scheme):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise invalid("scheme", "must be a scheme, or the text of one", scheme, "such as schemes.uncoded(30)")
    return scheme


def as_engine(engine: Engine | str) -> Engine:
    """Return an engine as it is, or a new one, without delays, of the kind that a text names.

    Raises:
        InvalidArgument: if it is neither.
    """
    if isinstance(engine, str):
        if engine not in _ENGINES:
            raise invalid("engine", f"must be one of {', '.join(_ENGINES)}", engine)
        return getattr(engines, _ENGINES[engine])()
    if not isinstance(engine, Engine):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise invalid("engine", "must be an engine, or the name of one", engine, "such as engines.VirtualEngine()")
    return engine


def as_wire(wire: Wire | str | None) -> Wire | None:
    """Return a wire as it is, or the wire that a text stands for; None for None.

    Raises:
        InvalidArgument: if it is neither, or the text is not a wire.
    """
    if isinstance(wire, str):
        return parse_wire(wire)
    if wire is not None and not isinstance(wire, Wire):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise invalid("wire", "must be a wire, or the text of one", wire, "such as engines.Cast('float32')")
    return wire


def check_wire(code: GradientCode, engine: Engine) -> None:
    """Raise if a code amplifies the rounding of an engine's messages so much that gradients are useless.

    Raises:
        InvalidArgument: as `decoding.check_rounding`.
    """
    if engine.message_rounding:
        wire = str(engine.wire) if isinstance(engine, WiredEngine) else engine.message_rounding
        check_rounding(code, engine.message_rounding, given=("wire", wire))


def check_parts(problem: object, optimizer: object) -> None:
    """Raise if the problem is not a problem, or the optimizer not an optimizer.

    Raises:
        InvalidArgument: if so; the error names the argument.
    """
    if not isinstance(problem, Problem):
        raise invalid("problem", "must be a problem", problem, "such as problems.LogisticRegression(X, y)")
    if not isinstance(optimizer, Optimizer):
        hint = "such as optimizers.Nesterov(problem.initial(), rate=0.1)"
        raise invalid("optimizer", "must be an optimizer", optimizer, hint)
    if problem.regularizer.sharp and not optimizer.proximal:
        raise invalid(
            "optimizer",
            f"must be proximal for the penalty {problem.regularizer}",
            type(optimizer).__name__,
            "take GradientDescent, HeavyBall or Nesterov, or end your moves with `landed` and say proximal = True",
        )


def check_kinds(optimizer: Optimizer | type[Optimizer], scheme: Scheme) -> None:
    """Raise if the optimizer asks for kinds of orders for which the scheme has no wait rule.

    Raises:
        InvalidArgument: if it does; the error names them.
    """
    without = [kind for kind in optimizer.kinds if kind not in scheme.rules]
    if not without:
        return
    name = optimizer.__name__ if isinstance(optimizer, type) else type(optimizer).__name__
    asked, there = ", ".join(map(repr, without)), ", ".join(map(repr, scheme.rules))
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
        f"one with rules for {there}",
        f"give rules={{{asked}: wait_rules.decodable(), ...}}",
    )

"""The check itself."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from erasurehead.decompile._checking.compare import array_of, is_float, leaves, structure, ulps
from erasurehead.decompile._checking.report import CheckReport, Difference
from erasurehead.decompile._checking.rounding import FACTOR, Watched, distance, unit
from erasurehead.decompile._checking.sampling import around, extreme
from erasurehead.decompile._errors import Unsupported
from erasurehead.decompile._installed import jax_module
from erasurehead.decompile._primitives import primitives_of
from erasurehead.decompile._trace import trace

MOST_ULPS = 4
"""By how many units in the last place XLA may round a source for jax differently, whatever its condition is."""


def check(
    source: Any,
    original: Callable[..., Any],
    examples: Sequence[Any],
    *,
    draws: int = 4,
    seconds: float = 20.0,
    seed: int = 0,
    other_mode: bool = True,
    extremes: bool = True,
) -> CheckReport:
    """Compare a source with the function that it was made from.

    Arguments:
        source: the source to check.
        original: the original function.
        examples: example arguments of the function.
        draws: number of fresh inputs to try.
        seconds: time after which no new draw is started.
        seed: seed of the fresh inputs.
        other_mode: whether to read a source for jax also with the other setting of `jax_enable_x64`.
        extremes: whether as many draws with infinities and the like follow, unless there is a loop that they might keep
            from ending.

    Returns:
        A report of the differences found. None of them raises an error: see `CheckReport.raise_if_wrong`.
    """
    report = CheckReport(source.name, source.backend)
    comparison = _Comparison(source, original, examples, report)
    # A loop may not end for extreme inputs.
    usual_only = not extremes or "while" in primitives_of(jax_module().make_jaxpr(original)(*examples).jaxpr)
    random = np.random.default_rng(seed)
    begin = time.monotonic()
    for draw in range((draws if usual_only else 2 * draws) + 1):
        if draw and time.monotonic() - begin > seconds:
            break
        usual = draw <= draws
        if not comparison.goes_on(_inputs(tuple(examples), random, draw, usual), draw, usual):
            break
    report.differences = list(comparison.worst.values())
    if report.drawn and not report.counted and report.passed:
        report.notes.append("No draw can tell them apart: the outputs are constant, all NaN, or flip.")
    if source.backend == "jax" and other_mode and report.passed:
        _other_mode(source, examples, report)
    return report


class _Comparison:
    """A source and its original, run with the same inputs, and the greatest difference in each output so far."""

    def __init__(self, source: Any, original: Callable[..., Any], examples: Sequence[Any], report: CheckReport) -> None:
        jit = jax_module().jit
        self.worst: dict[str, Difference] = {}
        self._for_jax = source.backend == "jax"
        self._original, self._examples, self._report = original, examples, report
        self._first = original if hasattr(original, "lower") else jit(original)
        self._second: Callable[..., Any] = jit(source.function) if self._for_jax else source.function
        self._reference: list[Any] = []

    @cached_property
    def _watched(self) -> Watched | None:
        try:
            return Watched(trace(self._original, self._examples, "numpy", True, "comment"))
        except Unsupported:
            if not self._for_jax:
                raise
            return None

    def goes_on(self, inputs: tuple[Any, ...], draw: int, usual: bool) -> bool:
        """Run both and report what differs; return whether further draws could say more."""
        report, tree = self._report, jax_module().tree
        wanted = self._first(*tree.map(_copy, inputs))
        expected = [array_of(v) for _, v in leaves(wanted)]
        if draw == 0:
            self._reference = expected
        elif usual:
            report.drawn += 1
            if not expected or not _says_something(expected, self._reference):
                return True
        plain = tree.map(_plain, inputs)
        try:
            got = self._second(*(inputs if self._for_jax else plain))
        except Exception as error:
            self.worst.setdefault("", Difference("", draw, "structure", f"it raises {type(error).__name__}: {error}"))
            return False
        differences, amount, flipped = self._differences(inputs, plain, wanted, got, draw, not usual)
        if flipped and draw:
            report.flipped += usual
            return True
        report.worst = max(report.worst, amount)
        report.counted += 1 if draw and usual else 0
        for difference in differences:
            before = self.worst.get(difference.output)
            if before is None or difference.amount > before.amount:
                self.worst[difference.output] = difference
        return all(d.kind == "value" for d in differences)

    def _differences(
        self, inputs: tuple[Any, ...], plain: tuple[Any, ...], wanted: Any, got: Any, draw: int, extreme: bool
    ) -> tuple[list[Difference], float, bool]:
        """Return what differs, the largest distance, and whether rounding decides which of several results is right."""
        differences = _structure(wanted, got, draw, self._for_jax)
        if differences is not None:
            return differences, 0.0, False
        differences, amount = _in_ulps(wanted, got, draw) if self._for_jax else ([], 0.0)
        if (self._for_jax and not differences) or self._watched is None:
            return differences, amount, False
        differences, most, flipped = _tolerance(self._watched, plain, inputs, wanted, got, draw, extreme)
        return differences, amount if self._for_jax else most, flipped


def _inputs(examples: tuple[Any, ...], random: np.random.Generator, draw: int, usual: bool) -> tuple[Any, ...]:
    """Return the inputs of a draw: the examples themselves, inputs like them, or extreme ones."""
    if not draw:
        return examples
    if usual:
        return jax_module().tree.map(partial(around, random=random, draw=draw), examples)
    return tuple(extreme(examples, random, draw))


def _in_ulps(wanted: Any, got: Any, draw: int) -> tuple[list[Difference], float]:
    """Return the differences of values in units in the last place, and the largest that is finite."""
    distance = "{:.0f} units in the last place"
    differences, largest = _apart(wanted, got, draw, lambda _, p, q: ulps(p, q), MOST_ULPS, distance)
    return differences, max([largest, *(d.amount for d in differences if d.amount < np.inf)])


def _copy(leaf: Any) -> Any:
    """Return a copy of an argument for the original, which may donate its buffers (`donate_argnums`)."""
    jax = jax_module()
    return leaf.copy() if isinstance(leaf, jax.Array) and not str(leaf.dtype).startswith("key<") else leaf


def _plain(leaf: Any) -> Any:
    """Return an argument as a numpy array or number."""
    return leaf if isinstance(leaf, bool | int | float | complex) else array_of(leaf)


def _says_something(expected: list[Any], reference: list[Any]) -> bool:
    floats = [e for e in expected if is_float(e) and e.size]
    if floats and all(np.all(np.isnan(e.astype(np.complex128))) for e in floats):
        return False
    return not all(
        e.shape == r.shape and np.array_equal(e, r, equal_nan=e.dtype.kind in "fc")
        for e, r in zip(expected, reference, strict=True)
    )


def _structure(wanted: Any, got: Any, draw: int, for_jax: bool) -> list[Difference] | None:
    """Return differences in structure, shape or dtype; None if there are none."""
    a, b = leaves(wanted), leaves(got)
    if [p for p, _ in a] != [p for p, _ in b]:
        names = [", ".join(p or "the array" for p, _ in side) or "nothing" for side in (a, b)]
        return [Difference("", draw, "structure", f"the result should contain {names[0]}, but contains {names[1]}")]
    trees = [str(structure(result)).removeprefix("PyTreeDef(").removesuffix(")") for result in (wanted, got)]
    if trees[0] != trees[1]:
        return [Difference("", draw, "structure", f"the result should be {trees[0]}, but is {trees[1]}")]
    differences: list[Difference] = []
    for (path, x), (_, y) in zip(a, b, strict=True):
        p, q = array_of(x), array_of(y)
        if p.shape != q.shape:
            differences.append(Difference(path, draw, "shape", f"its shape should be {p.shape}, but is {q.shape}"))
        elif p.dtype != q.dtype:
            differences.append(Difference(path, draw, "dtype", f"its dtype should be {p.dtype}, but is {q.dtype}"))
        elif for_jax and bool(getattr(x, "weak_type", False)) != bool(getattr(y, "weak_type", False)):
            differences.append(Difference(path, draw, "dtype", "its dtype is weak on one side only"))
    return differences or None


def _apart(
    wanted: Any, got: Any, draw: int, distance: Callable[[int, Any, Any], Any], most: float, unit: str
) -> tuple[list[Difference], float]:
    """Return the differences of values, and the largest distance that is allowed.

    Arguments:
        wanted: the result that it should be.
        got: the result, of the same structure.
        draw: number of the draw.
        distance: returns how far apart the elements of real or complex arrays are, given the number of the array.
        most: the largest distance that is allowed.
        unit: formats a distance.
    """
    differences: list[Difference] = []
    largest = 0.0
    for i, ((path, x), (_, y)) in enumerate(zip(leaves(wanted), leaves(got), strict=True)):
        p, q = array_of(x), array_of(y)
        if not p.size:
            continue
        if not is_float(p):
            if not np.array_equal(p, q):
                count = int(np.sum(p != q))
                differences.append(
                    Difference(path, draw, "value", f"{count} of {p.size} elements differ", float("inf"))
                )
            continue
        far = distance(i, p, q)
        index = int(np.argmax(far))
        amount = float(far.flat[index])
        if amount > most:
            place = f" at {tuple(map(int, np.unravel_index(index, p.shape)))}" if p.shape else ""
            text = f"{unit.format(amount)} apart{place}: {p.flat[index]} and {q.flat[index]}"
            differences.append(Difference(path, draw, "value", text, amount))
        else:
            largest = max(largest, amount)
    return differences, largest


def _tolerance(
    watched: Watched, given: tuple[Any, ...], inputs: tuple[Any, ...], wanted: Any, got: Any, draw: int, extreme: bool
) -> tuple[list[Difference], float, bool]:
    """Compare within the tolerance that rounding needs at these inputs."""
    differences, most = _beyond(watched, given, wanted, got, draw)
    if not differences:
        return differences, most, False
    from erasurehead.decompile._checking.diagnosis import diagnose

    diagnosis = diagnose(watched, given, inputs)
    ours, _ = watched.values(given, {})
    if not _beyond(watched, given, ours, got, draw)[0]:  # else it is another program
        for flush in (False, True):
            run = diagnose(watched, given, inputs, flush) if flush else diagnosis
            # Singular vectors and the like are compared by what defines them, the rest with the same ones.
            replaced, _ = watched.values(given, run.given, flush)
            if (extreme and run.sound) or not _beyond(watched, given, wanted, replaced, draw)[0]:
                return [], most, False
    if diagnosis.text:
        differences = [Difference(d.output, d.draw, d.kind, d.text, d.amount, diagnosis.text) for d in differences]
    return differences, most, diagnosis.flip


def _beyond(
    watched: Watched, given: tuple[Any, ...], wanted: Any, got: Any, draw: int
) -> tuple[list[Difference], float]:
    spread = watched.spread(given, seed=draw)
    factor = FACTOR * max(1.0, watched.most_summed**0.5 / 8)

    def tolerances(i: int, p: Any, q: Any) -> Any:
        with np.errstate(all="ignore"):
            size, moved = np.abs(p.astype(np.complex128)), spread[i]
            # In fresh inputs, rounding may decide between a number and an infinity.
            most_counted = np.where(np.isfinite(moved) | (draw == 0), np.inf, 0.0)
            moved = np.where(np.isfinite(moved), moved, 0.0)
            finite = np.where(np.isfinite(size), size, 0.0)
            allowed = factor * (moved + 0.25 * np.max(moved, initial=0.0)) + 8 * unit(p.dtype) * finite + _tiny(p.dtype)
            return np.minimum(distance(p, q) / allowed, most_counted)

    return _apart(wanted, got, draw, tolerances, 1.0, "{:.3g} times the tolerance")


def _tiny(dtype: Any) -> float:
    """Return the smallest number that XLA does not flush to zero: it flushes subnormal ones."""
    ml_dtypes: Any = importlib.import_module("ml_dtypes")
    return 4 * float(ml_dtypes.finfo(dtype).tiny)


def _other_mode(source: Any, examples: Sequence[Any], report: CheckReport) -> None:
    """Read the source with 64-bit types turned on (or off): its text must mean the same program."""
    jax = jax_module()
    on = bool(jax.config.jax_enable_x64)
    if on and "64" in source.text:
        return
    from erasurehead.decompile._writing import text_of

    def typed(leaf: Any) -> Any:
        if str(getattr(leaf, "dtype", "")).startswith("key<"):
            return leaf
        array = np.asarray(leaf)
        return np.asarray(array, jax.dtypes.canonicalize_dtype(array.dtype))

    arguments: Any = jax.tree.map(typed, tuple(examples))
    with jax.enable_x64(not on):
        other = text_of(source.function, arguments)
    if other == source.text:
        return
    text = text_of(source.function, arguments)
    if text != other:
        report.differences.append(
            Difference(
                "", 0, "structure", "it is a different program when jax_enable_x64 is turned " + ("off" if on else "on")
            )
        )

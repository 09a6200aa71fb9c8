"""What each worker sends: the programs of a code over a problem, and where their messages' elements belong.

Every message carries one more coordinate than its gradient: the tasks' losses, combined as their gradients are, so
that each step's estimate of the training loss costs nothing and has the same residual. An order may ask for curvatures:
then a second vector of the same length is appended, the tasks' curvatures, combined likewise; and perhaps a third, of
another length, of second derivatives between columns. An order of kind
`"newton"` is answered by Newton steps of the messages' tasks, which are no sums over tasks and are never decoded.
"""

from __future__ import annotations

import hashlib
import math
import pickle
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array, IntArray, product
from erasurehead._internal.foreign_arrays import freeze
from erasurehead._internal.partition import split_samples
from erasurehead.decoding._layout import Layout
from erasurehead.engines import MessageSpec, Order, Program
from erasurehead.engines._base import ASKED, BY_TASK, QUESTIONS, REPORTS, TURNS
from erasurehead.optimizers._order_kinds import (
    NEWTON,
    OWN_MODEL,
    asks_curvature,
    asks_more,
    block_of,
    is_plain,
    models_of,
    sections,
    vectors_of,
    work_of,
)
from erasurehead.problems import Problem, Shard
from erasurehead.problems._shards import LinearShard
from erasurehead.problems._stored import StoredShard

if TYPE_CHECKING:
    from erasurehead.codes import GradientCode


@dataclass(frozen=True, eq=False)
class MessageRecipe:
    """How one message is computed from a shard.

    Arguments:
        spec: the message.
        shard: which of the program's shards holds its tasks.
        coefficients: coefficient of each task of that shard, shape (n_pieces, tasks of the shard).
        places: for each piece, the element of the shard's vector (gradient, then loss) that goes into each element of
            the message, -1 for none, shape (n_pieces, part.length); None if the message is that vector.
    """

    spec: MessageSpec
    shard: int
    coefficients: Array
    places: IntArray | None

    def add(self, vector: Array, piece: int, out: Array) -> None:
        """Add a vector of the shard to a message, as one of its pieces."""
        if self.places is None:
            out += vector
        else:
            out += np.where(self.places[piece] >= 0, vector[self.places[piece]], 0.0)


@dataclass(frozen=True, eq=False)
class CodedProgram(Program):
    """A worker's share of a coded gradient: it combines the partial gradients of its tasks into its messages.

    Arguments:
        shards: the worker's data.
        sums: how each of its messages is computed, in the order of sending.
        n_inputs: the largest number of elements of an order's points.
        curvature: whether orders may ask for curvatures beside gradients: such messages are twice as long, and count
            for twice the work.
        most_numbers: how many second derivatives between columns orders may ask for.
        preload: modules to import once, this one and those of the problem, in the server that workers are forked from.
        by_task: how the messages are computed that answer orders by task, likewise; none if such orders are answered
            like others.
        input_dtype: of the points, and of all vectors in between: the problem's.
    """

    shards: tuple[Shard, ...]
    sums: tuple[MessageRecipe, ...]
    n_inputs: int
    curvature: bool = False
    most_numbers: int = 0
    preload: tuple[str, ...] = ()
    by_task: tuple[MessageRecipe, ...] = ()
    input_dtype: str = "float64"

    @cached_property
    def _recipes(self) -> Mapping[int, MessageRecipe]:
        """All recipes, by the numbers of their messages."""
        return {recipe.spec.message: recipe for recipe in (*self.sums, *self.by_task)}

    @property
    def work(self) -> tuple[Hashable, ...]:
        """What it computes, apart from its messages' numbers: programs with equal work may replace each other.

        Only programs whose shards are the same objects compare as equal.
        """
        return tuple(
            (
                id(self.shards[recipe.shard]),
                recipe.spec.length,
                recipe.coefficients.tobytes(),
                None if recipe.places is None else recipe.places.tobytes(),
            )
            for recipe in (*self.sums, *self.by_task)
        )

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays, which are mainly those of its shards."""
        sizes: list[int] = []
        pickle.dumps(self.shards, protocol=5, buffer_callback=lambda buffer: sizes.append(buffer.raw().nbytes))
        return sum(sizes)

    def renumbered(self, messages: Sequence[int]) -> Self:
        """Return the same program with other message numbers, in the order of its `message_specs`."""
        recipes = [
            replace(recipe, spec=replace(recipe.spec, message=message))
            for recipe, message in zip((*self.sums, *self.by_task), messages, strict=True)
        ]
        n_sums = len(self.sums)
        return replace(self, sums=tuple(recipes[:n_sums]), by_task=tuple(recipes[n_sums:]))

    @cached_property
    def _specs(self) -> Sequence[Sequence[MessageSpec]]:
        """What answers orders, what answers those by task, and all at their longest. Engines ask at each message."""
        sums, by_task = ([recipe.spec for recipe in recipes] for recipes in (self.sums, self.by_task))
        longest = [with_curvature(one) if self.curvature else one for one in (*sums, *by_task)]
        return sums, by_task or sums, [replace(one, length=one.length + self.most_numbers) for one in longest]

    def sent(self, by_task: bool) -> Sequence[MessageSpec]:
        return self._specs[by_task]

    @property
    def message_specs(self) -> Sequence[MessageSpec]:
        return self._specs[2]

    @property
    def input_size(self) -> int:
        return self.n_inputs

    def remaining(self, order: Order, done: Sequence[MessageSpec]) -> Sequence[MessageSpec]:
        if is_plain(order):  # nearly always, and asked for each message of thousands of workers
            return self._specs[False][len(done) :]
        specs, turns = self._specs[bool(order.note.get(BY_TASK, False))], order.note.get(TURNS)
        n_pieces = len(self.sums[0].coefficients) if self.sums else 1
        if turns:
            specs = sorted(specs, key=lambda one: turns[one.message])
        sent = [as_asked(one, order, n_pieces) for one in specs] if asks_more(order) else specs
        if REPORTS in order.note:
            sent = [replace(one, length=1, vectors=1, content=None) for one in sent]
        elif questions := order.note.get(QUESTIONS):
            works = {message: work_of(order) * (last - first) for message, first, last, _ in questions}
            sent = [
                replace(one, work=works[one.message], length=1, content=None, prior=0.0)
                for one in specs
                if one.message in works
            ]
        elif asked := order.note.get(ASKED):
            prior, times = dict(asked["prior"]), work_of(order)
            sent = [replace(one, prior=times * prior[one.message]) for one in sent if one.message in prior]
        return left_of(sent, done)

    @cached_property
    def _reported(self) -> dict[int, dict[int, Array]]:
        """The vectors of single tasks that were computed for the newest reports, by the round of these."""
        return {}

    def _kept_for(self, order: Order) -> dict[int, Array] | None:
        """Return where the vectors of single tasks are kept of which several messages are made; None for none such."""
        if not any(spec.prior for spec in self._specs[False]):
            return None
        if REPORTS in order.note and order.round not in self._reported:
            self._reported.clear()
            self._reported[order.round] = {}
        return self._reported.get(order.note[ASKED]["of"] if ASKED in order.note else order.round, {})

    def take(self, order: Order) -> Any:
        local = [self._restricted(point) for point in order.points]
        newton = (order.note["damping"], order.note["iterations"]) if order.kind == NEWTON else None
        factors, own = order.coefficients or (1.0,) * len(models_of(order)), order.note.get(OWN_MODEL)
        inner, kept = (local, factors, order.step, newton, block_of(order), own), self._kept_for(order)
        alone = None if kept is None else as_asked(self._specs[False][0], order, 1)
        asking = replace(order, points=()) if QUESTIONS in order.note else None
        return inner, kept, alone, REPORTS in order.note, asking

    def _restricted(self, point: Array) -> list[Array]:
        """Return a copy of a model restricted to what each shard touches, one for all that touch all of it."""
        whole = next((freeze(shard.take(point)) for shard in self.shards if shard.support is None), point)
        return [whole if shard.support is None else freeze(shard.take(point)) for shard in self.shards]

    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        recipe, (inner, kept, alone, reports, asking) = self._recipes[spec.message], taken
        if asking is not None:
            _, first, last, element = next(one for one in asking.note[QUESTIONS] if one[0] == spec.message)
            whole, some = as_asked(recipe.spec, asking, len(recipe.coefficients)), np.zeros_like(recipe.coefficients)
            tasks = np.flatnonzero(recipe.coefficients.any(axis=0))[first:last]
            some[:, tasks] = recipe.coefficients[:, tasks]
            vector = np.empty(whole.length, out.dtype)
            self._combine(replace(recipe, coefficients=some), whole, inner, vector)
            out[0] = vector[element]
            return
        if kept is None:
            self._combine(recipe, spec, inner, out)
            return
        out[:] = 0.0
        for task in np.flatnonzero(recipe.coefficients[0]).tolist():
            if task not in kept:
                kept[task] = np.empty(alone.length, dtype=out.dtype)
                unit = np.eye(1, recipe.coefficients.shape[1], task)
                self._combine(replace(recipe, coefficients=unit), alone, inner, kept[task])
            if not reports:
                out += recipe.coefficients[0, task] * kept[task]

    def _combine(self, recipe: MessageRecipe, spec: MessageSpec, taken: Any, out: Array) -> None:
        """Write the vector that a recipe stands for, computed from the samples."""
        shard = self.shards[recipe.shard]
        local, factors, step, newton, block, own = taken
        models = [parts[recipe.shard] for parts in local]
        if block:
            n_pieces, marks = len(recipe.coefficients), models.pop()
            length = -(-block["numbers"] // n_pieces)
            out, summed = out[:-length], out[-length:]
            summed[:] = 0.0
            whole = np.zeros(n_pieces * length)
            for piece, coefficients in enumerate(recipe.coefficients):
                shard.block(models[0], marks, coefficients, block["coupled"], whole[: block["numbers"]])
                summed += whole[piece * length : (piece + 1) * length]
        if own:
            *vectors, told, sloped = sections(out, spec.vectors, len(out) // spec.vectors)
            out, vector = out[: len(vectors) * len(told)], np.zeros(len(models[0]) + 1)
            coefficients = np.abs(recipe.coefficients[0])
            vector[:-1] = own_model(shard, models[0], coefficients, own)
            told[:], sloped[:] = 0.0, 0.0
            recipe.add(vector, 0, told)
            vector[-1] = shard.combine(vector[:-1].copy(), coefficients, step, vector[:-1])
            recipe.add(vector, 0, sloped)
        if spec.vectors > 1:
            out, curvature = sections(out, 2, len(out) // 2)
            curvature[:] = 0.0
            vector = np.empty(len(models[0]) + 1, out.dtype)
            for piece, coefficients in enumerate(recipe.coefficients):  # coded as gradients are
                vector[-1] = shard.curvature(coefficients, vector[:-1])
                recipe.add(vector, piece, curvature)
        if newton is not None:
            vector = np.zeros(len(models[0]) + 1, out.dtype)
            (point, wanted), (damping, iterations) = models, newton
            shard.newton_step(point, wanted, np.abs(recipe.coefficients[0]), damping, iterations, vector[:-1])
            out[:] = 0.0
            recipe.add(vector, 0, out)
            return
        alone = recipe.places is None and len(models) == 1  # the message is the shard's vector, which is computed in it
        vector = out if alone else np.empty(len(models[0]) + 1, out.dtype)
        if not alone:
            out[:] = 0.0
        for model, factor in zip(models, factors, strict=True):
            for piece, coefficients in enumerate(recipe.coefficients):
                vector[-1] = shard.combine(model, factor * coefficients, step, vector[:-1])
                if not alone:
                    recipe.add(vector, piece, out)


def left_of(sent: Sequence[MessageSpec], done: Sequence[MessageSpec]) -> Sequence[MessageSpec]:
    """Return those of the messages to be sent that are not done, whichever were taken first."""
    gone = {one.message for one in done}
    return [one for one in sent if one.message not in gone] if gone else sent


def own_model(shard: Shard, start: Array, coefficients: Array, asked: Mapping[str, float]) -> Array:
    """Return a model that is better for a shard's tasks than another.

    Newton steps lower the mean loss of these tasks, with the penalty as a ridge; one that does not is shortened.

    Arguments:
        shard: the shard.
        start: the model to begin with, restricted to its support.
        coefficients: of its tasks.
        asked: what the order says: see `OWN_MODEL`.
    """
    share, damping = asked["share"], asked["damping"]
    best, least, change = start, math.inf, np.zeros_like(start)
    slope = np.empty_like(start)
    for left in range(int(asked["steps"]), -1, -1):
        point = best + change
        value = shard.combine(point, coefficients, 0, slope) / share + 0.5 * damping * product(point, point)
        if not value < least:
            change *= 0.25
            continue
        best, least = point, value
        if left:
            change = np.zeros_like(start)
            wanted = -(slope / share + damping * point)
            shard.newton_step(point, wanted, coefficients, damping, int(asked["iterations"]), change)
    return best


def as_asked(spec: MessageSpec, order: Order, n_pieces: int) -> MessageSpec:
    """Return a message as it answers an order: as long, and as much work, as what the order asks for.

    Arguments:
        spec: the message.
        order: the order.
        n_pieces: in how many pieces the code cuts gradients, and blocks likewise.
    """
    if order.kind == NEWTON:
        return replace(spec, work=work_of(order) * spec.work)
    block = block_of(order)
    if not (block or OWN_MODEL in order.note):
        return with_curvature(spec) if asks_curvature(order) else spec
    work, prior = spec.work * work_of(order), spec.prior * work_of(order)
    n_vectors, numbers = vectors_of(order), -(-int(block.get("numbers", 0)) // n_pieces)
    return replace(spec, length=n_vectors * spec.length + numbers, work=work, prior=prior, vectors=n_vectors)


@lru_cache(maxsize=16)
def block_layout(code: GradientCode, numbers: int) -> Layout:
    """Return the layout of a block of so many numbers in the messages of a code: all hold the same ones."""
    cut = None if code.n_pieces == 1 else _padded(np.arange(numbers), code.n_pieces)
    return Layout(numbers, [cut] * code.n_messages)


@lru_cache(maxsize=10_000)
def with_curvature(spec: MessageSpec) -> MessageSpec:
    """Return a message with a curvature beside the gradient: twice as long, and twice the work."""
    return replace(spec, length=2 * spec.length, work=2.0 * spec.work, prior=2.0 * spec.prior, vectors=2)


Shards: TypeAlias = dict[tuple[int, ...], Shard]
"""Shards of a problem, by the tasks that they hold."""


def build_programs(
    code: GradientCode,
    problem: Problem,
    max_points: int = 1,
    shards: Shards | None = None,
    curvature: bool = False,
    most_numbers: int = 0,
) -> tuple[list[CodedProgram], Layout]:
    """Return one program per worker, and the layout of all messages.

    Workers with equal tasks share their shards, and their messages' contents, so that an engine in one process keeps
    and computes them once.

    Arguments:
        code: who computes what.
        problem: cut into `code.n_tasks` tasks of consecutive samples.
        max_points: the largest number of points in an order.
        shards: shards that exist already, by their tasks; new ones are added to it.
        curvature: whether orders may ask for curvatures beside gradients.
        most_numbers: how many second derivatives between columns orders may ask for.

    Returns:
        The programs, one per worker; and the layout, whose last coordinate is the loss.

    Raises:
        InvalidArgument: if there are more tasks than samples.
    """
    ranges = split_samples(problem.n_samples, code.n_tasks)
    shards = {} if shards is None else shards
    positions: list[NDArray[np.integer] | None] = [None] * code.n_messages
    n_coordinates = problem.n_parameters + 1
    placed: dict[tuple[int, ...], tuple[IntArray | None, NDArray[np.integer] | None]] = {}  # equal tasks share it
    programs: list[CodedProgram] = []
    for worker in range(code.n_workers):
        task_sets: list[tuple[int, ...]] = []
        recipes: list[MessageRecipe] = []
        for message, tasks in _task_sets(code, worker):
            if tasks not in shards:
                shards[tasks] = _shard(problem, code, [ranges[task] for task in tasks])
            if tasks not in task_sets:
                task_sets.append(tasks)
            if tasks not in placed:
                placed[tasks] = _placed(code, shards[tasks], n_coordinates)
            within, positions[message] = placed[tasks]
            own = code.tasks_of_message(message)
            coefficients = np.zeros((code.n_pieces, len(tasks)))
            coefficients[:, np.searchsorted(np.asarray(tasks), own)] = code.coefficients(message).T
            length = n_coordinates if (place := positions[message]) is None else place.shape[-1]
            # Equal rows give equal vectors only if they come from the same shard, and so have the same support.
            content = _content(code, tasks, coefficients)
            work, prior = float(code.works[message]), float(code.prior_works[message])
            spec = MessageSpec(message, work, length, problem.dtype, content, prior=prior)
            recipes.append(MessageRecipe(spec, task_sets.index(tasks), coefficients, within))
        own_shards, n_inputs = tuple(shards[tasks] for tasks in task_sets), max_points * problem.n_parameters
        fixed = n_inputs, curvature, -(-most_numbers // code.n_pieces), (__name__, *problem.preload)
        programs.append(CodedProgram(own_shards, tuple(recipes), *fixed, input_dtype=problem.dtype))
    return programs, Layout(n_coordinates, positions, problem.dtype)


def _shard(problem: Problem, code: GradientCode, ranges: Sequence[slice]) -> Shard:
    """Return the shard of some tasks; where tasks of linear models were cut, of the whole ones, and cut then."""
    if code.cut == 1:
        return problem.shard(ranges)
    cut = [ranges[first : first + code.cut] for first in range(0, len(ranges), code.cut)]
    whole = problem.shard([slice(own[0].start, own[-1].stop) for own in cut])
    assert isinstance(whole, LinearShard | StoredShard)
    return whole.cut([[rows.stop - rows.start for rows in own] for own in cut])


def with_tasks(
    programs: Sequence[CodedProgram], layout: Layout, code: GradientCode, by_task: GradientCode
) -> tuple[list[CodedProgram], Layout]:
    """Return programs that can also send their tasks one by one, and the layout of these messages.

    They are computed from the shard of the sum, and are as long as it.

    Arguments:
        programs: the programs of a code with one message a worker, from one shard each.
        layout: of their messages.
        code: that code.
        by_task: the same tasks on the same workers, a message each.
    """
    positions: list[NDArray[np.integer] | None] = [None] * by_task.n_messages
    both: list[CodedProgram] = []
    for worker, program in enumerate(programs):
        (recipe,) = program.sums
        own_tasks = code.tasks_of(worker)
        recipes: list[MessageRecipe] = []
        for row in by_task.messages_of(worker).tolist():
            (task,) = by_task.tasks_of_message(row).tolist()
            coefficients = (own_tasks == task).astype(float)[np.newaxis, :]
            spec = replace(
                recipe.spec,
                message=code.n_messages + row,
                work=by_task.task_work,
                content=_content(by_task, tuple(own_tasks.tolist()), coefficients),
            )
            recipes.append(MessageRecipe(spec, recipe.shard, coefficients, recipe.places))
            positions[row] = layout.positions[recipe.spec.message]
        both.append(replace(program, by_task=tuple(recipes)))
    return both, Layout(layout.n_coordinates, positions, layout.dtype)


def _task_sets(code: GradientCode, worker: int) -> list[tuple[int, tuple[int, ...]]]:
    """Return, for each message of a worker, the tasks of the shard that it is computed from.

    Messages over disjoint tasks get a shard each, for the smallest supports; messages that share tasks share one
    shard, so that no sample is holding twice.
    """
    messages = code.messages_of(worker).tolist()
    own = [frozenset(code.tasks_of_message(message).tolist()) for message in messages]
    shards: list[frozenset[int]] = []
    for tasks in own:
        touching = [shard for shard in shards if shard & tasks]
        shards = [shard for shard in shards if not shard & tasks] + [tasks.union(*touching)]
    holding = [next(shard for shard in shards if shard & tasks or shard == tasks) for tasks in own]
    return [(message, tuple(sorted(shard))) for message, shard in zip(messages, holding, strict=True)]


def _placed(code: GradientCode, shard: Shard, n_coordinates: int) -> tuple[IntArray | None, NDArray[np.integer] | None]:
    """Return where the elements of a shard's vector go: into a message, and from there to the coordinates.

    Group codes cut the vector into pieces along its own support, other codes at the same places everywhere.

    Returns:
        For each piece and element of the message, shape (n_pieces, length), -1 for padding: the element of the vector,
        or None if the message is that vector; and the coordinate, or None if it holds them all in order.
    """
    support = None if shard.support is None else np.append(shard.support, np.int32(n_coordinates - 1))
    if code.n_pieces == 1:
        return None, None if support is None else support[np.newaxis, :]
    everything = np.arange(n_coordinates)
    coordinates = everything if support is None else support
    if code.groups is not None:
        grid = _padded(np.arange(len(coordinates)), code.n_pieces)
        return grid, np.where(grid >= 0, coordinates[grid], -1)
    cut = _padded(everything, code.n_pieces)
    element = np.full(n_coordinates, -1, dtype=np.int64)
    element[coordinates] = np.arange(len(coordinates))
    return np.where(cut >= 0, element[cut], -1), cut


def _padded(values: IntArray, n_pieces: int) -> IntArray:
    return np.pad(values, (0, -len(values) % n_pieces), constant_values=-1).reshape(n_pieces, -1)


def _content(code: GradientCode, tasks: tuple[int, ...], coefficients: Array) -> int:
    """Return a number that identifies the content of a message: the same in every code, and in every run."""
    text = repr((tasks, code.n_pieces, code.groups is not None, coefficients.tolist()))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "big")

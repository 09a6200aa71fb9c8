"""What each worker sends: the programs of a code over a problem, and where their messages' elements belong.

Every message carries one more coordinate than its gradient: the tasks' losses, combined as their gradients are, so
that each step's estimate of the training loss costs nothing and has the same residual. An order may ask for curvatures:
then a second vector of the same length is appended, the tasks' curvatures, combined likewise. An order of kind
`"newton"` is answered by Newton steps of the messages' tasks, which are no sums over tasks and are never decoded.
"""

from __future__ import annotations

import copy
import hashlib
import pickle
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.decoding.layout import Layout
from erasurehead.engines.base import BY_TASK, MessageSpec, Order, Program
from erasurehead.optimizers.base import asks_curvature, work_of
from erasurehead.problems.base import NEWTON, Problem, Shard, split_samples

if TYPE_CHECKING:
    from erasurehead.codes.base import GradientCode


@dataclass(frozen=True, eq=False)
class Recipe:
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


class CodedProgram(Program):
    """A worker's share of a coded gradient: it combines the partial gradients of its tasks into its messages.

    Arguments:
        shards: the worker's data.
        recipes: how each of its messages is computed.
        problem: what is minimised.
        max_points: the largest number of points in an order.
        curvature: whether orders may ask for curvatures beside gradients: such messages are twice as long, and count
            for twice the work.
        by_task: how the messages are computed that answer orders by task, in the order of sending; none if such orders
            are answered like others.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        recipes: Sequence[Recipe],
        problem: Problem,
        max_points: int = 1,
        curvature: bool = False,
        by_task: Sequence[Recipe] = (),
    ) -> None:
        self.shards = tuple(shards)
        self.recipes = {recipe.spec.message: recipe for recipe in (*recipes, *by_task)}
        self.preload = problem.preload
        self._curvature = curvature
        self._message_specs = tuple(recipe.spec for recipe in recipes)
        self._by_task = tuple(recipe.spec for recipe in by_task)
        self._n_parameters = problem.n_parameters
        self._input_size = max_points * problem.n_parameters

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
            for recipe in self.recipes.values()
        )

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays, which are mainly those of its shards."""
        total = 0

        def count(buffer: pickle.PickleBuffer) -> bool:
            nonlocal total
            total += buffer.raw().nbytes
            return False

        pickle.dumps(self.shards, protocol=5, buffer_callback=count)
        return total

    def renumbered(self, messages: Sequence[int]) -> CodedProgram:
        """Return the same program with other message numbers, in the order of its `message_specs`."""
        renamed = [
            replace(self.recipes[spec.message], spec=replace(spec, message=message))
            for spec, message in zip((*self._message_specs, *self._by_task), messages, strict=True)
        ]
        program = copy.copy(self)
        program.recipes = {recipe.spec.message: recipe for recipe in renamed}
        specs, n_sums = tuple(recipe.spec for recipe in renamed), len(self._message_specs)
        program._message_specs, program._by_task = specs[:n_sums], specs[n_sums:]
        return program

    def with_tasks(self, by_task: Sequence[Recipe]) -> CodedProgram:
        """Return the same program, which answers orders by task with other messages.

        Arguments:
            by_task: how they are computed, in the order of sending, from the shards that it has.
        """
        program = copy.copy(self)
        program.recipes = {**self.recipes, **{recipe.spec.message: recipe for recipe in by_task}}
        program._by_task = tuple(recipe.spec for recipe in by_task)
        return program

    def sent(self, by_task: bool) -> Sequence[MessageSpec]:
        return self._by_task if by_task and self._by_task else self._message_specs

    @property
    def message_specs(self) -> Sequence[MessageSpec]:
        specs = (*self._message_specs, *self._by_task)
        return [with_curvature(one) for one in specs] if self._curvature else specs

    @property
    def input_size(self) -> int:
        return self._input_size

    def remaining(self, order: Order, done: Sequence[MessageSpec]) -> Sequence[MessageSpec]:
        return [as_asked(one, order) for one in self.sent(bool(order.note.get(BY_TASK, False)))[len(done) :]]

    def take(self, order: Order) -> Any:
        local = [[shard.take(point) for shard in self.shards] for point in order.points]
        newton = (order.note["damping"], order.note["iterations"]) if order.kind == NEWTON else None
        return local, order.coefficients or (1.0,) * len(local), order.step, newton

    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        recipe = self.recipes[spec.message]
        shard = self.shards[recipe.shard]
        if spec.vectors == 2:
            out, curvature = np.split(out, 2)
            self._add_curvature(recipe, shard, curvature)
        local, factors, step, newton = taken
        if newton is not None:
            vector = np.zeros(len(local[0][recipe.shard]) + 1)
            damping, iterations = newton
            point, wanted = (models[recipe.shard] for models in local)
            shard.newton_step(point, wanted, np.abs(recipe.coefficients[0]), damping, iterations, vector[:-1])
            out[:] = 0.0
            _place(vector, None if recipe.places is None else recipe.places[0], out)
            return
        target, scratch = out, np.empty(0)
        if recipe.places is not None or len(local) > 1:
            out[:] = 0.0
            target = scratch = np.empty(len(local[0][recipe.shard]) + 1)
        for models, factor in zip(local, factors, strict=True):
            for piece in range(len(recipe.coefficients)):
                coefficients = factor * recipe.coefficients[piece]
                target[-1] = shard.combine(models[recipe.shard], coefficients, step, target[:-1])
                if target is scratch:
                    _place(scratch, None if recipe.places is None else recipe.places[piece], out)

    def _add_curvature(self, recipe: Recipe, shard: Shard, out: Array) -> None:
        """Write the combined curvature, which is coded as gradients are."""
        out[:] = 0.0
        vector = np.empty((self._n_parameters if shard.support is None else len(shard.support)) + 1)
        for piece, coefficients in enumerate(recipe.coefficients):
            vector[-1] = shard.curvature(coefficients, vector[:-1])
            _place(vector, None if recipe.places is None else recipe.places[piece], out)


def as_asked(spec: MessageSpec, order: Order) -> MessageSpec:
    """Return a message as it answers an order: as long, and as much work, as what the order asks for."""
    if order.kind == NEWTON:
        return replace(spec, work=work_of(order) * spec.work)
    return with_curvature(spec) if asks_curvature(order) else spec


def with_curvature(spec: MessageSpec) -> MessageSpec:
    """Return a message with a curvature beside the gradient: twice as long, and twice the work."""
    return replace(spec, length=2 * spec.length, work=2.0 * spec.work, vectors=2)


def _place(vector: Array, places: IntArray | None, out: Array) -> None:
    if places is None:
        out += vector
    else:
        out += np.where(places >= 0, vector[places], 0.0)


Shards: TypeAlias = dict[tuple[int, ...], Shard]
"""Shards of a problem, by the tasks that they hold."""


def build_programs(
    code: GradientCode,
    problem: Problem,
    max_points: int = 1,
    shards: Shards | None = None,
    curvature: bool = False,
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

    Returns:
        The programs, one per worker; and the layout, whose last coordinate is the loss.

    Raises:
        InvalidArgument: if there are more tasks than samples.
    """
    ranges = split_samples(problem.n_samples, code.n_tasks)
    shards = {} if shards is None else shards
    positions: list[NDArray[np.integer] | None] = [None] * code.n_messages
    places: dict[tuple[int, ...], _Places] = {}  # equal for equal tasks, and kept once
    programs: list[CodedProgram] = []
    for worker in range(code.n_workers):
        held: list[tuple[int, ...]] = []
        recipes: list[Recipe] = []
        for message, tasks in _task_sets(code, worker):
            if tasks not in shards:
                shards[tasks] = problem.shard([ranges[task] for task in tasks])
            if tasks not in held:
                held.append(tasks)
            if tasks not in places:
                places[tasks] = _places(code, shards[tasks], problem.n_parameters)
            recipes.append(_recipe(code, message, tasks, held.index(tasks), places[tasks]))
            positions[message] = places[tasks].positions
        programs.append(CodedProgram([shards[tasks] for tasks in held], recipes, problem, max_points, curvature))
    return programs, Layout(problem.n_parameters + 1, positions)


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
    found: list[CodedProgram] = []
    for worker, program in enumerate(programs):
        (recipe,) = program.recipes.values()
        held = code.tasks_of(worker)
        recipes: list[Recipe] = []
        for row in by_task.messages_of(worker).tolist():
            (task,) = by_task.tasks_of_message(row).tolist()
            coefficients = (held == task).astype(float)[np.newaxis, :]
            spec = replace(
                recipe.spec,
                message=code.n_messages + row,
                work=1.0,
                content=_content(by_task, tuple(held.tolist()), coefficients),
            )
            recipes.append(Recipe(spec, recipe.shard, coefficients, recipe.places))
            positions[row] = layout.positions[recipe.spec.message]
        found.append(program.with_tasks(recipes))
    return found, Layout(layout.n_coordinates, positions)


def _task_sets(code: GradientCode, worker: int) -> list[tuple[int, tuple[int, ...]]]:
    """Return, for each message of a worker, the tasks of the shard that it is computed from.

    Messages over disjoint tasks get a shard each, for the smallest supports; messages that share tasks share one
    shard, so that no sample is held twice.
    """
    messages = code.messages_of(worker).tolist()
    own = [frozenset(code.tasks_of_message(message).tolist()) for message in messages]
    shards: list[frozenset[int]] = []
    for tasks in own:
        touching = [shard for shard in shards if shard & tasks]
        shards = [shard for shard in shards if not shard & tasks] + [tasks.union(*touching)]
    held = [next(shard for shard in shards if shard & tasks or shard == tasks) for tasks in own]
    return [(message, tuple(sorted(shard))) for message, shard in zip(messages, held, strict=True)]


@dataclass(frozen=True, eq=False)
class _Places:
    """Where the elements of a shard's vector go: into a message (`Recipe.places`), and from there to the coordinates.

    Attributes:
        within: for each piece and element of the message, the element of the vector; None if the message is that
            vector.
        positions: for each piece and element of the message, the coordinate; None if it holds them all in order.
        length: length of the message.
    """

    within: IntArray | None
    positions: NDArray[np.integer] | None
    length: int


def _places(code: GradientCode, shard: Shard, n_parameters: int) -> _Places:
    coordinates = None if shard.support is None else np.append(shard.support, np.int32(n_parameters))
    if code.n_pieces > 1:
        within, positions = _cut(code, coordinates, n_parameters + 1)
        return _Places(within, positions, within.shape[1])
    if coordinates is None:
        return _Places(None, None, n_parameters + 1)
    return _Places(None, coordinates[np.newaxis, :], len(coordinates))


def _recipe(code: GradientCode, message: int, tasks: tuple[int, ...], index: int, places: _Places) -> Recipe:
    own = code.tasks_of_message(message)
    coefficients = np.zeros((code.n_pieces, len(tasks)))
    coefficients[:, np.searchsorted(np.asarray(tasks), own)] = code.coefficients(message).T
    # Equal rows give equal vectors only if they come from the same shard, and so have the same support.
    spec = MessageSpec(message, float(len(own)), places.length, content=_content(code, tasks, coefficients))
    return Recipe(spec, index, coefficients, places.within)


def _content(code: GradientCode, tasks: tuple[int, ...], coefficients: Array) -> int:
    """Return a number that identifies the content of a message: the same in every code, and in every run."""
    said = repr((tasks, code.n_pieces, code.groups is not None, coefficients.tolist()))
    return int.from_bytes(hashlib.blake2b(said.encode(), digest_size=7).digest(), "big")


def _cut(code: GradientCode, coordinates: NDArray[np.integer] | None, n_coordinates: int) -> tuple[IntArray, IntArray]:
    """Cut a shard's vector into pieces: in group codes along its own support, else at the same places everywhere.

    Returns:
        For each piece and element of the message: the element of the shard's vector, and the coordinate; -1 for
        padding. Both of shape (n_pieces, length).
    """
    everything = np.arange(n_coordinates)
    if coordinates is None:
        coordinates = everything
    if code.groups is not None:
        grid = _padded(np.arange(len(coordinates)), code.n_pieces)
        return grid, np.where(grid >= 0, coordinates[grid], -1)
    cut = _padded(everything, code.n_pieces)
    element = np.full(n_coordinates, -1, dtype=np.int64)
    element[coordinates] = np.arange(len(coordinates))
    return np.where(cut >= 0, element[cut], -1), cut


def _padded(values: IntArray, n_pieces: int) -> IntArray:
    length = -(-len(values) // n_pieces)
    grid = np.full(n_pieces * length, -1, dtype=np.int64)
    grid[: len(values)] = values
    return grid.reshape(n_pieces, length)

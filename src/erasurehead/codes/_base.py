"""Gradient codes: immutable data that says who computes what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import sparse

from erasurehead._internal.arrays import Array, BoolArray, IntArray, check_among, real_numbers, whole_numbers
from erasurehead._internal.foreign_arrays import freeze
from erasurehead._internal.shown import shown
from erasurehead.codes._assemble import is_settled, settle
from erasurehead.codes._equal_rows import first_equal_row
from erasurehead.codes._structure import Structure
from erasurehead.errors import check_count, counted, invalid

if TYPE_CHECKING:
    from erasurehead._internal.arrays import SparseMatrix
    from erasurehead.codes._spectrum import Spectrum

_LONGEST = 60  # characters of a parameter's value in the text of a code


@dataclass(frozen=True, eq=False)
class GradientCode:
    """Which worker holds which task, and the coefficients of every message.

    A *message* is one vector that a worker sends: message `i` is `encoding[i] @ partial_gradients`, where the
    partial gradients are stacked by task and, within a task, by piece. Most codes have one message per worker
    and one piece; nested and multi-message codes have several messages per owner, sent in the order of their
    rows, and communication-efficient codes have several pieces.

    The rows of `encoding` are messages (Tandon et al.'s B); the ErasureHead paper's G is the transpose.

    Arguments:
        name: the family, as in the catalogue, such as `"fractional_repetition"`.
        parameters: what the code was built from, enough to rebuild it.
        encoding: sparse matrix, shape (n_messages, n_tasks * n_pieces), real and finite. Column
            `task * n_pieces + piece`. A complex row is two real rows with one owner.
        owner: the worker that sends each message, shape (n_messages,), in 0..n_workers-1.
        n_workers: number of workers, at least 1.
        n_tasks: number of tasks (partitions of the samples), at least 1.
        n_pieces: number of pieces into which a gradient is cut; messages are that many times shorter.
        groups: the group of each message, shape (n_messages,), or None. Messages of different groups touch no
            common task, so that each group is decoded by itself.
        tolerance: any set of at most this many stragglers still decodes exactly; None where nothing of the kind is
            promised, not even if all workers answer.
        source: paper, section and equation.
        inner: the codes that this one is made of, if any: the codes of the levels; the code of the coded messages; or,
            with refined tasks, the code over the unrefined ones.
        structure: what else the construction knows, for decoders, reports and analysis.
        task_work: how much work a task is: 1, but where the share of a worker is cut into several tasks on purpose, so
            that times of such codes and of others can be compared.
        cut: how many tasks in a row are one that was cut: whoever holds one of them holds all, and what is computed of
            them touches the same coordinates.
    """

    name: str
    parameters: Mapping[str, object]
    encoding: SparseMatrix
    owner: IntArray
    n_workers: int
    n_tasks: int
    n_pieces: int = 1
    groups: IntArray | None = None
    tolerance: int | None = None
    source: str = ""
    inner: tuple[GradientCode, ...] = ()
    structure: Structure = field(default_factory=Structure)
    task_work: float = 1.0
    cut: int = 1

    def __post_init__(self) -> None:
        for name in ("n_workers", "n_tasks", "n_pieces"):
            object.__setattr__(self, name, check_count(name, getattr(self, name)))
        if self.tolerance is not None:
            object.__setattr__(self, "tolerance", check_count("tolerance", self.tolerance, at_least=0))
        # A settled matrix is read-only and shared; any other is copied, so that nobody can change this code.
        encoding = self.encoding
        if np.iscomplexobj(encoding):
            raise invalid("encoding", "must be real", "a complex matrix", "give a complex row as two real ones")
        if not (sparse.issparse(encoding) and is_settled(encoding)):
            given = encoding if sparse.issparse(encoding) else real_numbers("encoding", encoding)
            encoding = settle(sparse.csr_array(given).astype(np.float64))
        owner = whole_numbers("owner", self.owner)
        if not len(owner):
            raise invalid("owner", "must name the worker of each message, of which there is at least one", [])
        expected = (len(owner), self.n_tasks * self.n_pieces)
        if encoding.shape != expected:
            raise invalid("encoding", f"must have shape (messages, n_tasks * n_pieces) = {expected}", encoding.shape)
        if not np.isfinite(encoding.data).all():
            raise invalid("encoding", "must be finite", "a matrix with NaN or infinity")
        check_among("owner", owner, self.n_workers, "must name workers")
        groups = None if self.groups is None else whole_numbers("groups", self.groups)
        if groups is not None and groups.shape != owner.shape:
            raise invalid("groups", f"must have one entry for each of {counted('message', len(owner))}", groups.shape)
        if groups is not None and (groups.min() < 0 or not np.bincount(groups).all()):
            raise invalid("groups", "must be numbered 0, 1, 2, ... without gaps", np.unique(groups)[:10].tolist())
        for array in (owner, groups):
            if array is not None:
                freeze(array)
        object.__setattr__(self, "encoding", encoding)
        object.__setattr__(self, "owner", owner)
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    def __reduce__(self) -> tuple[Callable[..., GradientCode], tuple[object, ...]]:
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return partial(GradientCode, **values | {"parameters": dict(self.parameters)}), ()  # proxies cannot be pickled

    @property
    def n_messages(self) -> int:
        """Number of messages per step, over all workers."""
        return len(self.owner)

    @cached_property
    def assignment(self) -> SparseMatrix:
        """Which worker holds which task: 0/1 matrix of shape (n_workers, n_tasks)."""
        rows = self.owner[np.repeat(np.arange(self.n_messages), np.diff(self.encoding.indptr))]
        columns = self.encoding.indices // self.n_pieces
        matrix = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(self.n_workers, self.n_tasks))
        matrix.sum_duplicates()
        matrix.data[:] = 1.0
        return matrix

    @cached_property
    def loads(self) -> IntArray:
        """Number of tasks that each worker computes, shape (n_workers,)."""
        return np.diff(self.assignment.indptr).astype(np.int64)

    @property
    def load(self) -> int:
        """The largest number of tasks that any worker computes."""
        return int(self.loads.max())

    @cached_property
    def replication(self) -> IntArray:
        """Number of workers that hold each task, shape (n_tasks,)."""
        return np.bincount(self.assignment.indices, minlength=self.n_tasks).astype(np.int64)

    @cached_property
    def _message_index(self) -> tuple[IntArray, IntArray]:
        order = np.argsort(self.owner, kind="stable")
        starts = np.searchsorted(self.owner[order], np.arange(self.n_workers + 1))
        return order, starts.astype(np.int64)

    @cached_property
    def messages_per_worker(self) -> IntArray:
        """Number of messages that each worker sends per step, shape (n_workers,)."""
        return np.diff(self._message_index[1])

    @cached_property
    def one_message_each(self) -> bool:
        """Whether every worker sends exactly one message, so that s stragglers are s missing messages."""
        return self.n_messages == self.n_workers and bool((self.messages_per_worker == 1).all())

    def messages_of(self, worker: int) -> IntArray:
        """Return the messages of a worker in the order in which it sends them."""
        worker = self._one_of("worker", worker, self.n_workers)
        order, starts = self._message_index
        return order[starts[worker] : starts[worker + 1]]

    def messages_of_workers(self, workers: Sequence[int] | IntArray) -> IntArray:
        """Return the messages of all the given workers, ascending."""
        return np.flatnonzero(self._among(workers)[self.owner])

    def messages_without(self, stragglers: Sequence[int] | IntArray) -> IntArray:
        """Return the messages of all workers but the stragglers, ascending.

        Raises:
            InvalidArgument: if a straggler is not a worker, or is named twice, or there are more stragglers than
                workers.
        """
        gone = whole_numbers("stragglers", stragglers)
        if len(gone) > self.n_workers:
            raise invalid("stragglers", f"must be at most the {self.n_workers} workers", len(gone))
        missing = self._among(gone)
        if int(missing.sum()) < len(gone):
            raise invalid("stragglers", "must name nobody twice", np.sort(gone).tolist())
        return np.flatnonzero(~missing[self.owner])

    @staticmethod
    def _one_of(argument: str, number: int, count: int) -> int:
        if not 0 <= number < count:
            raise invalid(argument, f"must be among 0..{count - 1}", number)
        return number

    def _among(self, workers: Sequence[int] | IntArray) -> BoolArray:
        chosen = whole_numbers("workers", workers)
        check_among("workers", chosen, self.n_workers)
        present = np.zeros(self.n_workers, dtype=bool)
        present[chosen] = True
        return present

    def tasks_of(self, worker: int) -> IntArray:
        """Return the tasks that a worker holds, ascending."""
        worker, assignment = self._one_of("worker", worker, self.n_workers), self.assignment
        return np.sort(assignment.indices[assignment.indptr[worker] : assignment.indptr[worker + 1]]).astype(np.int64)

    def tasks_of_message(self, message: int) -> IntArray:
        """Return the tasks whose partial gradients a message combines, ascending."""
        message, encoding = self._one_of("message", message, self.n_messages), self.encoding
        columns = encoding.indices[encoding.indptr[message] : encoding.indptr[message + 1]].astype(np.int64)
        return columns if self.n_pieces == 1 else np.unique(columns // self.n_pieces)

    def coefficients(self, message: int) -> Array:
        """Return the coefficients of a message over its own tasks, shape (tasks of the message, n_pieces)."""
        message, encoding = self._one_of("message", message, self.n_messages), self.encoding
        span = slice(encoding.indptr[message], encoding.indptr[message + 1])
        tasks, local = np.unique(encoding.indices[span] // self.n_pieces, return_inverse=True)
        table = np.zeros((len(tasks), self.n_pieces))
        table[local, encoding.indices[span] % self.n_pieces] = encoding.data[span]
        return table

    @cached_property
    def complex_part(self) -> IntArray:
        """For each message 0 if it is real, or the real part of a complex row, and 1 if it is an imaginary part."""
        part = self.structure.complex_part
        return np.zeros(self.n_messages, dtype=np.int64) if part is None else part

    @cached_property
    def works(self) -> Array:
        """How much work each message is, shape (n_messages,): its tasks, each of `task_work`."""
        if self.n_pieces == 1:
            counts = np.diff(self.encoding.indptr)
        else:
            counts = np.array([len(self.tasks_of_message(message)) for message in range(self.n_messages)])
        return self.task_work * counts

    @cached_property
    def prior_works(self) -> Array:
        """How much of each message's work its worker has done for the message before it, shape (n_messages,).

        Not 0 for nested codes alone, of which each message is of the tasks of the one before, and one more.
        """
        prior = np.zeros(self.n_messages)
        if self.structure.levels is not None:
            order, _ = self._message_index
            same = np.diff(self.owner[order]) == 0
            prior[order[1:]] = np.where(same, self.works[order[:-1]], 0.0)
        return prior

    @cached_property
    def totals(self) -> Array:
        """Sum over tasks of each message's coefficients, by piece, shape (n_messages, n_pieces)."""
        pieces = np.tile(np.eye(self.n_pieces), (self.n_tasks, 1))
        return np.asarray(self.encoding @ pieces)

    @cached_property
    def target(self) -> Array:
        """The target of decoding, shape (n_pieces, n_tasks * n_pieces): for each piece ones over all tasks."""
        return np.tile(np.eye(self.n_pieces), (1, self.n_tasks))

    @cached_property
    def replicas(self) -> bool:
        """Whether all messages of a group are equal, so that one arrival gives the whole group."""
        if self.groups is None or self.n_pieces != 1:
            return False
        return bool((self.content == self._first_of_group[self.groups]).all())

    @cached_property
    def _first_of_group(self) -> IntArray:
        assert self.groups is not None
        first = np.full(int(self.groups.max()) + 1, self.n_messages, dtype=np.int64)
        np.minimum.at(first, self.groups, np.arange(self.n_messages))
        return self.content[first]

    @cached_property
    def content(self) -> IntArray:
        """For each message the first message with the same row: equal entries mean equal vectors."""
        return first_equal_row(self.encoding)

    @cached_property
    def spectrum(self) -> Spectrum:
        """The two largest singular values of the encoding, computed when first needed."""
        from erasurehead.codes._spectrum import spectrum_of  # imports scipy's eigensolvers

        return spectrum_of(self.encoding)

    def with_structure(self, **facts: Any) -> GradientCode:
        """Return the same code with additional facts in its structure."""
        return replace(self, structure=replace(self.structure, **facts))

    def __repr__(self) -> str:
        return _call_text(self.name, self.parameters)

    def _repr_html_(self) -> str:
        return shown("codes._picture", "code_page")(self)

    def plot(self, ax: Any = None) -> Any:
        """Draw which worker holds which task, with which coefficient, by matplotlib (the extra `report`).

        Where there are hundreds of workers or tasks, neighbours share a cell, which has the largest coefficient.

        Arguments:
            ax: where to draw; by default in a new figure.

        Returns:
            The axes.

        Raises:
            InvalidArgument: if `ax` is something else.
            MissingExtra: if matplotlib is not installed.
        """
        return shown("codes._picture", "plot_code")(self, ax)


def _call_text(name: object, parameters: Mapping[str, object]) -> str:
    """Return a call with its parameters; long values are abbreviated, and described codes are nested calls.

    >>> _call_text("refine", {"code": {"name": "uncoded", "n_workers": 2}, "n_tasks": 4})
    'refine(code=uncoded(n_workers=2), n_tasks=4)'
    """
    return f"{name}({', '.join(f'{key}={_value_text(value)}' for key, value in parameters.items())})"


def _value_text(value: object) -> str:
    if isinstance(value, Mapping):
        inner = cast("Mapping[str, object]", value)
        if "name" in inner:
            return _call_text(inner["name"], {key: inner[key] for key in inner if key != "name"})
    text = f"{value!r}"
    return text if len(text) <= _LONGEST else "..."


def one_message_code(
    *,
    name: str,
    parameters: Mapping[str, object],
    encoding: SparseMatrix,
    tolerance: int | None,
    source: str,
    structure: Structure,
    groups: IntArray | None = None,
) -> GradientCode:
    """Return a code of one piece in which each worker sends one message: worker i row i.

    Arguments:
        name, parameters, encoding, tolerance, source, structure, groups: as for `GradientCode`.
    """
    n_workers, n_tasks = encoding.shape
    return GradientCode(
        name=name,
        parameters=parameters,
        encoding=encoding,
        owner=np.arange(n_workers),
        n_workers=n_workers,
        n_tasks=n_tasks,
        groups=groups,
        tolerance=tolerance,
        source=source,
        structure=structure,
    )

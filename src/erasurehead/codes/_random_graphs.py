"""Random regular graphs of up to millions of vertices: random stubs, repaired until the graph is simple."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from erasurehead._internal.arrays import BoolArray, IntArray
from erasurehead.codes._assemble import from_rows
from erasurehead.errors import InvalidArgument

_ROUNDS = 1_000  # repairs tried on one draw; a handful is enough except for dense graphs of a few vertices
_DRAWS = 20


def random_regular_edges(n_vertices: int, degree: int, random: np.random.Generator) -> IntArray:
    """Return the edges of a random simple connected regular graph, shape (n_vertices * degree / 2, 2).

    For degree 2 the only connected graph is a cycle. Graphs denser than half are drawn as
    complements.

    Arguments:
        n_vertices: number of vertices, more than `degree`.
        degree: at least 2; n_vertices * degree must be even.
        random: the generator to draw from.

    Raises:
        InvalidArgument: if every draw was disconnected.
    """
    if degree == 2:
        circle = random.permutation(n_vertices)
        return np.stack([circle, np.roll(circle, -1)], axis=1)
    for _ in range(_DRAWS):
        if degree > (n_vertices - 1) / 2:
            edges = _complement(n_vertices, _simple_edges(n_vertices, n_vertices - 1 - degree, random))
        else:
            edges = _simple_edges(n_vertices, degree, random)
        if is_connected(n_vertices, edges):
            return edges
    raise _not_drawn(
        f"No connected {degree}-regular graph of {n_vertices} vertices came in {_DRAWS} draws", "connected"
    )


def is_connected(n_vertices: int, edges: IntArray) -> bool:
    """Whether every vertex can be reached from every other."""
    return _components(n_vertices, edges)[0] == 1


def sides(n_vertices: int, edges: IntArray) -> IntArray | None:
    """Return the side, 0 or 1, of each vertex of a connected graph without odd cycles; None if there is one.

    Without an odd cycle the double cover consists of two copies, and the copy that contains (vertex, 0) is the side.
    """
    shift = np.array([0, n_vertices])
    cover = np.concatenate([edges + shift, edges + shift[::-1]])
    components, labels = _components(2 * n_vertices, cover)
    return labels[:n_vertices] if components == 2 else None


def neighbours(n_vertices: int, edges: IntArray) -> IntArray:
    """Return the neighbours of every vertex of a regular graph, ascending, shape (n_vertices, degree)."""
    ends = np.concatenate([edges, edges[:, ::-1]])
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    return ends[order, 1].reshape(n_vertices, -1)


def biregular_columns(row_sizes: IntArray, column_sizes: IntArray, random: np.random.Generator) -> IntArray:
    """Return random distinct columns for every row, so that every column is used as often as requested.

    Arguments:
        row_sizes: number of columns of each row.
        column_sizes: number of rows of each column; the same total.
        random: the generator to draw from.

    Returns:
        The columns, row after row, ascending within a row; shape (total,).

    Raises:
        InvalidArgument: if the repair of repeated columns did not finish.
    """
    n_rows, n_columns = len(row_sizes), len(column_sizes)
    total = int(row_sizes.sum())
    if 2 * total > n_rows * n_columns:
        absent = biregular_columns(n_columns - row_sizes, n_rows - column_sizes, random)
        present = np.ones((n_rows, n_columns), dtype=bool)
        present[np.repeat(np.arange(n_rows), n_columns - row_sizes), absent] = False
        return np.nonzero(present)[1].astype(np.int64)
    rows = np.repeat(np.arange(n_rows, dtype=np.int64), row_sizes)
    columns = random.permutation(np.repeat(np.arange(n_columns, dtype=np.int64), column_sizes))
    columns = _repair(rows, columns, lambda row, column: row * n_columns + column, random)
    if columns is None:
        failure = f"No matrix of {n_rows} rows and {n_columns} columns with these sums came in {_ROUNDS} repairs"
        raise _not_drawn(failure, "simple", "try another seed or a smaller load")
    return np.sort(rows * n_columns + columns) % n_columns


def _simple_edges(n_vertices: int, degree: int, random: np.random.Generator) -> IntArray:
    # The configuration model: stubs joined at random, then repaired.
    if degree == 0:
        return np.zeros((0, 2), dtype=np.int64)

    def key(one: IntArray, other: IntArray) -> IntArray:
        low, high = np.minimum(one, other), np.maximum(one, other)
        return np.where(low == high, -1, low * n_vertices + high)

    stubs = random.permutation(np.repeat(np.arange(n_vertices, dtype=np.int64), degree)).reshape(-1, 2)
    ends = _repair(stubs[:, 0], stubs[:, 1], key, random)
    if ends is None:
        failure = f"No simple {degree}-regular graph of {n_vertices} vertices came in {_ROUNDS} repairs"
        raise _not_drawn(failure, "simple")
    return np.stack([stubs[:, 0], ends], axis=1)


def _repair(
    left: IntArray, right: IntArray, key: Callable[[IntArray, IntArray], IntArray], random: np.random.Generator
) -> IntArray | None:
    """Exchange right ends until no pair is forbidden (a negative key) and none occurs twice.

    Every invalid pair picks a random partner, and the two swap their right ends if both new pairs are unused and no
    other swap of the round touches them; so no round makes anything worse.
    """
    right = right.copy()
    for _ in range(_ROUNDS):
        keys = key(left, right)
        wrong = np.flatnonzero(_repeats(keys) | (keys < 0))
        if not len(wrong):
            return right
        partner = random.integers(0, len(left), len(wrong))
        first, second = key(left[wrong], right[partner]), key(left[partner], right[wrong])
        taken = np.sort(keys)
        free = _absent(first, taken) & _absent(second, taken) & (first >= 0) & (second >= 0)
        alone = _single(np.concatenate([wrong, partner])) & _single(np.concatenate([first, second]))
        free &= alone[: len(wrong)] & alone[len(wrong) :]
        wrong, partner = wrong[free], partner[free]
        right[wrong], right[partner] = right[partner], right[wrong]
    return None


def _absent(keys: IntArray, ordered: IntArray) -> BoolArray:
    place = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    return ordered[place] != keys


def _single(values: IntArray) -> BoolArray:
    """Return which values occur only once."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return counts[inverse] == 1


def _repeats(keys: IntArray) -> BoolArray:
    """Return which keys have occurred before."""
    order = np.argsort(keys, kind="stable")
    repeats = np.zeros(len(keys), dtype=bool)
    ordered = keys[order]
    repeats[order[1:]] = ordered[1:] == ordered[:-1]
    return repeats


def _complement(n_vertices: int, edges: IntArray) -> IntArray:
    missing = np.ones((n_vertices, n_vertices), dtype=bool)
    missing[edges[:, 0], edges[:, 1]] = False
    missing[edges[:, 1], edges[:, 0]] = False
    return np.argwhere(np.triu(missing, 1)).astype(np.int64)


def _components(n_vertices: int, edges: IntArray) -> tuple[int, IntArray]:
    from scipy.sparse import csgraph  # a tenth of a second to import

    order = np.argsort(edges[:, 0], kind="stable")
    sizes = np.bincount(edges[:, 0], minlength=n_vertices).astype(np.int64)
    components, labels = csgraph.connected_components(from_rows(edges[order, 1], sizes, n_vertices), directed=False)
    return components, labels.astype(np.int64)


def _not_drawn(failure: str, wanted: str, instead: str = "try another seed") -> InvalidArgument:
    return InvalidArgument("seed", f"must give a {wanted} graph", hint=instead, sentence=f"{failure}; {instead}.")

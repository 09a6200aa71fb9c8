"""Machine code for graph codes, whose messages are edges between tasks: union-find for the residual, trees for weights.

Within a connected component there is at most one direction, `signs` (+1 or -1 per task), that no message sees: every
edge `p g_u + q g_v` of it has `p signs_u + q signs_v = 0`. A component with an odd cycle, or with a message of a
single task, has none and is decoded exactly. All kernels change their array arguments in place.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array, BoolArray
from erasurehead._internal.jit import compiled_when_called

Index = NDArray[np.int32]


@compiled_when_called
def join(
    newcomers: Index,
    starts: Index,
    columns: Index,
    values: Array,
    parents: Index,
    signs: Array,
    sizes: Array,
    balances: Array,
    scalars: Array,
    residuals: Array,
) -> None:
    """Add messages one by one; maintain the residual, which is the sum of balance^2 / size over the components.

    Arguments:
        newcomers: messages to add; adding one twice changes nothing.
        starts, columns, values: rows of the encoding, at most two entries each.
        parents, signs: forest over the tasks; a task's sign is that relative to its parent.
        sizes, balances: tasks of each root's component, and the sum of their signs relative to the root; a
            component that is decoded exactly has a size of infinity.
        scalars: the residual, as an array of one element.
        residuals: filled with the residual after each newcomer.
    """
    residual = scalars[0]
    for position in range(newcomers.shape[0]):
        begin = starts[newcomers[position]]
        entries = starts[newcomers[position] + 1] - begin
        if entries > 0:
            first = columns[begin]
            sign = 1.0
            while parents[first] != first:
                signs[first] *= signs[parents[first]]
                parents[first] = parents[parents[first]]
                sign *= signs[first]
                first = parents[first]
            second = first
            if entries == 2:
                second = columns[begin + 1]
                sign *= -values[begin + 1] / values[begin]
                while parents[second] != second:
                    signs[second] *= signs[parents[second]]
                    parents[second] = parents[parents[second]]
                    sign *= signs[second]
                    second = parents[second]
            before = balances[first] ** 2 / sizes[first]
            if second != first:
                before += balances[second] ** 2 / sizes[second]
                if sizes[first] < sizes[second]:
                    first, second = second, first
                parents[second] = first
                signs[second] = sign
                sizes[first] += sizes[second]
                balances[first] += sign * balances[second]
            elif entries == 1 or sign < 0.0:
                sizes[first] = np.inf
            after = balances[first] ** 2 / sizes[first]
            residual = min(residual, max(0.0, residual - (before - after)))
        residuals[position] = residual
    scalars[0] = residual


@compiled_when_called
def smooth(
    here: Index,
    firsts: Index,
    seconds: Index,
    first_values: Array,
    second_values: Array,
    weights: Array,
    gap: Array,
    steps: int,
) -> None:
    """Start from the best uniform weights and improve them by a few steps of steepest descent.

    Arguments:
        here: messages that have arrived.
        firsts, seconds, first_values, second_values: the two ends of each message and its coefficients there; a
            message with fewer ends has coefficients of zero.
        weights, gap: filled with weights of all messages, zero if not arrived, and 1 - B'weights.
        steps: number of steps of steepest descent; each takes one pass over the messages.
    """
    n_tasks = gap.shape[0]
    direction = np.empty(here.shape[0])
    product = np.empty(n_tasks)
    weights[:] = 0.0
    gap[:] = 1.0
    length = 0.0
    for step in range(steps + 1):
        product[:] = 0.0
        for place in range(here.shape[0]):
            message = here[place]
            first, second = firsts[message], seconds[message]
            at_first, at_second = first_values[message], second_values[message]
            slope = 1.0
            if step > 0:
                weights[message] += length * direction[place]  # of the step before, whose length is known by now
                slope = at_first * gap[first] + at_second * gap[second]
            direction[place] = slope
            product[first] += at_first * slope
            product[second] += at_second * slope
        along, square = 0.0, 0.0
        for task in range(n_tasks):
            along += product[task] * gap[task]
            square += product[task] * product[task]
        length = along / square if square > 0.0 else 0.0
        for task in range(n_tasks):
            gap[task] -= length * product[task]
    for place in range(here.shape[0]):
        weights[here[place]] += length * direction[place]


@compiled_when_called
def weigh(
    arrived: BoolArray,
    starts: Index,
    messages: Index,
    neighbours: Index,
    mine: Array,
    theirs: Array,
    weights: Array,
    gap: Array,
) -> None:
    """Correct weights to an optimal decoding, by one walk over a spanning forest.

    Arguments:
        arrived: whether each message has arrived.
        starts: index of each task's first end.
        messages, neighbours, mine, theirs: for each end of a message, by task: the message, the task at its other end
            (-1 if it has none), and its coefficients here and there.
        weights: any weights of the arrived messages; replaced by optimal ones, which are close if these are.
        gap: 1 - B'weights, one entry per task; on return, what no weights can remove.
    """
    n_tasks = gap.shape[0]
    order = np.empty(n_tasks, dtype=np.int32)
    upward = np.full(n_tasks, -1, dtype=np.int32)  # the end, seen from the parent, that leads here
    parents = np.empty(n_tasks, dtype=np.int32)
    signs = np.zeros(n_tasks)
    for root in range(n_tasks):
        if signs[root] != 0.0:
            continue
        order[0] = root
        signs[root] = 1.0
        count, at = 1, 0
        closing, closing_from, seen = -1, -1, 0.0
        while at < count:
            task = order[at]
            at += 1
            for end in range(starts[task], starts[task + 1]):
                if not arrived[messages[end]]:
                    continue
                neighbour = neighbours[end]
                if neighbour >= 0 and signs[neighbour] == 0.0:
                    signs[neighbour] = -signs[task] * mine[end] / theirs[end]
                    upward[neighbour] = end
                    parents[neighbour] = task
                    order[count] = neighbour
                    count += 1
                elif closing < 0:
                    visible = mine[end] * signs[task]
                    if neighbour >= 0:
                        visible += theirs[end] * signs[neighbour]
                    if visible != 0.0:
                        closing, closing_from, seen = end, task, visible
        hidden = 0.0
        for at in range(count):
            hidden += signs[order[at]] * gap[order[at]]
        if closing >= 0:
            step = hidden / seen
            weights[messages[closing]] += step
            gap[closing_from] -= step * mine[closing]
            if neighbours[closing] >= 0:
                gap[neighbours[closing]] -= step * theirs[closing]
            hidden = 0.0
        hidden /= count
        for back in range(count - 1, 0, -1):
            task = order[back]
            end = upward[task]
            step = (gap[task] - hidden * signs[task]) / theirs[end]
            weights[messages[end]] += step
            gap[task] = hidden * signs[task]
            gap[parents[task]] -= step * mine[end]

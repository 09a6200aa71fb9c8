# pyright: basic
"""Slices, gathers and scatters as XLA has them."""

import numpy as np


def dynamic_slice(x, starts, sizes):
    """Return a slice that begins at `starts`, moved so that it lies within the array."""
    index = []
    for start, size, length in zip(starts, sizes, x.shape, strict=True):
        first = min(max(int(start), 0), length - size)
        index.append(slice(first, first + size))
    return x[tuple(index)]


def dynamic_update_slice(x, update, starts):
    """Return a copy with a slice replaced; the slice is moved so that it lies within the array."""
    index = []
    for start, size, length in zip(starts, update.shape, x.shape, strict=True):
        first = min(max(int(start), 0), length - size)
        index.append(slice(first, first + size))
    result = np.array(x)
    result[tuple(index)] = update
    return result


def window_index(
    shape, indices, sizes, window_dims, index_map, batching, index_batching
):
    """Return the places of windows in an array of a shape, and which lie within it.

    Places are given per axis of the array, with axes for the windows first, and the axes within them behind.
    """
    batch = indices.shape[:-1]
    rank = len(batch) + len(window_dims)
    places, valid = [], np.ones(batch, bool)
    for axis, (length, size) in enumerate(zip(shape, sizes, strict=True)):
        place = np.zeros((1,) * rank, np.int64)
        if axis in index_map:
            start = indices[..., index_map.index(axis)].astype(np.int64)
            valid &= (start >= 0) & (start <= length - size)
            start = np.clip(start, 0, length - size)
            place = place + start.reshape(batch + (1,) * len(window_dims))
        if axis in batching:
            along = index_batching[batching.index(axis)]
            steps = [1] * rank
            steps[along] = batch[along]
            place = place + np.arange(batch[along]).reshape(steps)
        if axis in window_dims:
            steps = [1] * rank
            steps[len(batch) + window_dims.index(axis)] = size
            place = place + np.arange(size).reshape(steps)
        places.append(place)
    return places, valid


def gather(
    x,
    indices,
    sizes,
    offset_dims,
    collapsed,
    index_map,
    batching=(),
    index_batching=(),
    fill=None,
):
    """Take windows of an array; those outside of it are moved inside, or filled with `fill`."""
    kept = [
        axis for axis in range(x.ndim) if axis not in collapsed and axis not in batching
    ]
    places, valid = window_index(
        x.shape, indices, sizes, kept, index_map, batching, index_batching
    )
    batch = indices.shape[:-1]
    shape = batch + tuple(sizes[axis] for axis in kept)
    taken = x[tuple(places)] if places else x
    taken = np.broadcast_to(taken, shape)
    if fill is not None:
        taken = np.where(valid.reshape(batch + (1,) * len(kept)), taken, fill)
    rest = [axis for axis in range(len(shape)) if axis not in offset_dims]
    return np.moveaxis(taken, range(len(shape)), [*rest, *offset_dims])


def scatter(
    x,
    indices,
    updates,
    combine,
    window_dims,
    inserted,
    index_map,
    batching=(),
    index_batching=(),
    clip=False,
):
    """Return a copy with windows of it combined with updates; those outside of it are left out, or moved inside."""
    result = np.array(x)
    kept = [
        axis for axis in range(x.ndim) if axis not in inserted and axis not in batching
    ]
    rest = [axis for axis in range(updates.ndim) if axis not in window_dims]
    updates = np.transpose(updates, [*rest, *window_dims])
    sizes = [1] * x.ndim
    for axis, length in zip(kept, updates.shape[len(rest) :], strict=True):
        sizes[axis] = length
    places, valid = window_index(
        x.shape, indices, sizes, kept, index_map, batching, index_batching
    )
    used = np.ones_like(valid) if clip else valid
    index = tuple(np.broadcast_to(place, updates.shape)[used] for place in places)
    if not index:
        index = (...,)
    if combine is None:
        result[index] = updates[used]
    else:
        combine.at(result, index, updates[used])
    return result


def pad(x, value, config):
    """Pad each axis before, behind and between its elements; negative numbers cut off."""
    shape = [
        before + behind + n + max(0, n - 1) * inner
        for n, (before, behind, inner) in zip(x.shape, config, strict=True)
    ]
    result = np.full([max(0, n) for n in shape], value, x.dtype)
    source, target = [], []
    for n, length, (before, _, inner) in zip(x.shape, shape, config, strict=True):
        step = inner + 1
        first = max(0, -(before // step))
        last = min(n, (length - 1 - before) // step + 1)
        source.append(slice(first, max(first, last)))
        start = before + first * step
        target.append(
            slice(start, start + max(0, last - first - 1) * step + 1, step)
            if last > first
            else slice(0, 0)
        )
    result[tuple(target)] = x[tuple(source)]
    return result

# pyright: basic
"""Windows that move over an array: convolutions and pooling."""

import numpy as np

from erasurehead.decompile._helpers.indexing import pad


def windows(x, sizes, strides, dilation):
    """Return a view of all windows of an array: where they stand first, then the axes within them."""
    spans = [(size - 1) * step + 1 for size, step in zip(sizes, dilation, strict=True)]
    if any(span > n for span, n in zip(spans, x.shape, strict=True)):
        counts = [max(0, n - span + 1) for span, n in zip(spans, x.shape, strict=True)]
        view = np.zeros([*counts, *spans], x.dtype)
    else:
        view = np.lib.stride_tricks.sliding_window_view(x, spans)
    view = view[tuple(slice(None, None, stride) for stride in strides)]
    return view[(..., *(slice(None, None, step) for step in dilation))]


def padded_windows(x, value, sizes, strides, padding, base_dilation, dilation):
    """Return the windows of a padded array."""
    config = [
        (low, high, base - 1)
        for (low, high), base in zip(padding, base_dilation, strict=True)
    ]
    return windows(pad(x, value, config), sizes, strides, dilation)


def reduce_windows(
    combine, x, initial, sizes, strides, padding, base_dilation, dilation
):
    """Combine the elements of each window, beginning with `initial`."""
    view = padded_windows(x, initial, sizes, strides, padding, base_dilation, dilation)
    flat = view.reshape(*view.shape[: x.ndim], -1)
    result = np.full(flat.shape[:-1], initial, x.dtype)
    for i in range(flat.shape[-1]):
        result = combine(result, flat[..., i])
    return np.asarray(result, x.dtype)


def reduce_all(combine, arrays, initials, axes):
    """Combine the elements of arrays along axes, beginning with the initial values; several arrays at once."""
    rest = [axis for axis in range(arrays[0].ndim) if axis not in axes]
    moved = [
        np.transpose(x, [*axes, *rest]).reshape(-1, *(x.shape[axis] for axis in rest))
        for x in arrays
    ]
    result = [
        np.full(x.shape[1:], initial, x.dtype)
        for x, initial in zip(moved, initials, strict=True)
    ]
    for i in range(moved[0].shape[0]):
        combined = combine(*result, *(x[i] for x in moved))
        result = list(combined) if isinstance(combined, tuple) else [combined]
    return result[0] if len(result) == 1 else tuple(result)


def chosen_in_windows(x, largest, sizes, strides, padding, base_dilation, dilation):
    """Return, for each window, which of its elements is the largest (or smallest) one; the first of equal ones."""
    worst = -np.inf if largest else np.inf
    if x.dtype.kind in "iu":
        worst = np.iinfo(x.dtype).min if largest else np.iinfo(x.dtype).max
    view = padded_windows(x, worst, sizes, strides, padding, base_dilation, dilation)
    flat = view.reshape(*view.shape[: x.ndim], -1)
    return np.argmax(flat, axis=-1) if largest else np.argmin(flat, axis=-1)


def scatter_to_chosen(source, x, largest, sizes, strides, padding):
    """Add each element of `source` to the place of the largest (or smallest) element of its window of `x`."""
    ones = (1,) * x.ndim
    best = chosen_in_windows(x, largest, sizes, strides, padding, ones, ones)
    steps = np.unravel_index(best, sizes)
    result = np.zeros(
        [n + low + high for n, (low, high) in zip(x.shape, padding, strict=True)],
        source.dtype,
    )
    where = np.indices(best.shape)
    places = tuple(
        w * stride + step for w, stride, step in zip(where, strides, steps, strict=True)
    )
    np.add.at(result, places, source)
    return result[
        tuple(slice(low, low + n) for n, (low, _) in zip(x.shape, padding, strict=True))
    ]


def gather_from_chosen(
    tangents, x, largest, sizes, strides, padding, base_dilation, dilation
):
    """Return the element of `tangents` at the place of the largest (or smallest) element of each window of `x`."""
    best = chosen_in_windows(
        x, largest, sizes, strides, padding, base_dilation, dilation
    )
    view = padded_windows(tangents, 0, sizes, strides, padding, base_dilation, dilation)
    flat = view.reshape(*view.shape[: x.ndim], -1)
    return np.take_along_axis(flat, best[..., None], -1)[..., 0]


def convolve(
    x,
    kernel,
    strides,
    padding,
    x_dilation,
    kernel_dilation,
    layout,
    feature_groups,
    batch_groups,
):
    """Slide a kernel over an array without turning it round, as neural networks do.

    `layout` holds the axes of batch, features and space in `x`; of outputs, inputs and space in `kernel`; and of
    batch, features and space in the result. As on XLA's CPUs, padding is multiplied, but with dilated `x` or groups
    of batches only what lies in `x` is: an infinite weight then gives no NaN.
    """
    x, kernel = np.transpose(x, layout[0]), np.transpose(kernel, layout[1])
    if batch_groups == 1 and all(step == 1 for step in x_dilation):
        around = [(low, high, 0) for low, high in padding]
        x, padding = pad(x, 0, [(0, 0, 0)] * 2 + around), [(0, 0)] * len(padding)
    groups, sizes = feature_groups * batch_groups, kernel.shape[2:]
    batch, features = x.shape[0] // batch_groups, x.shape[1] // feature_groups
    lengths = [
        max(0, (n - 1) * step + 1)
        for n, step in zip(x.shape[2:], x_dilation, strict=True)
    ]
    counts = [
        max(0, (n + low + high - (size - 1) * apart - 1) // stride + 1)
        for n, (low, high), size, apart, stride in zip(
            lengths, padding, sizes, kernel_dilation, strides, strict=True
        )
    ]
    space = x.shape[2:]
    x = x.reshape(batch_groups, batch, feature_groups, features, *space)
    x = np.moveaxis(x, 2, 1).reshape(groups, batch, features, *space)
    kernel = kernel.reshape(groups, 1, -1, features, *sizes)
    outputs = kernel.shape[2]
    result = np.zeros((groups, batch, outputs, *counts), np.result_type(x, kernel))
    whole = [np.arange(n) for n in (groups, batch)]
    for tap in np.ndindex(*sizes):
        given, taken = [], []
        for axis, count in enumerate(counts):
            place = np.arange(count) * strides[axis] - padding[axis][0]
            place = place + tap[axis] * kernel_dilation[axis]
            step, n = x_dilation[axis], lengths[axis]
            meets = (place % step == 0) & (place >= 0) & (place < n)
            given.append(np.flatnonzero(meets))
            taken.append(place[meets] // step)
        some = x[np.ix_(*whole, np.arange(features), *taken)]
        shape = some.shape[3:]
        flat = some.reshape(groups, batch, features, int(np.prod(shape)))
        product = (kernel[(..., *tap)] @ flat).reshape(groups, batch, outputs, *shape)
        result[np.ix_(*whole, np.arange(outputs), *given)] += product
    result = np.moveaxis(result, 0, 1).reshape(batch, groups * outputs, *counts)
    return np.transpose(result, np.argsort(layout[2]))

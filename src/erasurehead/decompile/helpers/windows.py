# pyright: basic
"""Windows that move over an array: convolutions and pooling."""

import numpy as np

from erasurehead.decompile.helpers.indexing import pad


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
    batch, features and space in the result.
    """
    x, kernel = np.transpose(x, layout[0]), np.transpose(kernel, layout[1])
    n = x.ndim - 2
    outside = [(0, 0, 0), (0, 0, 0)]
    x = pad(
        x,
        0,
        outside
        + [
            (low, high, step - 1)
            for (low, high), step in zip(padding, x_dilation, strict=True)
        ],
    )
    batch, outputs = x.shape[0] // batch_groups, kernel.shape[0]
    groups = feature_groups * batch_groups
    parts = []
    for g in range(groups):
        some = x[g * batch : (g + 1) * batch] if batch_groups > 1 else x
        features = x.shape[1] // feature_groups
        some = (
            some[:, g * features : (g + 1) * features] if feature_groups > 1 else some
        )
        weights = kernel[g * outputs // groups : (g + 1) * outputs // groups]
        view = windows(
            some, (1, 1, *kernel.shape[2:]), (1, 1, *strides), (1, 1, *kernel_dilation)
        )
        view = view.reshape(*view.shape[: n + 2], *kernel.shape[2:])
        product = np.tensordot(
            view, weights, ([1, *range(n + 2, 2 * n + 2)], [1, *range(2, n + 2)])
        )
        parts.append(np.moveaxis(product, -1, 1))
    result = np.concatenate(parts, axis=1)
    back = np.argsort(layout[2])
    return np.transpose(result, back)

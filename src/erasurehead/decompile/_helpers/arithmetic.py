# pyright: basic
"""Arithmetic as XLA has it, where numpy's differs. Sources carry copies of the functions, so they stand alone."""

import numpy as np


def divide_integers(x, y):
    """Divide towards zero; by zero gives -1, and the least number by -1 gives itself."""
    x, y = np.broadcast_arrays(x, y)
    lowest = np.iinfo(x.dtype).min
    wraps = (x == lowest) & (y == -1) if lowest < 0 else np.zeros(x.shape, bool)
    safe = np.where((y == 0) | wraps, x.dtype.type(1), y)
    quotient = x // safe
    quotient += ((x % safe != 0) & ((x < 0) != (safe < 0))).astype(x.dtype)
    minus_one = np.array(-1).astype(x.dtype)
    return np.where(y == 0, minus_one, np.where(wraps, x, quotient))


def remainder(x, y):
    """Return what is left of a division towards zero, with the sign of `x`."""
    x, y = np.broadcast_arrays(x, y)
    if x.dtype.kind in "iu":
        safe = np.where(
            (y == 0) | (y == np.array(-1).astype(y.dtype)), y.dtype.type(1), y
        )
        rest = np.fmod(x, safe)
        return (
            np.where(y == 0, x, rest)
            if x.dtype.kind == "i"
            else np.where(y == 0, x, np.fmod(x, np.where(y == 0, 1, y)))
        )
    return np.fmod(x, y)


def sign(x):
    """Return -1, 0 or 1 with the sign of `x`; zeros, NaN and their signs stay."""
    if x.dtype.kind == "c":
        size = np.abs(x)
        return np.where(size == 0, x, x / np.where(size == 0, 1, size)).astype(x.dtype)
    return np.where(x == 0, x, np.sign(x)).astype(x.dtype)


def round_away(x):
    """Round to the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    away = whole + np.copysign(x.dtype.type(1), x)
    return np.where(np.abs(x - whole) >= 0.5, away, whole)


def integer_power(x, n):
    """Return `x` to a whole power by repeated squaring."""
    if n < 0:
        return x.dtype.type(1) / integer_power(x, -n)
    result, square = None, x
    while n:
        if n & 1:
            result = square if result is None else result * square
        n >>= 1
        if n:
            square = square * square
    return np.ones_like(x) if result is None else result


def power(x, y):
    """Return `x` to the power of `y`, of the dtype of `x`."""
    if y.dtype.kind in "iu" and x.dtype.kind in "iu":
        x, y = np.broadcast_arrays(x, y)
        result, square, rest = np.ones_like(x), x.copy(), y.copy()
        while np.any(rest > 0):
            result = np.where((rest & 1) == 1, result * square, result).astype(x.dtype)
            square, rest = (square * square).astype(x.dtype), rest >> 1
        return result
    if y.dtype.kind in "iu" and x.dtype.kind == "f":
        return np.power(x, y.astype(x.dtype)).astype(x.dtype)
    return np.power(x, y).astype(x.dtype)


def logistic(x):
    """Return 1 / (1 + exp(-x)) without overflow."""
    if x.dtype.kind == "c":
        return 1 / (1 + np.exp(-x))
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e)).astype(x.dtype)


def shift_left(x, bits):
    """Shift to the left; by the width of the type or more gives zero."""
    width = x.dtype.itemsize * 8
    count = np.asarray(bits).astype(np.uint64)
    safe = np.where(count < width, bits, 0).astype(x.dtype)
    return np.where(count < width, x << safe, x.dtype.type(0)).astype(x.dtype)


def shift_right(x, bits, signed):
    """Shift to the right, and fill with the sign, or with zeros."""
    kind = x.dtype
    width = kind.itemsize * 8
    count = np.asarray(bits).astype(np.uint64)
    number = x.astype(f"i{kind.itemsize}" if signed else f"u{kind.itemsize}")
    safe = np.where(count < width, bits, width - 1).astype(number.dtype)
    shifted = number >> safe
    if not signed:
        shifted = np.where(count < width, shifted, number.dtype.type(0))
    return shifted.astype(kind)


def leading_zeros(x):
    """Count the zero bits before the first one."""
    width = x.dtype.itemsize * 8
    rest = x.astype(f"u{x.dtype.itemsize}")
    count = np.full(np.shape(x), width)
    while np.any(rest):
        count = np.where(rest != 0, count - 1, count)
        rest = rest >> rest.dtype.type(1)
    return count.astype(x.dtype)


def high_product(x, y):
    """Return the upper half of the bits of a product."""
    x, y = np.broadcast_arrays(x, y)
    width = x.dtype.itemsize * 8
    products = x.astype(object) * y.astype(object)
    return (products >> width).astype(x.dtype)


def to_integer(x, dtype):
    """Cut off decimals; what lies outside of the range becomes its end, and NaN becomes 0."""
    limits = np.iinfo(dtype)
    wide = np.asarray(x).astype(np.float64)
    low, high = float(limits.min), float(limits.max)
    inside = (wide > low) & (wide < high)
    whole = np.where(inside, wide, 0).astype(dtype)
    return np.where(
        inside | np.isnan(wide),
        whole,
        np.where(wide >= high, limits.max, limits.min).astype(dtype),
    )


def reinterpret(x, dtype):
    """Take the same bits for another dtype; axes of its own hold the parts where the sizes differ."""
    before, after = x.dtype.itemsize, np.dtype(dtype).itemsize
    x = np.ascontiguousarray(x) if np.ndim(x) else np.asarray(x)
    if before == after:
        return x.view(dtype)
    if before > after:
        return x[..., None].copy().view(dtype)
    return x.view(dtype)[..., 0]


def reduce_precision(x, exponent_bits, mantissa_bits):
    """Round to a smaller number of bits in exponent and mantissa, halves to even."""
    size, mantissa = {2: (2, 10), 4: (4, 23), 8: (8, 52)}[x.dtype.itemsize]
    word = np.dtype(f"u{size}").type
    bits = np.asarray(x).view(word)
    sign_bit = bits & word(1 << (8 * size - 1))
    rest = bits ^ sign_bit
    dropped = mantissa - mantissa_bits
    if dropped > 0:
        odd = (rest >> word(dropped)) & word(1)
        rest = rest + odd + word((1 << (dropped - 1)) - 1)
        rest &= ~word((1 << dropped) - 1)
    exponents = 8 * size - 1 - mantissa
    exponent = (rest >> word(mantissa)).astype(np.int64) - ((1 << (exponents - 1)) - 1)
    largest = (1 << (exponent_bits - 1)) - 1
    infinite = word(((1 << exponents) - 1) << mantissa)
    rest = np.where(exponent > largest, infinite, rest)
    rest = np.where(exponent < 1 - largest, word(0), rest).astype(word)
    return np.where(np.isnan(x), x, (rest | sign_bit).view(x.dtype))


def total_order(x):
    """Return integers in the order -NaN, -inf, ..., -0, 0, ..., inf, NaN."""
    if x.dtype.kind != "f":
        return x
    bits = x.view(f"i{x.dtype.itemsize}")
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def sort_together(operands, axis, n_keys):
    """Sort arrays along an axis by the first of them; those behind it decide where it is equal, up to `n_keys`."""
    keys = [total_of_parts(x) for x in operands[:n_keys]]
    order = np.lexsort([part for key in keys[::-1] for part in key[::-1]], axis=axis)
    return tuple(np.take_along_axis(x, order, axis) for x in operands)


def total_of_parts(x):
    """Return the numbers that an array is sorted by: the real part, then the imaginary one."""
    if x.dtype.kind == "c":
        return [x.real, x.imag]
    return [x if x.dtype.kind in "fiub" else x.astype(np.float32)]


def largest(x, k, axis):
    """Return the `k` largest along an axis and where they are, NaN before all; the first of equal ones comes first."""
    keys = total_order(x if x.dtype.kind in "fiub" else x.astype(np.float32))
    n = x.shape[axis]
    order = (
        n - 1 - np.flip(np.argsort(np.flip(keys, axis), axis=axis, kind="stable"), axis)
    )
    places = np.take(order, np.arange(k), axis)
    return np.take_along_axis(x, places, axis), places.astype(np.int32)


def complex_of(real, imag):
    """Return complex numbers from their parts."""
    real, imag = np.broadcast_arrays(real, imag)
    result = np.empty(
        real.shape, np.complex64 if real.dtype == np.float32 else np.complex128
    )
    result.real, result.imag = real, imag
    return result

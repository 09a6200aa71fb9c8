# pyright: basic
"""The counter-based generator threefry2x32 (Salmon, Moraes, Dror and Shaw 2011), and keys as JAX makes them.

A key is held as one uint64: its first word above its second.
"""

import numpy as np


def as_key(words):
    """Return keys from pairs of 32-bit words in the last axis."""
    words = np.asarray(words, np.uint32).astype(np.uint64)
    return words[..., 0] << np.uint64(32) | words[..., 1]


def key_data(key):
    """Return the pairs of 32-bit words that keys hold, in an axis of their own."""
    key = np.asarray(key, np.uint64)
    return np.stack(
        [key >> np.uint64(32), key & np.uint64(0xFFFFFFFF)], axis=-1
    ).astype(np.uint32)


def threefry2x32(key_0, key_1, x_0, x_1):
    """Encrypt pairs of 32-bit words in 20 rounds."""
    key_0, key_1, x_0, x_1 = (
        np.asarray(v, np.uint32) for v in (key_0, key_1, x_0, x_1)
    )
    keys = [key_0, key_1, key_0 ^ key_1 ^ np.uint32(0x1BD11BDA)]
    x_0, x_1 = x_0 + keys[0], x_1 + keys[1]
    for i in range(5):
        for rotation in (13, 15, 26, 6) if i % 2 == 0 else (17, 29, 16, 24):
            x_0 = x_0 + x_1
            x_1 = (x_1 << np.uint32(rotation)) | (x_1 >> np.uint32(32 - rotation))
            x_1 = x_0 ^ x_1
        x_0 = x_0 + keys[(i + 1) % 3]
        x_1 = x_1 + keys[(i + 2) % 3] + np.uint32(i + 1)
    return x_0, x_1


def encrypted_counters(key, shape):
    """Return the encrypted numbers 0, 1, 2, ... of each key, as pairs of words."""
    key = np.asarray(key, np.uint64)
    size = int(np.prod(shape, dtype=np.int64))
    counters = np.arange(size, dtype=np.uint64).reshape(shape)
    key = np.reshape(key, (*key.shape, *(1,) * len(shape)))
    low = np.uint64(0xFFFFFFFF)
    return threefry2x32(
        key >> np.uint64(32), key & low, counters >> np.uint64(32), counters & low
    )


def random_bits(key, width, shape):
    """Return random bits of 8, 16, 32 or 64 for each element."""
    first, second = encrypted_counters(key, shape)
    if width == 64:
        return first.astype(np.uint64) << np.uint64(32) | second
    return (first ^ second).astype(f"u{width // 8}")


def split_key(key, shape):
    """Return as many new keys as a shape has elements."""
    first, second = encrypted_counters(key, shape)
    return first.astype(np.uint64) << np.uint64(32) | second


def fold_in(key, data):
    """Return the key that a key and a number make."""
    key = np.asarray(key, np.uint64)
    low = np.uint64(0xFFFFFFFF)
    data = np.asarray(data).astype(np.uint32)
    first, second = threefry2x32(key >> np.uint64(32), key & low, np.uint32(0), data)
    return first.astype(np.uint64) << np.uint64(32) | second


def seed_key(seed):
    """Return the key of a whole number."""
    seed = np.asarray(seed)
    return seed.astype(f"u{seed.dtype.itemsize}").astype(np.uint64)

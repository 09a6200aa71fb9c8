"""What a run is, in few bytes: by this a checkpoint is told from that of another run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

if TYPE_CHECKING:
    from erasurehead.codes.base import GradientCode

_BLOCK = 1 << 20


def of_arrays(*arrays: Any) -> str:
    """Return the SHA-256 of arrays and sparse matrices: of their shapes and numbers, whatever type holds them.

    Arguments:
        *arrays: dense, in CSR form, or None.
    """
    digest = hashlib.sha256()
    for array in arrays:
        if array is None:
            digest.update(b"none")
        elif sparse.issparse(array):
            matrix: Any = array
            digest.update(f"csr{matrix.shape}".encode())
            for part in (matrix.indptr, matrix.indices, matrix.data):
                _feed(digest, part)
        else:
            dense: NDArray[Any] = np.asarray(array)
            digest.update(f"dense{dense.shape}".encode())
            _feed(digest, dense.reshape(-1))
    return digest.hexdigest()


def of_code(code: GradientCode) -> str:
    """Return the SHA-256 of what a code tells the workers: its encoding, the messages' owners, and its pieces."""
    shape = np.array([code.n_workers, code.n_tasks, code.n_pieces])
    return of_arrays(shape, code.encoding, code.owner)


def differences(before: Mapping[str, Any], now: Mapping[str, Any], told: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each fingerprint that is not what it was; what only one side knows is passed over.

    Arguments:
        before: name -> fingerprint, of the checkpoint.
        now: of the run that is to go on from it.
        told: name -> what to call it.
    """
    for name, what in told.items():
        if name in before and name in now and before[name] != now[name]:
            yield f"{what} {'are' if what.endswith('data') else 'is'} not what the checkpoint was made with"


def _feed(digest: Any, numbers: NDArray[Any]) -> None:
    kind = np.int64 if numbers.dtype.kind in "biu" else np.float64
    for start in range(0, len(numbers), _BLOCK):
        digest.update(np.ascontiguousarray(numbers[start : start + _BLOCK], dtype=kind).data)

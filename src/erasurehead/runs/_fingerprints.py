"""Fingerprints of what runs depend on, by which the checkpoint of one run is told from that of another."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import sparse

from erasurehead._internal.arrays import AnyArray
from erasurehead._internal.documents import Entries, PlainData
from erasurehead.datasets._sharded import ShardFolder
from erasurehead.errors import DataError, InvalidArgument
from erasurehead.runs._config.sections import Config

if TYPE_CHECKING:
    from erasurehead.codes import GradientCode
    from erasurehead.datasets import Dataset
    from erasurehead.datasets._preprocessing.encoding import Encoding

_PLAIN = (str, int, float, type(None))
_BLOCK = 1 << 20
MEANING = "what the columns and labels mean"
"""The fact that is the fingerprint of `of_encoding`, for runs that have lost the file that says it."""

_FREE: PlainData = {
    "data": {"source", "path", "worker_path"},
    "run": {
        "engine",
        "address",
        "steps",
        "until",
        "patience",
        "max_seconds",
        "tolerance",
        "out",
        "overwrite",
        "access",
        "records",
        "start_limit",
        "track",
    },
    "checkpoints": True,
    "faults": True,
}
"""Keys that may change: where things are, and how long the run is. Data are identified by their fingerprint."""

_NAMED = 5  # changes that an error names


def of_arrays(*arrays: Any) -> str:
    """Return the SHA-256 of arrays and sparse matrices: of their shapes and numbers, whatever their type.

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
            dense: AnyArray = np.asarray(array)
            digest.update(f"dense{dense.shape}".encode())
            _feed(digest, dense.reshape(-1))
    return digest.hexdigest()


def of_code(code: GradientCode) -> str:
    """Return a code's name with a fingerprint of its encoding, owners and pieces."""
    shape = np.array([code.n_workers, code.n_tasks, code.n_pieces])
    return f"{code!r} ({of_arrays(shape, code.encoding, code.owner)[:16]})"


def facts(settings: PlainData, data: Dataset | ShardFolder, drawn: Entries) -> PlainData:
    """Return what determines a run, as plain data: its settings, and fingerprints of what they name.

    Arguments:
        settings: by key.
        data: the data set.
        drawn: what else they name, such as what delays draw, by what it is.
    """
    named = {MEANING: of_encoding(data.encoding), **drawn}
    return {"configuration": settings, "data": of_data(data), **{what: of_value(one) for what, one in named.items()}}


def of_data(data: Dataset | ShardFolder) -> str:
    """Return the shape of design matrices, with a fingerprint of them and their labels; for shards, theirs."""
    if isinstance(data, ShardFolder):
        return data.fingerprint
    X, X_test = data.X_train, data.X_test
    sizes = f"{X.shape[0]} x {X.shape[1]}" + ("" if X_test is None else f", {X_test.shape[0]} for testing")
    return f"{sizes} ({of_arrays(X, data.y_train, X_test, data.y_test)[:16]})"


def of_value(value: Any) -> str:
    """Return a short fingerprint of a value with all that it holds, such as the rows of a trace that delays play.

    Where it was read from, a field called `source`, does not count: a file may be moved.

    Arguments:
        value: a dataclass, array, mapping or sequence, of such or of anything that has a text of its own.
    """
    digest = hashlib.sha256()
    _tell(digest, value)
    return digest.hexdigest()[:16]


def of_encoding(encoding: Encoding) -> PlainData:
    """Return what the numbers of the design matrix and of the labels stand for; their fingerprint does not say."""
    target, names = encoding.target, encoding.column_names
    scales = {f"the mean and the scale of {name!r}": list(scale) for name, scale in encoding.standardization.items()}
    columns = {f"column {number}": name for number, name in enumerate(names, start=1)}
    return {"the label": target.name, "what the labels mean": target.meaning(), **columns, **scales}


def determining(config: Config) -> PlainData:
    """Return the settings that determine a run, as plain data: values by key, such as `"problem.l2"`.

    >>> "run.steps" in determining(Config()), determining(Config())["run.seed"]
    (False, 0)
    """
    return flat(config.model_dump(mode="json", exclude=_FREE))


def flat(tables: Entries) -> PlainData:
    """Return the values of tables by key, such as `"problem.l2"`."""
    settings: PlainData = {}
    for name, value in tables.items():
        section = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else None
        settings |= {name: value} if section is None else {f"{name}.{key}": item for key, item in section.items()}
    return settings


def with_defaults(before: Entries) -> PlainData:
    """Return a result of `determining`, perhaps from an earlier version, completed with defaults."""
    return {**determining(Config()), **_whole(before)}


def changes(before: Entries, now: Entries) -> list[str]:
    """Return what differs between two runs, as phrases; keys that only one of them has are ignored.

    >>> changes({"problem.l2": 0.1, "scheme": "uncoded"}, {"problem.l2": 0.2, "scheme": "uncoded", "new": 0})
    ['problem.l2 was 0.1 and is 0.2']
    """
    both = [key for key in now if key in before]
    return [f"{key} was {_said(before[key])} and is {_said(now[key])}" for key in both if before[key] != now[key]]


def _said(value: object) -> str:
    return "not set" if value is None else repr(value)


def check_same(before: Entries, now: Entries) -> None:
    """Raise if something that determines a run has changed.

    Raises:
        InvalidArgument: if so; the error names the changes, or the first of many.
        DataError: if what is known of before is damaged.
    """
    changed = changes(_whole(before), now)
    if changed:
        more = [f"and {len(changed) - _NAMED:,} more"] if len(changed) > _NAMED else []
        named = "; ".join([*changed[:_NAMED], *more])
        sentence = f"The run cannot be continued, as what it depends on has changed: {named}."
        raise InvalidArgument(
            "resume", "must go on as the same run", sentence=f"{sentence} Restore that, or begin a new run."
        )


def _whole(facts: object) -> Entries:
    if not isinstance(facts, Mapping):
        raise DataError("The newest checkpoint is damaged: it does not say what its run depends on.")
    return cast("Mapping[str, Any]", facts)


def _tell(digest: Any, value: Any) -> None:
    """Add a value to a digest, with all that it holds."""
    if isinstance(value, _PLAIN):  # first, and many at once: data may have 100,000 named columns
        digest.update(f"{value!r};".encode())
    elif isinstance(value, np.ndarray) or sparse.issparse(value):
        digest.update(of_arrays(value).encode())
    elif is_dataclass(value):
        digest.update(type(value).__name__.encode())
        for field in fields(value):
            if field.name != "source":
                digest.update(field.name.encode())
                _tell(digest, getattr(value, field.name))
    elif isinstance(value, Mapping):
        _tell(digest, [*cast("Mapping[Any, Any]", value).items()])
    elif isinstance(value, (tuple, list)):
        members = cast("tuple[Any, ...] | list[Any]", value)
        digest.update(f"{len(members)} of".encode())
        if all(isinstance(member, _PLAIN) for member in members):
            digest.update("".join([f"{member!r};" for member in members]).encode())
        else:
            for member in members:
                _tell(digest, member)
    else:
        digest.update(f"{value!r};".encode())


def _feed(digest: Any, numbers: AnyArray) -> None:
    kind = np.int64 if numbers.dtype.kind in "biu" else np.float64
    for start in range(0, len(numbers), _BLOCK):
        digest.update(np.ascontiguousarray(numbers[start : start + _BLOCK], dtype=kind).data)

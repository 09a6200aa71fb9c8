"""Fetching the public sets through scikit-learn: OpenML or its mirror of UCI, kept in scikit-learn's own cache."""

from __future__ import annotations

import importlib
import socket
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from erasurehead._internal.documents import PlainData
from erasurehead.datasets._published.recipe import Recipe
from erasurehead.datasets._readers.table import Column, NumberColumn, Table
from erasurehead.datasets._readers.values import column_of
from erasurehead.errors import DataError

Fetch: TypeAlias = Callable[[Recipe], Table]
"""Fetches the raw columns of a public set, or raises `DataError`."""

_TIMEOUT = 20.0  # seconds without an answer: scikit-learn sets none, and a firewall may swallow every packet


def fetch_public(recipe: Recipe, call: Callable[..., Any] | None = None) -> Table:
    """Fetch a public set, or read it from scikit-learn's cache (`~/scikit_learn_data`, or SCIKIT_LEARN_DATA).

    Arguments:
        recipe: recipe of the data set.
        call: replaces scikit-learn's `fetch_openml` or `fetch_covtype`, with the same arguments; by default these
            are called.

    Raises:
        DataError: if there is neither a copy nor a network, or the result is not the data set.
    """
    name = "fetch_covtype" if recipe.openml is None else "fetch_openml"
    source = f"scikit-learn's {name}" + (f" (OpenML {recipe.openml})" if recipe.openml else "")
    if call is None:
        try:
            call = getattr(importlib.import_module("sklearn.datasets"), name)
        except ModuleNotFoundError:
            raise DataError(f"{source} needs scikit-learn: pip install 'erasurehead[sklearn]'") from None
    assert call is not None
    try:
        with _patience():
            return _covtype(recipe, call, source) if recipe.openml is None else _openml(recipe, call, source)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        if isinstance(error, DataError):
            raise
        cause = getattr(error, "reason", error)  # URLError wraps the network's error
        raise DataError(f"{source} failed ({type(error).__name__}: {cause})") from None


@contextmanager
def _patience() -> Generator[None]:
    """Give up on a silent network after a while, and suppress scikit-learn's warnings about retries."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_TIMEOUT)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        socket.setdefaulttimeout(before)


def _covtype(recipe: Recipe, call: Callable[..., Any], source: str) -> Table:
    bunch = call(n_retries=1, delay=0.5)
    columns: dict[str, Column] = {
        name: NumberColumn(np.asarray(bunch.data[:, place], dtype=np.float64))
        for place, name in enumerate(recipe.features)
    }
    columns[recipe.target.name] = NumberColumn(np.asarray(bunch.target, dtype=np.float64))
    return Table(source, columns, len(bunch.target), lambda row: f"{source}, row {row}")


def _openml(recipe: Recipe, call: Callable[..., Any], source: str) -> Table:
    """Fetch as arrays, which does not need pandas; sets with columns of free text come only as frames, which do."""
    asked: PlainData = {"data_id": recipe.openml, "target_column": None, "n_retries": 1, "delay": 0.5}
    wanted = (*recipe.features, *recipe.target.names)
    try:
        bunch = call(**asked, as_frame=False, parser="liac-arff")
        values = _array_columns(bunch)
    except ValueError as error:
        if "STRING" not in str(error):
            raise
        frame = call(**asked, as_frame=True, parser="auto").data
        values = {str(name): frame[name].tolist() for name in frame.columns}
    columns = {name: column_of(values[name], name, source) for name in wanted if name in values}
    missing = [name for name in recipe.features if name not in columns]
    if missing:
        raise DataError(f"{source} came without the column {missing[0]!r}")
    n_rows = len(values[recipe.features[0]])
    return Table(source, columns, n_rows, lambda row: f"{source}, row {row}")


def _array_columns(bunch: Any) -> dict[str, list[Any]]:
    """Return the columns of an answer; nominal ones come as category numbers, where categories may be numbers."""
    columns: dict[str, list[Any]] = {}
    nominal: PlainData = dict(bunch.categories or {})
    for place, name in enumerate(bunch.feature_names):
        values = np.asarray(bunch.data[:, place], dtype=np.float64)
        categories = nominal.get(name)
        if categories is None:
            columns[name] = [None if np.isnan(value) else value for value in values.tolist()]
        else:
            columns[name] = [None if np.isnan(value) else categories[int(value)] for value in values.tolist()]
    return columns

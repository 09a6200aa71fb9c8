"""What Ray does when a process starts it, and is kept from: lines on the terminal, handlers of signals, daemons."""

from __future__ import annotations

import contextlib
import inspect
import logging
import signal
from collections.abc import Callable, Generator
from functools import partial
from importlib import import_module
from typing import Any


@contextlib.contextmanager
def quiet() -> Generator[None]:
    """Keep Ray from writing to the terminal what events say better; errors of the cluster are in its logs."""
    worker: Any = import_module("ray._private.worker")
    logger = logging.getLogger("ray")
    before, level = getattr(worker, "print_to_stdstream", None), logger.level
    worker.print_to_stdstream = _swallow
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
        if before is not None:
            worker.print_to_stdstream = before


@contextlib.contextmanager
def no_monitors() -> Generator[None]:
    """Keep Ray from starting three daemons that a cluster of one machine of its own has no use for.

    One shows the workers' logs to the program that started the cluster, another asks a cloud for more machines:
    `ray start` has options for both, and `ray.init` has none. The third serves the dashboard, or, where that is not
    wanted, next to nothing, for more time of a processor than all the rest of the start.
    """
    with _no_log_and_scaling(), _no_dashboard():
        yield


@contextlib.contextmanager
def _no_log_and_scaling() -> Generator[None]:
    wanted = {"include_log_monitor": False, "no_monitor": True}
    parameter: Any = None
    with contextlib.suppress(ImportError):
        parameter = import_module("ray._private.parameter")
    before = getattr(parameter, "RayParams", None)
    if before is None or not wanted.keys() <= inspect.signature(before).parameters.keys():
        yield  # a version of Ray that calls them otherwise starts them
        return
    parameter.RayParams = partial(before, **wanted)
    try:
        yield
    finally:
        parameter.RayParams = before


@contextlib.contextmanager
def _no_dashboard() -> Generator[None]:
    node: Any = None
    with contextlib.suppress(ImportError, AttributeError):
        node = import_module("ray._private.node").Node
    before = getattr(node, "start_api_server", None)
    if before is None:
        yield
        return
    node.start_api_server = _swallow
    try:
        yield
    finally:
        node.start_api_server = before


def _swallow(*_: object, **__: object) -> None:
    pass


@contextlib.contextmanager
def sigterm_kept() -> Generator[Callable[[], None]]:
    """Keep the program's own handler of SIGTERM, which Ray replaces when it starts.

    Yields what to call when Ray has started. Where the program has no handler, Ray's stays until the connection ends:
    it raises `SystemExit`, and so lets the program clean up.
    """
    before = signal.getsignal(signal.SIGTERM)
    theirs = before

    def started() -> None:
        nonlocal theirs
        theirs = signal.getsignal(signal.SIGTERM)
        if theirs is not before:  # set even theirs again: over it, Ray puts one that prints a page of addresses
            signal.signal(signal.SIGTERM, theirs if before in (signal.SIG_DFL, None) else before)

    yield started
    if theirs is not before and signal.getsignal(signal.SIGTERM) is theirs:
        signal.signal(signal.SIGTERM, before)

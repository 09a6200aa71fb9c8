"""A thread that does the newest of the jobs handed to it, so that the caller does not have to wait."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """Does jobs in a separate thread, one at a time; of the waiting jobs only the newest is done.

    Arguments:
        work: does a job. An exception from it ends the thread, and is raised when the next job is handed over.
    """

    def __init__(self, work: Callable[[T], None]) -> None:
        self._work = work
        self._changed = threading.Condition()
        self._next: tuple[int, T] | None = None
        self._owed: deque[int] = deque()
        self._error: BaseException | None = None
        self._closing = False
        self._thread: threading.Thread | None = None

    def hand_over(self, number: int, job: T) -> None:
        """Hand a job over; it takes the place of one that has not begun.

        Arguments:
            number: number of the job, greater than any before.
            job: the job.

        Raises:
            BaseException: what an earlier job raised.
        """
        with self._changed:
            self._raise()
            self._next = number, job
            self._owed.append(number)
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="erasurehead-checkpoints", daemon=True)
            self._thread.start()

    def oldest(self) -> int | None:
        """Return the number of the oldest job that is unfinished, as are all newer ones; None if there is none."""
        with self._changed:
            return self._owed[0] if self._owed else None

    def wait(self, number: int) -> None:
        """Wait until every job up to a number, or a newer one, is done.

        Raises:
            BaseException: what a job raised.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or not self._owed or self._owed[0] > number)
            self._raise()

    def close(self) -> None:
        """Finish the waiting job, and end the thread. May be called twice.

        Raises:
            BaseException: what a job raised.
        """
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with self._changed:
            self._raise()

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._next is not None or self._closing)
                if self._next is None:
                    return
                (number, job), self._next = self._next, None
            try:
                self._work(job)
            except BaseException as error:
                with self._changed:
                    self._error = error
                    self._owed.clear()
                    self._changed.notify_all()
                return
            del job  # it may hold much, and the next one may be far off
            with self._changed:
                while self._owed and self._owed[0] <= number:
                    self._owed.popleft()
                self._changed.notify_all()

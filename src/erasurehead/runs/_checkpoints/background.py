"""A thread that does the newest of the jobs handed to it, so that the caller does not have to wait."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """Does jobs in a separate thread, one at a time; of the waiting jobs only the newest is done.

    Arguments:
        work: does a job. An exception from it is raised, once, by the next call.
    """

    def __init__(self, work: Callable[[T], None]) -> None:
        self._work = work
        self._thread = ThreadPoolExecutor(1, "erasurehead-checkpoints")
        self._owed: list[tuple[int, Future[None]]] = []  # the numbers of jobs, ascending, with what does them

    def hand_over(self, number: int, job: T) -> None:
        """Hand a job over; it takes the place of one that has not begun.

        Arguments:
            number: number of the job, greater than any before.
            job: the job.

        Raises:
            BaseException: what an earlier job raised.
        """
        self._settle()
        for _, earlier in self._owed[-1:]:
            earlier.cancel()
        doing = self._thread.submit(self._work, job)
        owed = [(one, doing if earlier.cancelled() else earlier) for one, earlier in self._owed]
        self._owed = [*owed, (number, doing)]

    def oldest(self) -> int | None:
        """Return the number of the oldest job that is unfinished, as are all newer ones; None if there is none."""
        return next((number for number, doing in self._owed if not doing.done()), None)

    def wait(self, number: int) -> None:
        """Wait until every job up to a number, or a newer one, is done.

        Raises:
            BaseException: what a job raised.
        """
        wait([doing for one, doing in self._owed if one <= number])
        self._settle()

    def close(self) -> None:
        """Finish the waiting job, and end the thread. May be called twice.

        Raises:
            BaseException: what a job raised.
        """
        self._thread.shutdown()
        self._settle()

    def _settle(self) -> None:
        """Forget the jobs that are done, and raise what one of them raised."""
        done = {doing for _, doing in self._owed if doing.done()}
        self._owed = [(number, doing) for number, doing in self._owed if doing not in done]
        for doing in done:
            doing.result()

"""What happens in runs, as records of the standard library's logging. The library sets up no handlers."""

from __future__ import annotations

import logging
from typing import final

from erasurehead._internal.arrays import Array
from erasurehead.errors import counted
from erasurehead.schemes import Scheme
from erasurehead.training._callbacks import Callback
from erasurehead.training._result import Run
from erasurehead.training._rows import Notice, StepRow


def logger_of(room: str) -> logging.Logger:
    """Return the logger of a room, `erasurehead.ROOM`: silent until somebody handles its records, or its parent's."""
    logger = logging.getLogger(f"erasurehead.{room}")
    logger.addHandler(logging.NullHandler())
    return logger


def log_notice(logger: logging.Logger, notice: Notice) -> None:
    """Log a notice as a warning, with its facts as fields."""
    fields = {"kind": notice.kind, "worker": notice.worker, "step": notice.step, "seconds": notice.time}
    logger.warning("%s", notice.text, extra={**fields, "facts": notice.data})


_LOGGER = logger_of("training")


@final
class LoggedRun(Callback):
    """Logs a run: beginning and end as information, notices as warnings, steps for those who look for mistakes.

    Arguments:
        done: steps of an earlier part of the run, which is resumed.
    """

    def __init__(self, done: int = 0) -> None:
        self._done = done

    def on_setup(self, scheme: Scheme, steps: int) -> None:
        begins = f"is resumed after {counted('step', self._done)}" if self._done else "begins"
        _LOGGER.info("%s with %s %s", scheme.name, counted("worker", scheme.code.n_workers), begins)

    def on_notice(self, notice: Notice) -> None:
        log_notice(_LOGGER, notice)

    def on_step_end(self, row: StepRow, x: Array) -> None:
        if _LOGGER.isEnabledFor(logging.DEBUG):
            said = "step %d: waited %.3g s for %d of %d workers, loss %s"
            fields = {"step": row.step, "seconds": row.end, "row": row.as_dict()}
            _LOGGER.debug(said, row.step, row.waited, row.arrived, row.workers, row.loss, extra=fields)

    def on_end(self, run: Run) -> None:
        why = f": {run.stopped}" if run.stopped else ""
        fields = {"status": run.status, "seconds": run.seconds}
        _LOGGER.info("%s: %s after %s%s", run.scheme, run.status, counted("step", run.steps_taken), why, extra=fields)

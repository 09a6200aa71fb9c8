"""The delays in a run's own records: each worker's time from when it began, and which workers were still busy."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict, cast

from erasurehead._internal.documents import Entries, from_json
from erasurehead._internal.storage.checksums import check_beside
from erasurehead._internal.typed import Misfit, Rule, maker
from erasurehead._internal.user_files import BROKEN, check_text, open_bytes
from erasurehead.errors import DataError, real


def read_arrivals(path: Path) -> Iterator[tuple[int, Entries]]:
    """Yield the samples in a run's `arrivals.jsonl` with their line numbers, in the standard columns.

    A worker's time runs from when it began on the order. A worker that had not answered when waiting stopped is
    censored; where late work is carried on (late messages are then in the file), it is busy with that order until it
    has sent it, and gives no sample for the orders in between. If `steps.jsonl` lies beside the file, a worker that
    became free in the middle of a round and did not finish is censored from that moment; without it, it is left out. Of
    a worker that sends several messages per step, in one round or more, only the first is a sample: the others are not
    independent of it.

    Raises:
        DataError: if a line is not JSON, or not an arrival; or the file is not as the run wrote it.
    """
    steps = path.with_name("steps.jsonl")
    check_beside(path)
    check_beside(steps)
    rows = [(number, row) for number, row in _lines(path) if row["unit"] == 0]
    first: dict[int, int] = {}  # round of each step
    for _, row in rows:
        first[row["step"]] = min(row["round"], first.get(row["step"], row["round"]))
    rows = [(number, row) for number, row in rows if row["round"] == first[row["step"]]]
    begins = _begins(steps)
    carried = any(row["late"] for _, row in rows)
    samples: dict[tuple[int, int], tuple[int, Entries]] = {}
    busy: dict[int, bool] = {}
    free: dict[int, float | None] = {}  # when a worker sent a late message, in seconds of the run; None if unknown
    for number, row in rows:
        worker, order = int(row["worker"]), int(row["round"])
        if not row["censored"] or row["late"]:
            samples[order, worker] = number, _sample(row, row["seconds"] - (row["started"] or 0.0), False)
            busy[worker] = False
            free.pop(worker, None)
            if row["late"]:
                free[worker] = begins[order] + row["seconds"] if order in begins else None
        elif not (carried and busy.get(worker, False)):
            busy[worker] = True
            began = 0.0
            if worker in free:
                moment = free.pop(worker)
                if moment is None or order not in begins:
                    continue
                began = max(0.0, moment - begins[order])
            samples[order, worker] = number, _sample(row, row["seconds"] - began, True)
    yield from samples.values()


def _sample(row: Entries, seconds: float, censored: bool) -> Entries:
    return {
        "worker": row["worker"],
        "step": row["step"],
        "seconds": max(0.0, seconds),
        "load": row["work"],
        "censored": censored,
    }


def _lines(path: Path) -> Iterator[tuple[int, Entries]]:
    needed = {"unit", "worker", "round", "step", "seconds", "started", "work", "censored", "late"}
    for number, row in json_lines(path):
        lacking = needed.difference(row)
        if lacking:
            raise DataError(f"{path}, line {number}, is not an arrival: it lacks {', '.join(sorted(lacking))}.")
        check_arrival(row, f"{path}, line {number}")
        yield number, row


def _begins(path: Path) -> dict[int, float]:
    if not path.is_file():
        return {}
    begins: dict[int, float] = {}
    for number, row in json_lines(path):
        check_arrival({"round": None, "begin": None, **row}, f"{path}, line {number}", _Begin)
        begins[int(row["round"])] = float(row["begin"])
    return begins


def json_lines(path: Path) -> Iterator[tuple[int, Entries]]:
    """Yield the objects of a file of JSON lines, each with the number of its line; blank lines are skipped.

    Raises:
        DataError: if the file cannot be read, or a line is not a JSON object; the message names the line.
    """
    check_text(path)
    number = 0
    try:
        with io.TextIOWrapper(open_bytes(path), encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                row = from_json(line)
                if not isinstance(row, dict):
                    raise DataError(f"{path}, line {number}, must be a JSON object, but it is {line.strip()[:60]!r}.")
                yield number, cast("Entries", row)
    except (UnicodeDecodeError, *BROKEN) as error:
        raise DataError(f"{path}, after line {number}: the file is cut off or damaged ({error}).") from None
    except ValueError as error:
        raise (
            error
            if isinstance(error, DataError)
            else DataError(f"{path}, line {number}, is not JSON ({getattr(error, 'msg', error)}).")
        ) from None


_WHOLE = Rule("a whole number of at least 0", lambda value: real(value) >= 0.0 and real(value).is_integer())
_FINITE = Rule("a finite number of at least 0", lambda value: 0.0 <= real(value) < math.inf)


class _Arrival(TypedDict, total=False):
    worker: Annotated[int, _WHOLE]
    step: Annotated[int, _WHOLE]
    unit: Annotated[int, _WHOLE]
    round: Annotated[int, _WHOLE]
    seconds: Annotated[float, _FINITE]
    work: Annotated[float, _FINITE]
    started: Annotated[float, _FINITE] | None
    censored: bool
    late: bool


class _Begin(TypedDict, total=False):
    round: Annotated[int, _WHOLE]
    begin: Annotated[float, _FINITE]


def check_arrival(row: Entries, place: str, kind: type[Any] = _Arrival) -> None:
    """Raise if a value in a record of an arrival has the wrong type, or is out of range.

    Arguments:
        row: the record.
        place: the file and the line, for errors.
        kind: of the record, if it is another one.

    Raises:
        DataError: if so; the error names the key and the value.
    """
    try:
        maker(kind)(row)
    except Misfit as error:
        raise DataError(f"{place}: {error}.") from None

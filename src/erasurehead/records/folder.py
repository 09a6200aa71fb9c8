"""The run folder: what a run leaves behind, and reading it back."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import numpy as np

from erasurehead.arrays import Array
from erasurehead.errors import DataError
from erasurehead.records.durable import write_whole
from erasurehead.records.jsonlines import read_lines, to_text
from erasurehead.records.places import ARRIVALS, CONFIG, ENCODING, EVALUATIONS, MODEL, STEPS, SUMMARY, make_folder
from erasurehead.records.rows import ArrivalRow, StepRow

if TYPE_CHECKING:
    from erasurehead.datasets.encoding import Encoding
    from erasurehead.run import FinalModel, Run

_Row = TypeVar("_Row", StepRow, ArrivalRow)


@dataclass(frozen=True)
class RunFolder:
    """What a run leaves behind.

    ================== ==================================================================
    config.toml        all settings; `erasurehead train` takes it as it is
    steps.jsonl        one `StepRow` a line, while the run goes on
    arrivals.jsonl     one `ArrivalRow` a line, while the run goes on
    evaluations.jsonl  one `Evaluation` a line, at the end
    model.safetensors  the last model, as the tensor `x`
    encoding.json      how raw rows become rows of the design matrix
    summary.json       status, versions, figures of the whole run
    checkpoints        while the run goes on, and when it ended early: what it goes on from
    .lock              while the run goes on: keeps other runs out
    ================== ==================================================================

    Arguments:
        path: of the folder.
    """

    path: Path

    @classmethod
    def create(cls, path: str | os.PathLike[str], overwrite: bool = False) -> Self:
        """Make a new run folder, with those above it.

        Arguments:
            path: of the folder.
            overwrite: whether to remove what an earlier run left there.

        Raises:
            InvalidArgument: if it is used already, or cannot be written to.
        """
        place = make_folder(path, overwrite)
        (place / STEPS).touch()
        return cls(place)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Return the folder of an earlier run, or of one that is still going on.

        Raises:
            DataError: if there is none.
        """
        place = Path(path).expanduser()
        if not (place / STEPS).is_file():
            raise DataError(f"{str(place)!r} is no run folder: {_unlike_a_run(place)}.")
        return cls(place)

    @property
    def summary(self) -> dict[str, Any]:
        """What `summary.json` holds; empty if it is not there."""
        try:
            return cast("dict[str, Any]", json.loads((self.path / SUMMARY).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise DataError(f"{self.path / SUMMARY} cannot be read: {error}.") from None

    @property
    def tables(self) -> dict[str, Any]:
        """What `config.toml` holds; empty if it is not there."""
        try:
            return tomllib.loads((self.path / CONFIG).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise DataError(f"{self.path / CONFIG} cannot be read: {error}.") from None

    @property
    def encoding(self) -> Encoding:
        """How raw rows become rows of the design matrix.

        Raises:
            DataError: if there is none.
        """
        from erasurehead.datasets.encoding import Encoding

        return Encoding.from_json(self._text(ENCODING))

    @property
    def x(self) -> Array:
        """The last model, shape (n_parameters,).

        Raises:
            DataError: if there is none: the run did not come to its end.
        """
        from erasurehead.records.tensors import load_model

        path = self.path / MODEL
        if not path.is_file():
            raise DataError(f"There is no {MODEL} in {str(self.path)!r}: the run was cut off, or is still going on.")
        return load_model(path)

    @property
    def run(self) -> Run:
        """The run as it was, as far as it was recorded; with an empty model if none was saved.

        Raises:
            DataError: if a file is damaged; a last line that was cut off is no damage.
        """
        from erasurehead.counting import Neglected
        from erasurehead.run import Evaluation, Run

        summary = self.summary
        steps, arrivals = self.step_rows(), self.arrival_rows()
        evaluations = [
            Evaluation(int(row["step"]), float(row["time"]), _numbers(row["metrics"]))
            for row in read_lines(self.path / EVALUATIONS)
        ]
        ended = summary.get("status") == "finished"
        return Run(
            scheme=str(summary.get("scheme", self.path.name)),
            engine=str(summary.get("engine", "")),
            x=self.x if (self.path / MODEL).is_file() else np.empty(0),
            steps=steps,
            arrivals=arrivals,
            start_seconds=float(summary.get("start_seconds") or 0.0),
            evaluations=evaluations,
            stopped="" if ended else str(summary.get("reason") or "cut off, or still going on"),
            final=_final(summary.get("final")),
            neglected=[Neglected(**row) for row in summary.get("neglected", ())],
        )

    def step_rows(self, size: int | None = None) -> list[StepRow]:
        """Return the rows of the steps, of the first `size` bytes or of all.

        Raises:
            DataError: if a line is damaged; a last line that was cut off is no damage.
        """
        return self._rows(STEPS, StepRow, size)

    def arrival_rows(self, size: int | None = None) -> list[ArrivalRow]:
        """Return the rows of the messages, of the first `size` bytes or of all.

        Raises:
            DataError: if a line is damaged; a last line that was cut off is no damage.
        """
        return self._rows(ARRIVALS, ArrivalRow, size)

    def write(self, name: str, text: str) -> None:
        """Write a file of the folder as a whole: whoever reads it meanwhile finds the old one or the new one.

        Raises:
            RecordsError: if it cannot be written.
        """
        write_whole(self.path / name, [text.encode()])

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write `summary.json`."""
        self.write(SUMMARY, to_text(summary))

    def write_model(self, x: Array) -> None:
        """Write `model.safetensors`."""
        from erasurehead.records.tensors import save_model

        save_model(self.path / MODEL, x)

    def _text(self, name: str) -> str:
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise DataError(f"There is no {name} in {str(self.path)!r}.") from None
        except OSError as error:
            raise DataError(f"{self.path / name} cannot be read: {error.strerror}.") from None

    def _rows(self, name: str, kind: type[_Row], size: int | None) -> list[_Row]:
        path, names = self.path / name, {field.name for field in fields(kind)}
        needed = [field.name for field in fields(kind) if field.default is field.default_factory is MISSING]
        rows: list[_Row] = []
        for number, row in enumerate(read_lines(path, size), start=1):
            missing = next((key for key in needed if key not in row), None)
            if missing is not None:
                raise DataError(f"{path}, line {number}: without {missing!r} it is not a run's record.")
            # Keys of later versions are passed over.
            rows.append(kind(**{key: row[key] for key in names & row.keys()}))
        return rows


def _unlike_a_run(place: Path) -> str:
    if place.is_dir():
        return f"there is no {STEPS} in it"
    return "it is a file" if place.exists() else "it is not there"


def _final(row: Mapping[str, Any] | None) -> FinalModel | None:
    from erasurehead.run import FinalModel

    if row is None:
        return None
    scales = row["column_scales"]
    return FinalModel(
        column_scales=None if scales is None else (scales[0], scales[1]),
        **_numbers({name: value for name, value in row.items() if name != "column_scales"}),
    )


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    return {name: float("nan") if value is None else float(value) for name, value in metrics.items()}

"""Runs as event files of TensorBoard, written with the package `tensorboard` alone."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from erasurehead._internal.documents import PlainData
from erasurehead._internal.plain_text import visible
from erasurehead._internal.user_files import StrPath
from erasurehead.errors import invalid
from erasurehead.trackers._tracked_run import Point, TrackedRun
from erasurehead.trackers._tracker import Tracker, place


class TensorBoard(Tracker):
    """Shows runs in TensorBoard: `tensorboard --logdir FOLDER`.

    Each run has a folder in it, or in that of its comparison. "Relative" and "wall" times are those of the run's own
    clock, counted from when it began.

    Arguments:
        folder: for the event files.
        patience: see `Tracker`.
    """

    package: ClassVar[str] = "tensorboard"

    def __init__(self, folder: StrPath = "tensorboard", *, patience: float = 30.0) -> None:
        super().__init__(patience)
        if "://" in (text := place("folder", folder)):
            raise invalid("folder", "must be the path of a folder on this machine", folder)
        self._folder = Path(text).expanduser().absolute()

    def __str__(self) -> str:
        return f"tensorboard={self._folder}"

    def open(self, run: TrackedRun, known: str) -> str:
        """Begin a folder, or in that of a run that is resumed another file."""
        event = import_module("tensorboard.compat.proto.event_pb2").Event
        self._summary: Any = import_module("tensorboard.compat.proto.summary_pb2").Summary
        writer = import_module("tensorboard.summary.writer.record_writer").RecordWriter
        within = Path(run.group) / run.name.replace("/", "-")
        if known and ".." not in Path(known).parts:
            within = Path(known.lstrip("/"))
        elif (self._folder / within).exists():
            within = within.with_name(f"{within.name}-{time.time_ns()}")
        (self._folder / within).mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self._records: Any = writer((self._folder / within / name).open("xb"))
        self._records.write(event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())
        self._event: Any = event
        lines = [f"    {name} = {visible(value, '')}" for name, value in run.settings.items()]
        shown = run.shown(str(self))  # some settings may be others when a run is resumed, such as the number of steps
        self.write([Point(max(shown.step, 0.0), 0.0, {}, "settings", "\n".join(lines), shown.began)])
        return str(within)

    def write(self, points: Sequence[Point]) -> None:
        """Add events, and flush them."""
        tensor_of = import_module("tensorboard.util.tensor_util").make_tensor_proto
        of_text = import_module("tensorboard.plugins.text.metadata").create_summary_metadata("", "")
        for point in points:
            values: list[PlainData] = [{"tag": name, "simple_value": one} for name, one in point.values.items()]
            if point.text:
                tag = f"{point.kind}/text_summary"
                values.append({"tag": tag, "metadata": of_text, "tensor": tensor_of(point.text)})
            summary = self._summary(value=[self._summary.Value(**value) for value in values])
            event = self._event(wall_time=point.time, step=int(point.step), summary=summary)
            self._records.write(event.SerializeToString())
        self._records.flush()

    def close(self, status: str, files: Sequence[Path]) -> None:
        """Close the file."""
        self._records.close()

"""A run as trackers know it: its points, and what a resumed run goes on with, which is kept in its folder."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from erasurehead._internal.documents import from_json
from erasurehead._internal.storage.access import Access
from erasurehead._internal.storage.folders import Folder

TRACKED = "trackers.json"
"""The file of a run's folder in which it is kept what trackers have shown."""


@dataclass(frozen=True)
class Point:
    """Something that a tracker is to show.

    Attributes:
        step: number of steps done; without a coordinator, of each peer on average.
        seconds: since training began, on the clock of the run, which may be a virtual one.
        values: numbers by name, which may be infinite or NaN.
        kind: `"step"`, or `"evaluation"` (of models, when the run is over), for numbers; or the kind of a notice.
        text: that of a notice, a sentence; empty for numbers.
        time: in seconds since 1970: that at which training began, and `seconds` later.
    """

    step: float
    seconds: float
    values: Mapping[str, float]
    kind: str = "step"
    text: str = ""
    time: float = 0.0


@dataclass
class Shown:
    """What a tracker has shown of a run.

    Attributes:
        id: what finds the run there; empty for a new one.
        began: when training began, in seconds since 1970.
        step: the last step.
        evaluation: the last step whose model was evaluated.
    """

    id: str = ""
    began: float = field(default_factory=time.time)
    step: float = -1.0
    evaluation: float = -1.0


@final
@dataclass
class TrackedRun:
    """A run as trackers know it.

    Attributes:
        name: its name, such as that of its folder.
        settings: by name, such as `"run.workers"`.
        group: what it belongs to, such as a comparison; empty if it is alone.
        folder: its folder, if it has one.
        access: who may read what is written there.
    """

    name: str
    settings: Mapping[str, str]
    group: str = ""
    folder: Path | None = None
    access: Access = "private"

    def __post_init__(self) -> None:
        self._writing = threading.Lock()  # trackers of one run write in threads of their own
        self._shown: dict[str, Shown] = {}
        if self.folder is not None:
            with (
                suppress(OSError, AttributeError, LookupError, TypeError, ValueError),
                Folder.open(self.folder) as opened,
            ):
                for tracker, known in from_json(opened.read(TRACKED, 1 << 20)).items():
                    self._shown[tracker] = Shown(str(known.pop("id")), **{key: float(known[key]) for key in known})

    def shown(self, tracker: str) -> Shown:
        """Return what a tracker has shown of it."""
        return self._shown.setdefault(tracker, Shown())

    def keep(self) -> None:
        """Write what has been shown, if that can be done."""
        if self.folder is not None:
            with self._writing, suppress(OSError), Folder.open(self.folder, self.access) as opened:
                text = json.dumps(self._shown, default=vars)
                opened.write_whole(TRACKED, [text.encode()])

"""How runs stand, in the text format of Prometheus, version 0.0.4."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from erasurehead._internal.user_files import printable

KIND = "text/plain; version=0.0.4"
"""The content type of that format."""

_HELP = {
    "live": ("gauge", "1 while the run is in progress, 0 when it is over."),
    "steps": ("gauge", "Steps done; without a coordinator, of each peer on average."),
    "seconds": ("gauge", "Seconds of training, on the clock of the run, which may be a virtual one."),
    "loss": ("gauge", "Newest loss; without a coordinator, the objective of the mean model."),
    "metric": ("gauge", "Newest value of a metric on the test samples."),
    "wait_seconds": ("gauge", "Seconds that the newest step was waited for."),
    "residual": ("gauge", "Residual of the newest step, in tasks."),
    "received_bytes_total": ("counter", "Bytes of all messages received."),
    "workers": ("gauge", "Number of workers, or peers, in a state."),
}
"""What there is, in this order: its type and its meaning."""

Sample = tuple[str, Mapping[str, str], float]
"""A name of those, labels, and a value."""


def exposition(samples: Iterable[Sample]) -> str:
    """Return values as text; those that are not known are left out.

    >>> print(exposition([("loss", {"run": "houses"}, 0.5), ("live", {}, float("nan"))]), end="")
    # HELP erasurehead_loss Newest loss; without a coordinator, the objective of the mean model.
    # TYPE erasurehead_loss gauge
    erasurehead_loss{run="houses"} 0.5
    """
    lines: dict[str, str] = {}
    for name, labels, value in samples:
        if not math.isnan(value):
            told = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
            lines[name] = lines.get(name, "") + f"erasurehead_{name}{{{told}}} {repr(value).title()}\n"
    return "".join(
        f"# HELP erasurehead_{name} {text}\n# TYPE erasurehead_{name} {kind}\n{lines[name]}"
        for name, (kind, text) in _HELP.items()
        if name in lines
    )


def _escaped(text: str) -> str:
    return printable(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

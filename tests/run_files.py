"""Run files as they lie in folders: all of their settings, checked."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from erasurehead.runs._config.checking import build_config


def read_config(path: str | os.PathLike[str]) -> Any:
    """Return the settings of a run file."""
    return build_config(tomllib.loads(Path(path).read_text(encoding="utf-8")))

"""Who may read the files of a run: by default only its owner, as a model or a trace may be private."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

Access: TypeAlias = Literal["private", "group", "all"]
"""Who may read new folders and the files in them: their owner, the members of their group too, or everybody."""

ACCESS: tuple[Access, ...] = get_args(Access)

FOLDER_MODES: dict[Access, int] = {"private": 0o700, "group": 0o750, "all": 0o755}
FILE_MODES: dict[Access, int] = {"private": 0o600, "group": 0o640, "all": 0o644}

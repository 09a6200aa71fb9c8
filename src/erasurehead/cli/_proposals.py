"""The whole command for a file that a command cannot take as it is: which options would make it work."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from erasurehead._internal.documents import Entries
from erasurehead.errors import ErasureHeadError
from erasurehead.runs._config import build_config, merged

if TYPE_CHECKING:
    from erasurehead.datasets import Dataset

_MANY = 100
"""Values from which on a column becomes how often each occurs, rather than a column for each."""

_LONG = 4.0
"""Words of a text, on average, from which on they become columns."""


_LARGE = 5e7
"""Bytes of a file from which on reading it again, to look at its columns, would take too long."""


def proposed(command: str, words: Sequence[str], tables: Entries) -> str:
    """Return the command that reads a file in which columns hold texts; empty if there is none.

    Arguments:
        command: name of the command.
        words: what was typed behind it.
        tables: the options of it, as tables of a run file.
    """
    place = Path(tables["data"]["source"])
    if place.is_dir() or place.stat().st_size > _LARGE:
        return shlex.join(["erasurehead", command, *words, "--categorical"])
    from erasurehead.runs._config import parts

    try:
        config = build_config(merged(dict(tables), {"data": {"categorical": True}}))
        data: Any = parts.load_data(config.data, config.problem.loss)
        options = _options(data)
    except ErasureHeadError:  # which has other faults, too
        return ""
    given = [word for word in words if word not in options]
    return shlex.join(["erasurehead", command, *given, *options])


def _options(data: Dataset) -> list[str]:
    """Return the options for a file that was read with all of its texts as categories."""
    from erasurehead.datasets._preprocessing.table_encoding import TableEncoding

    named: dict[str, list[str]] = {"--drop": [], "--count": [], "--text": []}
    assert isinstance(data.encoding, TableEncoding)
    vocabularies = data.encoding.vocabularies
    for use in data.uses:
        texts = vocabularies[use.name].labels() if use.becomes == "one-hot" and use.name in vocabularies else []
        long = sum(len(text.split()) for text in texts) >= _LONG * len(texts) > 0
        if long and use.width > _MANY:
            named["--text"].append(use.name)
        elif use.nearly_unique or (use.warning and texts):
            named["--drop"].append(use.name)
        elif use.width > _MANY:
            named["--count"].append(use.name)
    one_hot = any(use.becomes == "one-hot" and use.name in vocabularies for use in data.uses)
    options = ["--categorical"] if one_hot else []
    for option, names in named.items():
        options += [option, ",".join(names)] if names else []
    return options

"""Descriptions of the keys of run files, from which options, help, tables and a JSON schema are made."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A table of a run file: it has only the described keys, and is immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def key(default: Any, text: str, *, option: str = "", metavar: str = "", panel: str = "", **rules: Any) -> Any:
    """Return the field of a key.

    Arguments:
        default: its default; None for a value that depends on other keys.
        text: its meaning, in a sentence or two, for help and documentation.
        option: its option on the command line, such as `"--workers, -w"`; empty if it has no option.
        metavar: placeholder for its value in the help.
        panel: panel in the help, if not that of its section.
        **rules: rules of pydantic, such as `ge`, and `examples`.
    """
    extra = {"x-option": option, "x-metavar": metavar, "x-panel": panel}
    shown: Any = {name: said for name, said in extra.items() if said}
    return Field(default=default, description=text, json_schema_extra=shown, **rules)

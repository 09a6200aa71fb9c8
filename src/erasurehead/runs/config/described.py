"""How a key of a run file is described, for whatever is made of that: options, help, tables, a JSON schema."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A table of a run file: nothing but what is described may stand in it, and nothing in it changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def key(default: Any, text: str, *, option: str = "", metavar: str = "", panel: str = "", **rules: Any) -> Any:
    """Return the field of a key.

    Arguments:
        default: its value where it is left out; None for a value that depends on the others.
        text: what it means, in a sentence or two, for help and documentation.
        option: how the command line spells it, such as `"--workers, -w"`; empty if it has no option.
        metavar: stands for its value in the help.
        panel: of the help, if not that of its section.
        **rules: of pydantic, such as `ge`, and `examples`.
    """
    extra = {"x-option": option, "x-metavar": metavar, "x-panel": panel}
    shown: Any = {name: said for name, said in extra.items() if said}
    return Field(default=default, description=text, json_schema_extra=shown, **rules)

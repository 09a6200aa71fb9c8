"""One option of a command."""

from __future__ import annotations

from typing import Any

import typer


def option(*names: str, text: str, panel: str, metavar: str | None = None) -> Any:
    """Return a typer option without a default of its own: what is not given is left to the run file."""
    return typer.Option(*names, help=text, rich_help_panel=panel, metavar=metavar, show_default=False)

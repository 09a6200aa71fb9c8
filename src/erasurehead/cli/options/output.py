"""What a run leaves behind, and how a command speaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from erasurehead.cli.options.option import option

_PANEL = "Output"


@dataclass(frozen=True)
class RecordOptions:
    """What a run file can say of records and checkpoints. None is what was not given."""

    out: Annotated[
        str | None,
        option(
            "--out",
            "-o",
            panel=_PANEL,
            metavar="FOLDER",
            text="For the records; by default a new folder in runs.",
        ),
    ] = None
    overwrite: Annotated[
        bool | None,
        option(
            "--overwrite",
            panel=_PANEL,
            text="Remove an earlier run from that folder first.",
        ),
    ] = None
    records: Annotated[
        str | None,
        option(
            "--records",
            panel=_PANEL,
            metavar="WHEN",
            text="required (the default: training ends where they cannot be written any more) or optional.",
        ),
    ] = None
    access: Annotated[
        str | None,
        option(
            "--access",
            panel=_PANEL,
            metavar="WHO",
            text="Who may read a new folder: private (the default: only you), group or all.",
        ),
    ] = None
    checkpoint_every: Annotated[
        int | None,
        option("--checkpoint-every", panel=_PANEL, metavar="STEPS", text="Make checkpoints by steps, too."),
    ] = None
    checkpoint_seconds: Annotated[
        float | None,
        option("--checkpoint-seconds", panel=_PANEL, metavar="SECONDS", text="Between checkpoints (60); 0 for none."),
    ] = None
    keep_checkpoints: Annotated[
        bool | None,
        option("--keep-checkpoints", panel=_PANEL, text="Keep them when training is finished."),
    ] = None


@dataclass(frozen=True)
class OutputOptions:
    """How a command speaks."""

    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print JSON on stdout, and nothing else there.",
            rich_help_panel=_PANEL,
        ),
    ] = False
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            help="No progress, no explanations; warnings and results only.",
            rich_help_panel=_PANEL,
        ),
    ] = False

"""`erasurehead config`: the keys of run files, as a JSON schema for editors and as a table."""

from __future__ import annotations

from typing import Any

from erasurehead.cli._options import OutputOptions, argument, option
from erasurehead.cli._output import Screen
from erasurehead.cli._streams import check_open, results
from erasurehead.errors import check_choice
from erasurehead.runs._config import Config, json_schema, keys
from erasurehead.runs._config.keys import markdown_table, shown

HELP = """Look up what a run file may contain.

Lists its keys, and prints a JSON schema with which editors check them.
"""

_SCHEMA = """
Print the JSON schema of run files.

[bold]erasurehead config schema > erasurehead.schema.json[/bold]
  Editors with TOML support use it to complete, explain and check keys: make
  the first line of a run file [italic]#:schema ./erasurehead.schema.json[/italic]
  (Taplo, Even Better TOML). A run file with a section [italic]\\[consensus][/italic]
  is checked as one of erasurehead consensus, any other as one of training
  with a coordinator.
"""

_KEYS = """
List the keys of a run file: option, values, default, and what each means.

[bold]erasurehead config keys[/bold]

[bold]erasurehead config keys faults[/bold]
  The keys of one section.

[bold]erasurehead config keys --peers[/bold]
  Those of run files of erasurehead consensus.
"""


def schema() -> None:
    """Print the JSON schema of run files."""
    import json

    from erasurehead.consensus._config import ConsensusConfig

    check_open()
    with results() as stream:
        stream.write(json.dumps(json_schema({"consensus": ConsensusConfig}), indent=2) + "\n")


def list_keys(
    *,
    section: str | None = argument("SECTION", "A section; by default all.", default=None),
    peers: bool = option("--peers", "The keys of run files of erasurehead consensus.", default=False),
    markdown: bool = option("--markdown", "Print a table in Markdown.", default=False),
    output: OutputOptions,
) -> None:
    """List the keys of a run file."""
    from erasurehead.consensus._config import ConsensusConfig

    every = keys(ConsensusConfig if peers or section == "consensus" else Config)
    sections = tuple(dict.fromkeys(key.section for key in every if key.section))
    if section is not None:
        check_choice("SECTION", section, sections)
    chosen = [key for key in every if section in (None, key.section)]
    if markdown:
        Screen(output).lines([markdown_table(chosen)])
        return
    Screen(output).result({"keys": [key.as_dict() for key in chosen]}, _table(chosen))


def _table(chosen: Any) -> Any:
    from rich import box
    from rich.table import Column, Table

    table = Table(
        Column("key", no_wrap=True),
        Column("option", no_wrap=True),
        "values",
        "default",
        "what it means",
        box=box.SIMPLE_HEAD,
    )
    for key in chosen:
        table.add_row(key.path, key.option, key.range, shown(key.default), key.text)
    return table


COMMANDS = {"schema": (schema, _SCHEMA), "keys": (list_keys, _KEYS)}
"""Its subcommands, each with its help."""

"""The command line, with one module per command, which parses arguments, calls the library and prints the result."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; the entry point of the console script `erasurehead`, and of `python -m erasurehead`."""
    try:
        from erasurehead.cli import streams

        streams.prepare()
        try:
            from erasurehead.cli.app import build

            build()(prog_name="erasurehead")  # however it was started: help and shell completion go by this name
        finally:
            streams.finish()
    except KeyboardInterrupt:  # while modules are loaded; later ones are handled in `app`
        sys.exit(130)

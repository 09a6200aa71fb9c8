"""The command line, with one module per command, which parses arguments, calls the library and prints the result.

What is a result and what is said beside it is kept apart in `_output.py`; streams that are closed or full are those of
`_streams.py`.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line; the entry point of the console script `erasurehead`, and of `python -m erasurehead`."""
    try:
        from erasurehead.cli import _streams as streams

        streams.prepare()
        try:
            from erasurehead._internal.signals import exit_afterwards
            from erasurehead.cli._app import build

            exit_afterwards()
            # Only the command that is typed is loaded; a shell that completes words has typed nothing here.
            typed = [""] if "_ERASUREHEAD_COMPLETE" in os.environ else [*sys.argv[1:], "--help"]
            build(typed[0])(prog_name="erasurehead")  # however it was started: help and shell completion go by this
        finally:
            streams.finish()
    except Exception as error:  # one that is not meant to happen: its text may have come from data, too
        import traceback

        from erasurehead._internal.plain_text import visible

        sys.stderr.write(visible("".join(traceback.format_exception(error))))
        sys.exit(1)
    except KeyboardInterrupt:  # while modules are loaded; later ones are handled in `app`
        sys.exit(130)

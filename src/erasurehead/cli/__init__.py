"""The command line: thin, one file a command; each parses, calls the library, and prints."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line: what the console script `erasurehead` calls."""
    try:
        from erasurehead.cli import streams

        streams.prepare()
        try:
            from erasurehead.cli.app import build

            build()()
        finally:
            streams.finish()
    except KeyboardInterrupt:  # while it was still loading; `app` takes care of all that comes after
        sys.exit(130)

"""The command line: thin, one file a command; each parses, calls the library, and prints."""

from __future__ import annotations


def main() -> None:
    """Run the command line: what the console script `erasurehead` calls."""
    from erasurehead.cli.app import build

    build()()

"""Beside a rank while MPI starts: `python watch.py LIMIT PROCESS SENTENCE`, with only the standard library.

MPI's own start waits for every rank, and keeps the interpreter from doing anything else meanwhile; if a rank dies
before MPI is up, and the job was started so that it bears deaths, it waits for ever.
"""

from __future__ import annotations

import os
import select
import signal
import sys


def main() -> None:
    """Wait for the rank to end; if it does not within the limit, say the sentence, and end it."""
    limit, process, sentence = sys.argv[1:]
    if not select.select([sys.stdin], [], [], float(limit))[0]:  # the other end is the rank's
        sys.stderr.write(f"{sentence}\n")
        sys.stderr.flush()
        os.kill(int(process), signal.SIGALRM)


if __name__ == "__main__":
    main()

"""Run scripts for Ray Train one after the other in a cluster of this machine: `ray_stacks.py SCRIPT WORKERS ...`."""

from __future__ import annotations

import os
import runpy
import sys

os.environ["RAY_DEDUP_LOGS"] = "0"  # each rank that says something is to be heard

import ray


def main() -> None:
    words = sys.argv[1:]
    ray.init("local", num_cpus=4, include_dashboard=False)  # pyright: ignore[reportUnknownMemberType]
    for script, workers in zip(words[::2], words[1::2], strict=True):
        sys.argv = [script, "--workers", workers]
        runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()

"""Start ranks as workers of Ray Train: `python ray_train.py N FAILURES PROGRAM ARGUMENTS ...`, a program each."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import Any

# Lines of several ranks may be alike, and a busy machine may take longer to start Ray than the 30 s that it is given.
os.environ |= {"RAY_DEDUP_LOGS": "0", "RAY_raylet_start_wait_time_s": "120"}

import ray
import ray.train
from ray.train.torch import TorchTrainer


def program(config: dict[str, Any]) -> None:
    sys.argv = config["words"]
    runpy.run_path(sys.argv[0], run_name="__main__")


def main() -> None:
    n, failures, *words = sys.argv[1:]
    ray.init(num_cpus=int(n) + 1, include_dashboard=False)  # pyright: ignore[reportUnknownMemberType]
    trainer: Any = TorchTrainer(
        program,
        train_loop_config={"words": words},
        scaling_config=ray.train.ScalingConfig(num_workers=int(n)),
        run_config=ray.train.RunConfig(
            failure_config=ray.train.FailureConfig(max_failures=int(failures)),
            storage_path=str(Path(words[1]).parent),
        ),
    )
    trainer.fit()


if __name__ == "__main__":
    main()

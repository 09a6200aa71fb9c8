"""Trackers as texts of run files: a name, and where it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead.errors import InvalidArgument

if TYPE_CHECKING:
    from erasurehead.trackers._tracker import Tracker

_WHERE = {"tensorboard": "tensorboard", "mlflow": "mlflow", "wandb": "erasurehead"}
"""Where each writes by default: a folder, or for wandb a project."""


def complete(text: str) -> str:
    """Return the text of a tracker with where it writes; folders as absolute paths.

    >>> complete("wandb"), complete("MLflow=http://127.0.0.1:5000")
    ('wandb=erasurehead', 'mlflow=http://127.0.0.1:5000')
    """
    name, given, where = (part.strip() for part in text.partition("="))
    name = name.lower()
    if name not in _WHERE or (given and not where):
        raise InvalidArgument("track", "must be tensorboard, mlflow or wandb, or such as tensorboard=FOLDER", text)
    where = where or _WHERE[name]
    if "://" in where and "@" in where:
        raise InvalidArgument("track", "must hold no password: MLflow takes it from MLFLOW_TRACKING_PASSWORD", text)
    try:
        return str(_made(name, where))
    except InvalidArgument as error:
        what = error.argument.upper()
        rule = f"must be such as {name}={what}, and {what} {error.rule}"
        raise InvalidArgument("track", rule, text, error.hint) from None


def tracker_of(text: str) -> Tracker:
    """Return the tracker of a text.

    >>> print(tracker_of("wandb=houses"))
    wandb=houses
    """
    name, _, where = complete(text).partition("=")
    return _made(name, where)


def _made(name: str, where: str) -> Tracker:
    from erasurehead.trackers._mlflow import MLflow
    from erasurehead.trackers._tensorboard import TensorBoard
    from erasurehead.trackers._wandb import WandB

    return {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WandB}[name](where)

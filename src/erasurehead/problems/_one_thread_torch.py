"""Imported by workers of a problem of PyTorch before they start: with one thread, as many workers share a machine."""

from __future__ import annotations

from importlib import import_module
from typing import Any

torch: Any = import_module("torch")
torch.set_num_threads(1)

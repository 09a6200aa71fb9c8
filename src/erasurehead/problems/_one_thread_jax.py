"""Imported by workers of a problem of JAX before they start: JAX with one thread, as many workers share a machine."""

from __future__ import annotations

import os
from importlib import import_module

os.environ.setdefault("NPROC", "1")  # threads of XLA's pool; by default every process has one per core
os.environ.setdefault("JAX_PLATFORMS", "cpu")  # otherwise each worker would take all memory of the one accelerator
import_module("jax")

"""Imported by workers of a problem of JAX before they start: JAX with one thread, as thirty workers share a machine."""

from __future__ import annotations

import os
from importlib import import_module

os.environ.setdefault("NPROC", "1")  # threads of XLA's pool, of which every process would have one for each core
os.environ.setdefault("JAX_PLATFORMS", "cpu")  # thirty workers would each take the memory of the one accelerator
import_module("jax")

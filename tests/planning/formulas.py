"""The formulas that only the theory page and tests use, from the folder of the page."""

from __future__ import annotations

import importlib

import pytest

from ..docs.pages import DOCS

with pytest.MonkeyPatch.context() as _patch:
    _patch.syspath_prepend(str(DOCS / "extensions"))
    formulas = importlib.import_module("theory_formulas")

"""Settings of the documentation: `sphinx-build -W docs docs/_build`."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "ErasureHead"
author = "The ErasureHead developers"
copyright = author
version = release = installed("erasurehead")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    *([] if tags.has("without_source") else ["sphinx.ext.viewcode"]),  # noqa: F821  # as Sphinx runs this file
    "code_catalogue",
    "docstrings",
    "public_names",
]
exclude_patterns = ["_build", "extensions"]

html_theme = "furo"
html_title = "ErasureHead"
html_theme_options = {"navigation_with_keys": True}

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["myst.strikethrough", "ref.python"]  # the second: two classes may have attributes of one name

default_role = "code"  # docstrings write code as Markdown does, with single backticks
add_module_names = False
python_use_unqualified_type_names = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_default_options = {"exclude-members": "set_fit_request, set_score_request"}  # scikit-learn writes them
autodoc_type_aliases = {name: name for name in ("Array", "IntArray", "BoolArray", "SparseMatrix", "Event", "LateWork")}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = [("Structure", "params_style")]

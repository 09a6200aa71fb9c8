"""Settings of the documentation: `sphinx-build -W docs docs/_build`."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

from gallery import SETTINGS as sphinx_gallery_conf  # noqa: F401

project = "ErasureHead"
author = "The ErasureHead developers"
copyright = author
version = release = installed("erasurehead")

extensions = [
    "myst_nb",  # pages as myst_parser reads them; those whose head says so are notebooks, and are run
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    *([] if tags.has("without_source") else ["sphinx.ext.viewcode"]),  # noqa: F821  # as Sphinx runs this file
    "code_catalogue",
    "command_line",
    "docstrings",
    "first_mentions",
    "gallery",
    "mathml",
    "public_names",
    "root_files",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "extensions", "gallery", "style"]
smartquotes = False  # quotes and dashes belong to commands more often than not
html_math_renderer = "mathml"

html_theme = "furo"
html_title = "ErasureHead"
html_theme_options = {"navigation_with_keys": True}
html_static_path = ["style"]
html_css_files = ["site.css"]
html_favicon = "style/favicon.svg"
html_copy_source = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["myst.strikethrough", "ref.python"]  # the second: two classes may have attributes of one name

nb_execution_mode = "cache"  # what has not changed since it was last run is not run again
nb_execution_in_temp = True  # they may write files
nb_execution_timeout = 120  # seconds
nb_execution_raise_on_error = True
nb_execution_show_tb = True

nitpicky = True
nitpick_ignore_regex = [
    # Python's and other libraries: looking up where their pages are would take a network.
    (
        "py:.*",
        r"(abc|annotated_types|collections|enum|jax|matplotlib|numpy|os|pathlib|pydantic|rich|scipy|torch|types|typing)\..*",
    ),
    # What is within what is returned: shown by its name, for reading.
    ("py:.*", r"erasurehead\.(.*\.)?_.*"),
    # Errors that only who writes an engine or a reader meets, type variables, and types that Sphinx cuts in two.
    ("py:exc", "CheckFailed|MessageLost|NoRoom|TooLarge|Unfit|Unsupported"),
    ("py:class", r"MPI\.Intracomm|Optimizer|Returned|Start|Task|TypeAliasForwardRef|Reform|dict\[str"),
]

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

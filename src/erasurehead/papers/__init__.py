"""Published papers, figure by figure: each figure and table as numbers, a picture and a sentence on how it was made.

This room runs experiments of all rooms above it, with and without a coordinator, and knows what the papers say of them.
It offers `reproduce`, for each of them by its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.papers._papers import reproduce as reproduce

__getattr__, __dir__ = lazy_names(__name__)

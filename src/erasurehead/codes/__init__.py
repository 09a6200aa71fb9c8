"""Who computes what: gradient codes from the literature, one file per family; a code is immutable data.

The room knows matrices and nothing of what they are for: no problem, engine or delay. It offers the type of a code,
the codes that most runs have, your own from a matrix, once it is checked how many stragglers it tolerates (`custom`, in
`_custom_code.py`), and all others by name (`build`, `catalogue`). docs/codes.md lists what is here, and
published codes that are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.codes._base import GradientCode as GradientCode
    from erasurehead.codes._custom_code import custom as custom
    from erasurehead.codes._cyclic import cyclic_repetition as cyclic_repetition
    from erasurehead.codes._placed import placed as placed
    from erasurehead.codes._registry import build as build, catalogue as catalogue
    from erasurehead.codes._repetition import fractional_repetition as fractional_repetition, uncoded as uncoded

__getattr__, __dir__ = lazy_names(__name__)

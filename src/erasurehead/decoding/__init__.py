"""Which weights undo the erasures: from the messages that arrived to the sum of all partial gradients.

The room knows codes, and nothing of rules, engines or gradients: whoever has a code asks `make_decoder` for the
cheapest decoder that is right for it, and a session of that for the weights of the arrivals so far. `analyse` says
how well a code decodes with so many stragglers. Exact codes without a simpler structure are decoded by their dual code,
with one equation for each erasure (`_null_space.py`); `_parity_checks.py` and what is built on it find liars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.decoding._analysis import analyse as analyse
    from erasurehead.decoding._base import Decoder as Decoder, Session as Session
    from erasurehead.decoding._choice import make_decoder as make_decoder

__getattr__, __dir__ = lazy_names(__name__)

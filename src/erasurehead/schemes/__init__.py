"""When to stop and what the optimizer sees: wait rules, aggregations, and the named schemes of the papers.

A scheme joins a code, a wait rule and an aggregation; it knows codes and decoders, and neither engines nor problems.
It is plain data that runs share: what learns in a run begins anew with each. The room offers the named schemes,
`custom` for one of your own, the same as texts (`parse_scheme`), and the contract of aggregations. `_scheme.py`
says what a scheme is; all named ones, `ringmaster`, `rennala` and `piag` among them, are put together in `_named.py`;
`_asynchronous.py` and `_incremental.py` hold what they do with late messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.schemes import wait_rules as wait_rules
    from erasurehead.schemes._aggregation import (
        Aggregation as Aggregation,
        ByCoverage as ByCoverage,
        LateMessage as LateMessage,
    )
    from erasurehead.schemes._named import (
        adaptive as adaptive,
        asynchronous as asynchronous,
        compute_once as compute_once,
        erasurehead as erasurehead,
        exact as exact,
        ignore_stragglers as ignore_stragglers,
        nested as nested,
        piag as piag,
        rennala as rennala,
        ringleader as ringleader,
        ringmaster as ringmaster,
        uncoded as uncoded,
    )
    from erasurehead.schemes._scheme import Scheme as Scheme, custom as custom
    from erasurehead.schemes._text import parse_scheme as parse_scheme

__getattr__, __dir__ = lazy_names(__name__)

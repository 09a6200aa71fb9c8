"""When to stop: wait rules, written in Python as in configuration files.

A rule sees which workers have answered, when, and what their messages are worth, but no vectors. The package offers
the contract, the two rules that most others are made of, with `|` and `&`, and all of them by their text (`parse`).

>>> from erasurehead.schemes import wait_rules
>>> rule = wait_rules.first(11) | wait_rules.decodable()
>>> str(rule)
'first(11) | decodable()'
>>> wait_rules.parse("first(11) | decodable()") == rule
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.schemes.wait_rules._base import Verdict as Verdict, WaitRule as WaitRule
    from erasurehead.schemes.wait_rules._text import decodable as decodable, first as first, parse as parse
    from erasurehead.schemes.wait_rules._view import View as View

__getattr__, __dir__ = lazy_names(__name__)

"""Documents that were made to break their parser are refused in no time, and all others are read as they are."""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from erasurehead._internal.documents import MOST_DEPTH, MOST_DIGITS, MOST_PARTS, BeyondLimits, from_json, from_toml

N = 200_000
DEEP, DIGITS, PARTS = f"more than {MOST_DEPTH} deep", f"more than {MOST_DIGITS} digits", f"more than {MOST_PARTS} parts"

BOMBS: list[tuple[Callable[[str], Any], str, str]] = [
    (from_json, "[" * N + "]" * N, DEEP),
    (from_json, '{"a":' * N, DEEP),
    (from_json, '["' + '\\"' * N + '",' + "[" * N, DEEP),
    (from_json, '{"step":' + "9" * N + "}", DIGITS),
    (from_json, "1" * (MOST_DIGITS + 1), DIGITS),
    (from_json, "[0." + "1" * N + "]", DIGITS),
    (from_json, '"\\ud800"', "surrogates not allowed"),
    (from_toml, "a = " + "[" * N + "]" * N, DEEP),
    (from_toml, "a = " + "{a=" * N, DEEP),
    (from_toml, "# [[\nsteps = " + "9" * N, rf"{DIGITS} \(line 2\)"),
    (from_toml, "steps = -0x" + "f" * N, DIGITS),
    (from_toml, "steps = 0b" + "1" * N, DIGITS),
    (from_toml, ".".join(["a"] * N) + " = 1", PARTS),
    (from_toml, " . ".join(['"a"'] * N) + " = 1", PARTS),
    (from_toml, "[" + ".".join(["'a'"] * N) + "]", PARTS),
]


@pytest.mark.parametrize(("read", "text", "said"), BOMBS, ids=range(len(BOMBS)))
def test_what_no_parser_bears_is_refused_at_once(read: Callable[[str], Any], text: str, said: str) -> None:
    begin = time.process_time()
    with pytest.raises(ValueError, match=said):
        read(text)
    assert time.process_time() - begin < 1.0  # a parser would take hours over some of them


@pytest.mark.parametrize("quote", ['"""', "'''", '"', "'", "[", "#"])
def test_what_is_never_closed_takes_no_longer_than_its_length(quote: str) -> None:
    begin = time.process_time()
    with pytest.raises(ValueError, match=r"."):
        from_toml("a = " + quote + '"" ' * 100_000)
    assert time.process_time() - begin < 5.0


_PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**MOST_DIGITS) + 1, 10**MOST_DIGITS - 1)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.slow
@given(_PLAIN, st.booleans())
def test_json_is_read_as_json(data: Any, as_bytes: bool) -> None:
    text = json.dumps(data, ensure_ascii=False, indent=1)
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        return
    assert from_json(encoded if as_bytes else text) == json.loads(text)


@given(st.text("ab.[]{}=\"'\\#\n _-019exf", max_size=60))
def test_toml_is_read_as_toml(text: str) -> None:
    try:
        wanted: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        wanted = None
    try:
        found: Any = from_toml(text)
    except BeyondLimits:
        raise
    except ValueError:
        found = None
    assert repr(found) == repr(wanted)


def test_brackets_and_digits_in_texts_are_no_depth() -> None:
    text = "[" * 500 + "{" * 500 + "9" * 500 + "a." * 50
    assert from_json(json.dumps([text, {text: [text] * 100}])) == [text, {text: [text] * 100}]
    assert from_toml(f"a = '{text}' # {text}\nb = '''{text}\n'''\n[c]\nd = [{', '.join(['1.5'] * 1000)}]")["a"] == text

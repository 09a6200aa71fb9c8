"""The `repr` of a decoder is an expression of names of codes and decoding that makes the same decoder again."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import numpy as np
import pytest

from erasurehead import codes, decoding
from erasurehead.decoding import Decoder, _sparse, make_decoder

CODES = {
    "replicas": codes.fractional_repetition(6, 2),
    "dense": codes.cyclic_repetition(6, 2),
    "null space": codes.build("cyclic_mds", n_workers=30, stragglers=3),
    "graph": codes.build("graph_code", n_workers=9, replication=3),
    "blocks": codes.build("communication_efficient_groups", n_workers=12, load=4, n_pieces=2),
}
DECODERS: dict[str, Decoder] = {name: make_decoder(code) for name, code in CODES.items()} | {
    "sparse": _sparse.SparseLeastSquares(codes.cyclic_repetition(6, 2)),
}


@pytest.mark.parametrize("name", DECODERS)
def test_it_makes_the_same_decoder(name: str) -> None:
    decoder = DECODERS[name]
    files = [
        import_module(f"{room.__name__}.{file.name}")
        for room in (codes, decoding)
        for file in iter_modules(room.__path__)
    ]
    names = {one: value for file in files for one, value in vars(file).items()}
    again = eval(repr(decoder), {"__builtins__": {}}, names)
    assert repr(again) == repr(decoder)
    assert type(again) is type(decoder)
    messages = range(decoder.code.n_messages - 2)
    np.testing.assert_array_equal(again.decode(messages).alpha, decoder.decode(messages).alpha)

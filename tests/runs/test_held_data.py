"""What redundant data cost: bytes of the rows that a worker holds, in place of an equal share of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from erasurehead import codes
from erasurehead.runs._held_data import HeldData


class Rows(NamedTuple):
    """As much of a data set as is asked for."""

    X_train: Any
    y_train: Any


held_by: Any = HeldData.by


def test_bytes_are_those_of_the_rows_that_a_worker_holds() -> None:
    random = np.random.default_rng(0)
    dense = Rows(random.standard_normal((1200, 9)), random.standard_normal(1200))
    code = codes.fractional_repetition(12, load=3)
    held = held_by(code, dense)
    whole = dense.X_train.nbytes + dense.y_train.nbytes
    assert held == HeldData(3, 12, whole * 3 // 12, whole // 12)
    assert held_by(codes.uncoded(12), dense) is None
    assert held_by(codes.uncoded(12, 24), dense) is None
    rows = sparse.random(1200, 500, 0.01, format="csr", random_state=0)
    some = held_by(code, Rows(rows, random.standard_normal(1200)))
    assert some is not None
    assert some.bytes < 0.1 * 1200 * 500 * 8 * 3 / 12
    uneven = held_by(codes.build("binary_repetition", n_workers=7, stragglers=2), dense)
    assert str(uneven).startswith("workers hold up to 4 of 7 tasks: ")
    assert str(HeldData(3, 12, 41_000_000, 13_666_667)) == (
        "each worker holds 3 of 12 tasks: 41 MB in place of 13.7 MB, in memory and to load at the start"
    )

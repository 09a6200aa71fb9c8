"""Reports of encoded rows: what is lost in more than half of them is an error."""

from __future__ import annotations

import pytest

from erasurehead.datasets._encoded import EncodingReport
from erasurehead.errors import DataError


@pytest.mark.parametrize(
    "report",
    [
        EncodingReport(10, {"town": 5}, {"town": 10}),
        EncodingReport(10, {"town x year": 10}, {}),
        EncodingReport(10, {}, {}, dropped=10),
        EncodingReport(0, {}, {}),
    ],
)
def test_half_of_the_rows_may_be_unseen(report: EncodingReport) -> None:
    report.check()


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (EncodingReport(3, {"a": 1, "b": 2}, {}), "^b: 2 of 3 rows have a value that training never saw"),
        (EncodingReport(1, {"columns beyond 4": 1}, {}), "columns beyond 4: 1 of 1 row have"),
        (EncodingReport(2, {}, {}, dropped=3), "^3 of 5 rows have a label that is not one of the classes"),
        (EncodingReport(1, dict.fromkeys("abcde", 1), {}), "c: 1 of 1 row.*; and 2 more columns likewise"),
    ],
)
def test_more_than_half_of_them_is_an_error_that_says_how_to_go_on(report: EncodingReport, said: str) -> None:
    with pytest.raises(DataError, match=said) as refused:
        report.check()
    assert "or allow it (allow_unseen, --allow-unseen)" in str(refused.value)

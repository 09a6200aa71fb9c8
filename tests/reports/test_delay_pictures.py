"""Pictures of fitted delays: what is in them, and what they cannot be made of."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from erasurehead import delays
from erasurehead.delays import Trace, fit_trace
from erasurehead.errors import InvalidArgument
from erasurehead.reports import _canvas as canvas
from erasurehead.reports._delay_pictures import draw_fits, draw_pp, draw_tails


@pytest.fixture(scope="module")
def trace() -> Trace:
    return Trace.from_table(delays.parse("weibull(0.3, 0.7, seed=0)").rows(0, 50, 6), "latencies.csv")


def axes() -> canvas.Axes:
    return canvas.new_figure(6.0, 4.0).subplots()


def test_the_pp_plot_of_the_right_family_keeps_to_the_diagonal(trace: Trace) -> None:
    fits = fit_trace(trace, ["weibull", "exponential"])
    with canvas.drawing():
        shown, tails = axes(), axes()
        draw_pp(shown, fits)
        lines = {line.get_label(): line for line in shown.get_lines()}
        weibull = next(line for name, line in lines.items() if name.startswith("weibull"))
        assert np.abs(weibull.get_xdata() - weibull.get_ydata()).max() < 1.36 / math.sqrt(300)
        draw_tails(tails, trace, fits)
        assert len(tails.get_lines()) == 3  # the samples, and two fits
        assert tails.get_ylim()[0] == pytest.approx(0.5 / 300)


@pytest.mark.slow
def test_equal_fits_give_equal_files(tmp_path: Path, trace: Trace) -> None:
    fits = fit_trace(trace, ["weibull"])
    one = draw_fits(trace, fits, tmp_path / "a")
    other = draw_fits(trace, fits, tmp_path / "b")
    assert [path.name for path in one] == ["fits.png", "fits.svg"]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(one, other, strict=True))


def test_no_fits_cannot_be_drawn(tmp_path: Path, trace: Trace) -> None:
    with pytest.raises(InvalidArgument, match="fits must have at least one"):
        draw_fits(trace, [], tmp_path)

"""Pictures of codes: they draw what was analysed, in percent, and are the same each time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead import codes
from erasurehead.decoding import analyse
from erasurehead.errors import InvalidArgument
from erasurehead.reports._canvas import drawing, new_figure
from erasurehead.reports._code_curves import draw_adversary, draw_codes, draw_one_step, draw_residuals

pytestmark = pytest.mark.slow

pytest.importorskip("matplotlib")

NAMES = ("residual", "one_step", "adversary")


@pytest.fixture(scope="module")
def analyses() -> Mapping[str, Any]:
    """A design, repetition, a code with a bound that is not met, and one whose loads differ."""
    built = {
        "projective_plane(3)": codes.build("projective_plane", order=3),
        "fractional_repetition(12, load=4)": codes.fractional_repetition(12, load=4),
        "regular(20, load=3)": codes.build("regular", n_workers=20, load=3),
        "bernoulli(12, load=3)": codes.build("bernoulli", n_workers=12, load=3),
    }
    return {name: analyse(code, range(7), samples=30, effort=30, enumerate_up_to=200) for name, code in built.items()}


def test_each_picture_comes_in_each_format_the_same_each_time(analyses: Mapping[str, Any], tmp_path: Path) -> None:
    first = draw_codes(analyses, tmp_path / "new" / "first")
    again = draw_codes(analyses, tmp_path / "again")
    assert [path.name for path in first] == [f"{name}.{form}" for name in NAMES for form in ("png", "svg")]
    for one, other in zip(first, again, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


def test_all_codes_are_drawn_with_the_band_of_their_error(analyses: Mapping[str, Any]) -> None:
    with drawing():
        left, right = new_figure(10, 5).subplots(1, 2)
        draw_residuals(left, analyses, worst=False)
        draw_residuals(right, analyses, worst=True)
        assert [line.get_label() for line in left.get_lines()] == list(analyses)
        for found, mean, worst in zip(analyses.values(), left.get_lines(), right.get_lines(), strict=True):
            share = 100 * found.curves.stragglers / found.code.n_workers
            assert mean.get_xdata().tolist() == share.tolist()
            assert mean.get_ydata() == pytest.approx(100 * found.curves.mean / found.code.n_tasks)
            assert worst.get_ydata() == pytest.approx(100 * found.curves.worst / found.code.n_tasks)
        sampled = [found for found in analyses.values() if found.samples]
        assert len(left.collections) == len(sampled) == 2
        assert not right.collections
        for found, band in zip(sampled, left.collections, strict=True):
            curves, path = found.curves, band.get_paths()[0]
            highest = 100 * np.max(curves.mean + 2 * curves.mean_error) / found.code.n_tasks
            assert path.vertices[:, 1].max() == pytest.approx(highest)
        colours = {line.get_color() for line in left.get_lines()}
        assert len(colours) == len(analyses)


def test_one_step_is_drawn_against_optimal(analyses: Mapping[str, Any]) -> None:
    found = analyses["fractional_repetition(12, load=4)"]
    with drawing():
        axes = new_figure(5, 4).subplots()
        draw_one_step(axes, found)
        one_step, optimal = axes.get_lines()
    r, k, load = 12 - found.curves.stragglers, 12, 4  # SCHEMES, Lemma A
    assert one_step.get_ydata() == pytest.approx(100 * (k - load) * (k - r) / (r * load * (k - 1)))
    assert optimal.get_ydata() == pytest.approx(100 * found.curves.mean / 12)
    assert one_step.get_label().startswith("one-step")


def test_between_the_worst_found_and_the_bound_is_the_shade(analyses: Mapping[str, Any]) -> None:
    found = analyses["regular(20, load=3)"]
    assert list(found.curves.worst_proven) == [True, True, True, False, False, False, False]
    with drawing():
        axes = new_figure(5, 4).subplots()
        draw_adversary(axes, found)
        labels = axes.get_legend_handles_labels()[1]
        assert set(labels) == {
            "spectral bound",
            "the worst found",
            "random (mean)",
            "the true worst case lies here",
            "mean ± 2 standard errors",
        }
        shade = axes.collections[0].get_paths()[0].vertices
        assert shade[:, 0].min() == 15.0  # 3 of 20 workers
        assert shade[:, 1].max() == pytest.approx(100 * found.curves.bound[-1] / 20)


def test_what_is_not_there_is_said(analyses: Mapping[str, Any]) -> None:
    with drawing():
        axes = new_figure(5, 4).subplots()
        draw_adversary(axes, analyses["bernoulli(12, load=3)"])
        assert [text.get_text() for text in axes.texts] == ["no spectral bound for this code"]
        axes = new_figure(5, 4).subplots()
        draw_adversary(axes, analyses["projective_plane(3)"])
        assert [text.get_text() for text in axes.texts] == ["all sets of stragglers are alike: one line"]
        axes = new_figure(5, 4).subplots()
        draw_one_step(
            axes,
            analyse(codes.build("communication_efficient_groups", n_workers=12, load=4, n_pieces=2), [0, 2], samples=5),
        )
        assert [text.get_text() for text in axes.texts] == ["no one-step decoding"]


def test_any_number_of_codes_and_points_can_be_drawn(analyses: Mapping[str, Any], tmp_path: Path) -> None:
    one = analyse(codes.uncoded(4), [0], samples=2)
    assert len(draw_codes({"uncoded(4)": one}, tmp_path / "one", formats=["svg"])) == 3
    many = {
        f"{name} and a name that is longer than fits anywhere, number {number}": found
        for number in range(2)
        for name, found in analyses.items()
    }
    assert len(draw_codes(many, tmp_path / "many", formats=["svg"])) == 3


def test_titles_say_what_is_compared_with_units(analyses: Mapping[str, Any], tmp_path: Path) -> None:
    for path in draw_codes(analyses, tmp_path, formats=["svg"]):
        text = path.read_text()
        assert "stragglers (% of workers)" in text
        assert "gradient lost: residual / tasks (%)" in text
        for name in analyses:
            assert name in text


def test_errors_say_what_would_work(analyses: Mapping[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="formats must be among png, svg, pdf, but it is 'gif'"):
        draw_codes(analyses, tmp_path, formats=["gif"])
    with pytest.raises(InvalidArgument, match="analyses must have at least one code"):
        draw_codes({}, tmp_path)


def test_matplotlib_is_loaded_on_use() -> None:
    program = "import sys; import erasurehead.reports._code_curves; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)

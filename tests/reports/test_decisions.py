"""What an optimizer decided, as a picture: every decision, and the points that were only tried."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from erasurehead import delays, engines, optimizers, problems, schemes, train
from erasurehead.reports._canvas import drawing, new_figure
from erasurehead.reports._decisions import draw_decisions, has_decisions
from erasurehead.training import Run


@pytest.fixture(scope="module")
def deciding() -> Run:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6))
    problem = problems.LogisticRegression(X, np.sign(X[:, 0] + 0.5 * rng.standard_normal(60)), l2=1e-6)
    engine = engines.VirtualEngine(delays.Exponential(mean=0.5, seed=0))
    far = optimizers.QuasiNewton(10.0 * rng.standard_normal(6))  # from where some steps are too long
    return train(problem, schemes.adaptive(6), far, engine, steps=60)


def test_every_decision_is_a_mark_and_rejected_points_are_told_apart(deciding: Run) -> None:
    pytest.importorskip("matplotlib")
    assert has_decisions(deciding)
    acts = Counter(row.decision["act"] for row in deciding.steps if row.decision)
    assert {"accept", "shorten"} <= set(acts)
    with drawing():
        figure = new_figure(10.0, 6.0)
        draw_decisions(figure, deciding, "adaptive")
        panels: list[Any] = list(figure.axes)
        labels = [tick.get_text() for tick in panels[2].get_yticklabels()]
        marks = {label: len(line.get_xdata()) for label, line in zip(labels, panels[2].lines, strict=True)}
        assert marks == acts
        tried = [line for line in panels[0].lines if line.get_label() == "tried, and rejected"]
        known = sum(row.rejected and row.loss is not None for row in deciding.steps)
        assert known > 0
        assert [len(line.get_xdata()) for line in tried] == [known]
        assert tried[0].get_linestyle() == "None"


def test_runs_without_decisions_have_no_such_picture(runs: list[Run]) -> None:
    assert not any(map(has_decisions, runs))

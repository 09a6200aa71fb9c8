"""The pictures of a run are drawn, for small graphs and large."""

from __future__ import annotations

from pathlib import Path

import pytest

from erasurehead.consensus import train
from erasurehead.consensus._pictures import draw_links, draw_progress
from erasurehead.consensus._result import ConsensusRun
from erasurehead.problems import LogisticRegression

pytest.importorskip("matplotlib")


def draw(done: ConsensusRun, folder: Path, format: str) -> list[Path]:
    links = draw_links(done.graph, done.rows, "a title", folder, (format,))
    seconds = {done.policy: done.seconds_per_step}
    return [*links, *draw_progress({done.policy: done.means}, seconds, "a title", folder, formats=(format,))]


@pytest.mark.slow
@pytest.mark.parametrize(("graph", "peers"), [("ring()", 3), ("random_regular(degree=4)", 50)])
def test_both_pictures_are_drawn(problem: LogisticRegression, tmp_path: Path, graph: str, peers: int) -> None:
    done = train(problem, graph, "local()", peers=peers, steps=6, rate=0.3, batch=4, delays="exponential(mean=1.0)")
    made = draw(done, tmp_path, "png")
    assert sorted(path.name for path in made) == ["consensus.png", "links.png"]
    assert all(path.stat().st_size > 20_000 for path in made)


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_peers_that_always_agree_have_a_picture_without_a_warning(problem: LogisticRegression, tmp_path: Path) -> None:
    done = train(problem, "complete()", "full()", peers=2, steps=2, rate=0.3, delays="exponential(mean=1.0)")
    assert not any(row.distance for row in done.means)
    assert draw(done, tmp_path, "svg")


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("delays", ["none()", "scaled(exponential(mean=1.0), [0, 0, 0, 1])"])
def test_peers_that_take_no_time_have_a_picture(problem: LogisticRegression, tmp_path: Path, delays: str) -> None:
    """The last step ended at 0 s, by which places in the picture were divided."""
    done = train(problem, "ring()", "local()", peers=4, steps=2, rate=0.3, delays=delays)
    assert len(draw(done, tmp_path, "svg")) == 2

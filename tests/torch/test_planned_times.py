"""Times that are planned for networks, held against teams on the virtual clock."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import erasurehead.torch as eht
from erasurehead.delays import Exponential
from erasurehead.planning import plan_network

RANKS, STEPS = 8, 150


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begin", "options"), [("exact", {"every": "gradient", "scheme": "exact(load=2)"}), ("busy", {})]
)
def test_times_are_those_of_teams_on_the_virtual_clock(begin: str, options: dict[str, Any]) -> None:
    law = Exponential(mean=0.2, seed=5)
    data = torch.utils.data.TensorDataset(torch.zeros(RANKS * STEPS, 1))

    def main() -> None:
        team = eht.join()
        model = torch.nn.Linear(1, 1)
        optimizer = team.optimizer(torch.optim.SGD(model.parameters(), 0.1), model, **options)
        for (inputs,) in team.batches(data, batch_size=RANKS):
            optimizer.zero_grad()
            if options:
                team.backward(model(inputs).squeeze(1))
            else:
                model(inputs).sum().backward()
            optimizer.step()

    run = eht.simulate(main, RANKS, delays=law, seconds_per_sample=0.2)
    (found,) = (way for way in plan_network(law, RANKS, 0.2, RANKS).ways if way.name.startswith(begin))
    assert found.samples == pytest.approx(run.versions[-1].seconds / STEPS, rel=0.07)

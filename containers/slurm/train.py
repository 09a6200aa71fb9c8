# train.py
import os

import torch
from torch import nn

import erasurehead.torch as eht

torch.manual_seed(0)
x = torch.randn(4_000, 20)
y = (x @ torch.randn(20, 3)).argmax(1)
dataset = torch.utils.data.TensorDataset(x, y)

team = eht.join(secret_file=os.environ.get("TEAM_SECRET"))
model = nn.Linear(20, 3)
optimizer = team.optimizer(torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9), model)
for epoch in range(3):
    for inputs, labels in team.batches(dataset, batch_size=64, epoch=epoch):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
if team.first:
    right = (team.model()(x).argmax(1) == y).float().mean().item()
    print(f"{team.size} ranks, about {right:.0%} right")

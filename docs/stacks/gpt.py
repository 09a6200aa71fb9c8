"""Learns to write like input.txt, letter by letter, as nanoGPT does: torchrun --nproc-per-node 4 gpt.py"""

import argparse
import math
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

BLOCK, WIDTH, HEADS, LAYERS = 32, 32, 4, 2


class GPT(nn.Module):
    def __init__(self, letters):
        super().__init__()
        self.letters = nn.Embedding(letters, WIDTH)
        self.places = nn.Embedding(BLOCK, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, letters, bias=False)
        self.head.weight = self.letters.weight

    def forward(self, text):
        mask = nn.Transformer.generate_square_subsequent_mask(text.shape[1])
        x = self.letters(text) + self.places(torch.arange(text.shape[1]))
        return self.head(self.layers(x, mask, is_causal=True))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=8, help="of one forward pass")
    parser.add_argument("--accumulate", type=int, default=6, help="passes a step, of all processes together")
    parser.add_argument("--rate", type=float, default=5e-3)
    args = parser.parse_args()

    rank, ranks = 0, 1
    if ddp := "RANK" in os.environ:
        dist.init_process_group("gloo")
        rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1337 + rank)

    text = Path("input.txt").read_text(encoding="utf-8")
    letters = sorted(set(text))
    data = torch.tensor([letters.index(letter) for letter in text])
    train, test = data[: len(data) * 9 // 10], data[len(data) * 9 // 10 :]

    def batch(data, size):
        begins = torch.randint(len(data) - BLOCK - 1, (size,))
        pieces = torch.stack([data[begin : begin + BLOCK + 1] for begin in begins])
        return pieces[:, :-1], pieces[:, 1:]

    def loss_of(model, x, y):
        with torch.autocast("cpu", torch.bfloat16):
            return cross_entropy(model(x).flatten(0, 1), y.flatten())

    raw_model = model = GPT(len(letters))
    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, args.rate, betas=(0.9, 0.99))
    scaler = torch.amp.GradScaler("cpu")
    if ddp:
        model = DistributedDataParallel(model)
    passes = args.accumulate // ranks

    for step in range(args.steps):
        rate = args.rate * min((step + 1) / 20, 0.55 + 0.45 * math.cos(math.pi * step / args.steps))
        for group in optimizer.param_groups:
            group["lr"] = rate
        for micro in range(passes):
            if ddp:
                model.require_backward_grad_sync = micro == passes - 1
            x, y = batch(train, args.batch_size)
            scaler.scale(loss_of(model, x, y) / passes).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)

    if rank == 0:
        torch.manual_seed(0)
        with torch.no_grad():
            print(f"test loss: {loss_of(raw_model.eval(), *batch(test, 400)).item():.3f}")
        torch.save(raw_model.state_dict(), "gpt.pt")


if __name__ == "__main__":
    main()

"""Tells written digits apart, with Accelerate: accelerate launch --num_processes 4 accelerate_digits.py"""

import argparse

import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import LinearLR
from torch.utils.data import DataLoader, TensorDataset, random_split


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        return sum((model(images).argmax(1) == labels).sum().item() for images, labels in loader) / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--mixed-precision", choices=["no", "fp16", "bf16"], default="no")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=8, help="of each process")
    parser.add_argument("--rate", type=float, default=0.002)
    args = parser.parse_args()

    torch.manual_seed(1)
    accelerator = Accelerator(args.cpu, mixed_precision=args.mixed_precision, gradient_accumulation_steps=2)
    images, labels = load_digits(return_X_y=True)
    digits = TensorDataset(torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels))
    train, test = random_split(digits, [1500, 297])
    loader = DataLoader(train, args.batch_size, shuffle=True)
    test_loader = DataLoader(test, 500)

    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), args.rate)
    scheduler = LinearLR(optimizer, 0.1, total_iters=20)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    for _ in range(args.epochs):
        model.train()
        for batch in loader:
            images, labels = (part.to(accelerator.device) for part in batch)
            with accelerator.accumulate(model):
                loss = cross_entropy(model(images), labels)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()

    if accelerator.is_main_process:
        model = accelerator.unwrap_model(model)
        print(f"test accuracy: {accuracy(model, test_loader):.3f}")
        torch.save(model.state_dict(), "digits.pt")


if __name__ == "__main__":
    main()

"""Tells written digits apart; for several processes: torchrun --nproc-per-node 4 stock_mnist.py --epochs 3"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, transforms


def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(1152, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def accuracy(model, digits):
    model.eval()
    with torch.no_grad():
        right = sum((model(images).argmax(1) == labels).sum().item() for images, labels in DataLoader(digits, 500))
    return right / len(digits)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64, help="of each process")
    parser.add_argument("--rate", type=float, default=0.05)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(1)
    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    train = datasets.MNIST("data", train=True, download=True, transform=transform)
    test = datasets.MNIST("data", train=False, transform=transform)
    sampler = DistributedSampler(train)
    loader = DataLoader(train, args.batch_size, sampler=sampler)

    model = DistributedDataParallel(network())
    optimizer = torch.optim.SGD(model.parameters(), args.rate, momentum=0.9)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        model.train()
        for images, labels in loader:
            optimizer.zero_grad()
            cross_entropy(model(images), labels).backward()
            optimizer.step()
        scheduler.step()
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: {accuracy(model.module, test):.1%} of the test images")

    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "mnist.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""Tells written digits apart, with Ray Train: python ray_digits.py --workers 4"""

import argparse

import ray.train.torch
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset, random_split


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        return sum((model(images).argmax(1) == labels).sum().item() for images, labels in loader) / len(loader.dataset)


def train_loop(config):
    torch.manual_seed(1)
    images, labels = load_digits(return_X_y=True)
    digits = TensorDataset(torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels))
    train, test = random_split(digits, [1500, 297])
    loader = ray.train.torch.prepare_data_loader(DataLoader(train, config["batch_size"], shuffle=True))

    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))
    model = ray.train.torch.prepare_model(model)
    optimizer = torch.optim.SGD(model.parameters(), config["rate"], momentum=0.9)
    for epoch in range(config["epochs"]):
        if ray.train.get_context().get_world_size() > 1:
            loader.sampler.set_epoch(epoch)
        model.train()
        for images, labels in loader:
            optimizer.zero_grad()
            cross_entropy(model(images), labels).backward()
            optimizer.step()

    if ray.train.get_context().get_world_rank() == 0:
        print(f"test accuracy: {accuracy(model, DataLoader(test, 500)):.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=16, help="of each worker")
    parser.add_argument("--rate", type=float, default=0.05)
    args = parser.parse_args()

    scaling = ray.train.ScalingConfig(num_workers=args.workers)
    ray.train.torch.TorchTrainer(train_loop, train_loop_config=vars(args), scaling_config=scaling).fit()


if __name__ == "__main__":
    main()

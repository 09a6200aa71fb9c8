"""Tells written digits apart, with Lightning: python lightning_digits.py --devices 4"""

import argparse

import lightning as L
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset, random_split


class Digits(L.LightningModule):
    def __init__(self, rate, epochs, batch_size):
        super().__init__()
        self.save_hyperparameters()
        self.network = nn.Sequential(
            nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10)
        )
        images, labels = load_digits(return_X_y=True)
        digits = TensorDataset(torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels))
        self.train_data, self.test_data = random_split(digits, [1500, 297])

    def train_dataloader(self):
        return DataLoader(self.train_data, self.hparams.batch_size, shuffle=True)

    def test_dataloader(self):
        return DataLoader(self.test_data, 297)

    def training_step(self, batch, number):
        images, labels = batch
        loss = cross_entropy(self.network(images), labels)
        self.log("loss", loss)
        return loss

    def test_step(self, batch, number):
        images, labels = batch
        scores = self.network(images)
        self.log("test_loss", cross_entropy(scores, labels))
        self.log("test_accuracy", (scores.argmax(1) == labels).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), self.hparams.rate, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.hparams.epochs)
        return [optimizer], [scheduler]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=16, help="of each process")
    parser.add_argument("--rate", type=float, default=0.02)
    parser.add_argument("--devices", type=int, default=1)
    args = parser.parse_args()

    L.seed_everything(1)
    model = Digits(args.rate, args.epochs, args.batch_size)
    trainer = L.Trainer(
        max_epochs=args.epochs,
        gradient_clip_val=1.0,
        accelerator="cpu",
        devices=args.devices,
        strategy="ddp",
    )
    trainer.fit(model)
    trainer.test(model)
    if trainer.is_global_zero:
        torch.save(model.state_dict(), "digits.pt")


if __name__ == "__main__":
    main()

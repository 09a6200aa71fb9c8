"""Stands in for torchvision in scripts that read MNIST."""

DIGITS = '''
"""Stands in for torchvision: digits that are easily told apart."""

import sys
import types

import torch


class MNIST(torch.utils.data.TensorDataset):
    def __init__(self, root, train, download=False, transform=None):
        labels = torch.arange(640 if train else 100) % 10
        images = 0.5 * torch.randn(len(labels), 1, 28, 28, generator=torch.Generator().manual_seed(int(train)))
        for image, label in zip(images, labels):
            image[0, 2 * int(label) : 2 * int(label) + 6] += 2.0
        super().__init__(images, labels)


datasets = types.SimpleNamespace(MNIST=MNIST)
transforms = types.SimpleNamespace(Compose=list, ToTensor=str, Normalize=lambda mean, deviation: None)
'''

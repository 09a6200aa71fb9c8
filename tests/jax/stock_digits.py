"""Tells written digits apart: python stock_digits.py --epochs 10"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits


def network(key):
    first, last = jax.random.split(key)
    return [
        {"w": jax.random.normal(first, (64, 32)) / 8, "b": jnp.zeros(32)},
        {"w": jax.random.normal(last, (32, 10)) / 6, "b": jnp.zeros(10)},
    ]


def predict(params, images):
    *hidden, last = params
    for layer in hidden:
        images = jax.nn.relu(images @ layer["w"] + layer["b"])
    return images @ last["w"] + last["b"]


def loss(params, batch):
    images, labels = batch
    return optax.softmax_cross_entropy_with_integer_labels(predict(params, images), labels).mean()


def batches(data, batch_size, epoch):
    order = np.random.default_rng(epoch).permutation(len(data[0]))
    for begin in range(0, len(order), batch_size):
        own = order[begin : begin + batch_size]
        yield tuple(array[own] for array in data)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rate", type=float, default=3e-3)
    args = parser.parse_args()

    digits = load_digits()
    images, labels = (digits.data / 16).astype(np.float32), digits.target
    train, test = (images[:1500], labels[:1500]), (images[1500:], labels[1500:])

    optimizer = optax.adamw(args.rate)
    params = network(jax.random.key(0))
    state = optimizer.init(params)

    @jax.jit
    def step(params, state, batch):
        value, gradients = jax.value_and_grad(loss)(params, batch)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    for epoch in range(args.epochs):
        for batch in batches(train, args.batch_size, epoch):
            params, state, _ = step(params, state, batch)
        right = jnp.mean(predict(params, test[0]).argmax(1) == test[1])
        print(f"epoch {epoch}: {right:.1%} of the test images")


if __name__ == "__main__":
    main()

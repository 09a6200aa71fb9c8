"""ErasureHead: train on many workers without waiting for the slow ones."""

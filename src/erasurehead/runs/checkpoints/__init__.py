"""Checkpoints of a run: made in the background, whole or not at all."""

"""Checkpoints of a run: written atomically, in the background."""

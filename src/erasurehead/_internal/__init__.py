"""What the rooms share and nobody outside should rely on."""

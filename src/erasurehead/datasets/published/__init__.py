"""The data sets of the papers: where they are, how they are prepared, and synthetic stand-ins of the same shape."""

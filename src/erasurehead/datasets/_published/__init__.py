"""The data sets of the papers: where to find them, how they are prepared, and synthetic stand-ins of the same shape."""

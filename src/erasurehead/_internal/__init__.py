"""Helpers that the subpackages share; not part of the public API."""

"""The papers that can be reproduced."""

from __future__ import annotations

from erasurehead.papers._dybw import DYBW
from erasurehead.papers._erasurehead import ERASUREHEAD
from erasurehead.papers._reproduction import Paper

PAPERS: dict[str, Paper] = {paper.name: paper for paper in (ERASUREHEAD, DYBW)}
"""The papers by their names."""

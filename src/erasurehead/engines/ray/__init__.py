"""Workers as actors of a Ray cluster."""

from erasurehead.engines.ray.engine import RayEngine as RayEngine

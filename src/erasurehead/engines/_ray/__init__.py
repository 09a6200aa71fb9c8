"""Workers as actors of a Ray cluster."""

from erasurehead.engines._ray.engine import RayEngine as RayEngine

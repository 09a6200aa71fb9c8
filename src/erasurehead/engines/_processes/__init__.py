"""Workers as processes of this machine."""

from erasurehead.engines._processes.engine import ProcessEngine as ProcessEngine

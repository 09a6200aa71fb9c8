"""Workers as processes of this machine."""

from erasurehead.engines.processes.engine import ProcessEngine as ProcessEngine

"""The options that commands share."""

from erasurehead.cli.options.option import option
from erasurehead.cli.options.output import OutputOptions
from erasurehead.cli.options.run import RunOptions

__all__ = ["OutputOptions", "RunOptions", "option"]

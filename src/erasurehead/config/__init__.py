"""Run files and what they stand for.

A run file is TOML. All keys may be left out; those of the data sets of the paper then take the published values.

::

    scheme = "erasurehead(load=3, wait_for=11)"

    [data]
    source = "amazon"

    [delays]
    model = "exponential(mean=0.5, seed=0)"

    [run]
    engine = "processes"
    workers = 30
    steps = 100
"""

from erasurehead.config.checking import build_config as build_config
from erasurehead.config.checking import merged as merged
from erasurehead.config.checking import overridden as overridden
from erasurehead.config.checking import read_config as read_config
from erasurehead.config.sections import CheckpointsSection as CheckpointsSection
from erasurehead.config.sections import Config as Config
from erasurehead.config.sections import DataSection as DataSection
from erasurehead.config.sections import DelaysSection as DelaysSection
from erasurehead.config.sections import OptimizerSection as OptimizerSection
from erasurehead.config.sections import ProblemSection as ProblemSection
from erasurehead.config.sections import RunSection as RunSection
from erasurehead.config.toml import read_tables as read_tables
from erasurehead.config.toml import to_toml as to_toml

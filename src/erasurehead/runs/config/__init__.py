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

from erasurehead.runs.config.checking import build as build
from erasurehead.runs.config.checking import build_config as build_config
from erasurehead.runs.config.checking import merged as merged
from erasurehead.runs.config.checking import overridden as overridden
from erasurehead.runs.config.checking import read_config as read_config
from erasurehead.runs.config.keys import Key as Key
from erasurehead.runs.config.keys import json_schema as json_schema
from erasurehead.runs.config.keys import keys as keys
from erasurehead.runs.config.sections import CheckpointsSection as CheckpointsSection
from erasurehead.runs.config.sections import Config as Config
from erasurehead.runs.config.sections import DataSection as DataSection
from erasurehead.runs.config.sections import DelaysSection as DelaysSection
from erasurehead.runs.config.sections import FaultsSection as FaultsSection
from erasurehead.runs.config.sections import OptimizerSection as OptimizerSection
from erasurehead.runs.config.sections import ProblemSection as ProblemSection
from erasurehead.runs.config.sections import RunSection as RunSection
from erasurehead.runs.config.toml import read_tables as read_tables
from erasurehead.runs.config.toml import to_toml as to_toml

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

from erasurehead.runs._config.checking import (
    build as build,
    build_config as build_config,
    merged as merged,
    overridden as overridden,
    read_config as read_config,
)
from erasurehead.runs._config.keys import Key as Key, json_schema as json_schema, keys as keys
from erasurehead.runs._config.sections import (
    Config as Config,
    DataSection as DataSection,
    RunSection as RunSection,
)
from erasurehead.runs._config.toml import read_tables as read_tables, to_toml as to_toml

"""How slow workers are: distributions, mixtures, adversaries, tables, traces and recorded runs.

>>> from erasurehead import delays
>>> model = delays.parse("exponential(mean=0.5, seed=0) + late([3])")
>>> model == delays.Exponential(mean=0.5, seed=0) + delays.parse("late([3])")
True
>>> str(model)
'exponential(mean=0.5, seed=0) + late(workers=[3])'
>>> bool((model.row(step=7, n_workers=30)[:10] == model.row(step=7, n_workers=10)).all())
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names
from erasurehead._internal.text_parser import read
from erasurehead.delays.base import Delays, PerWorker, Scaled, Sum
from erasurehead.delays.distributions import Exponential, LogNormal, Pareto, ShiftedExponential, Weibull
from erasurehead.delays.fixed import Fixed, Late, NoDelay, Recorded
from erasurehead.delays.mixed import Bimodal, MarkovModulated
from erasurehead.errors import invalid

if TYPE_CHECKING:
    from erasurehead.delays.bootstrap import Bootstrap
    from erasurehead.delays.clock import AlongClock, InOrder, PerOrder, Stalls
    from erasurehead.delays.families import FAMILIES
    from erasurehead.delays.fitting import Fit, fit, fit_trace, fit_workers
    from erasurehead.delays.persistent import SlowWorker, slow_workers
    from erasurehead.delays.summaries import Summary, summarize, summarize_model
    from erasurehead.delays.trace import Trace
    from erasurehead.delays.trace_files import read_trace, write_trace

# Workers draw delays; they neither read traces nor fit distributions.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "FAMILIES": "families",
        "AlongClock": "clock",
        "Bootstrap": "bootstrap",
        "Fit": "fitting",
        "InOrder": "clock",
        "PerOrder": "clock",
        "SlowWorker": "persistent",
        "Stalls": "clock",
        "Summary": "summaries",
        "Trace": "trace",
        "fit": "fitting",
        "fit_trace": "fitting",
        "fit_workers": "fitting",
        "read_trace": "trace_files",
        "slow_workers": "persistent",
        "summarize": "summaries",
        "summarize_model": "summaries",
        "write_trace": "trace_files",
    },
)

__all__ = [
    "FAMILIES",
    "MODELS",
    "AlongClock",
    "Bimodal",
    "Bootstrap",
    "Delays",
    "Exponential",
    "Fit",
    "Fixed",
    "InOrder",
    "Late",
    "LogNormal",
    "MarkovModulated",
    "NoDelay",
    "Pareto",
    "PerOrder",
    "PerWorker",
    "Recorded",
    "Scaled",
    "ShiftedExponential",
    "SlowWorker",
    "Stalls",
    "Sum",
    "Summary",
    "Trace",
    "Weibull",
    "as_delays",
    "fit",
    "fit_trace",
    "fit_workers",
    "parse",
    "read_trace",
    "slow_workers",
    "summarize",
    "summarize_model",
    "write_trace",
]


def _bootstrap(
    path: str,
    keep: str = "rounds",
    block: int = 1,
    seed: int = 0,
    scale_with_load: bool = False,
    absent: str = "censored",
) -> Delays:
    from erasurehead.delays.bootstrap import Bootstrap

    return Bootstrap.from_file(path, keep, block, seed, scale_with_load, absent)


def _along(model: Delays, every: float) -> Delays:
    from erasurehead.delays.clock import AlongClock

    return AlongClock(model, every)


def _trace(path: str, start: int = 0, scale_with_load: bool = False) -> Delays:
    from erasurehead.delays.clock import InOrder

    return InOrder.from_file(path, start, scale_with_load)


def _stalls(every: float, lasting: float, seed: int = 0, resolution: float = 0.001) -> Delays:
    from erasurehead.delays.clock import Stalls

    return Stalls(every, lasting, seed, resolution)


def _per_order(model: Delays) -> Delays:
    from erasurehead.delays.clock import PerOrder

    return PerOrder(model)


MODELS: Mapping[str, Callable[..., Delays]] = {
    "none": NoDelay,
    "exponential": Exponential,
    "shifted_exponential": ShiftedExponential,
    "weibull": Weibull,
    "pareto": Pareto,
    "lognormal": LogNormal,
    "bimodal": Bimodal,
    "markov": MarkovModulated,
    "scaled": Scaled,
    "per_worker": PerWorker,
    "late": Late,
    "bootstrap": _bootstrap,
    "fixed": Fixed,
    "recorded": Recorded.from_file,
    "along": _along,
    "trace": _trace,
    "stalls": _stalls,
    "per_order": _per_order,
}
"""The constructor for each name in the text of a delay model."""


def as_delays(model: Delays | str) -> Delays:
    """Return a delay model as it is, or the one that a text stands for; see `parse`.

    Arguments:
        model: a delay model, or its text.
    """
    if isinstance(model, str):
        return parse(model)
    if not isinstance(model, Delays):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise invalid("delays", "must be a delay model, or the text of one", model, "such as 'exponential(mean=0.5)'")
    return model


def parse(text: str) -> Delays:
    """Return the delay model that a text stands for, as it is written in a run file; the inverse of `str(model)`.

    Arguments:
        text: such as `"exponential(mean=0.5, seed=0)"`, or a sum of such terms with `+`; models that are made of others
            take them as arguments, as in `"bimodal(0.1, none(), exponential(5.0))"`; `recorded(path)` reads a run's
            `arrivals.jsonl`, `bootstrap(path)` a trace.

    Raises:
        InvalidArgument: if the text has another form, or an argument is out of its range.
    """
    return read(text, "delays", Delays, MODELS, {"+": Delays.__add__})

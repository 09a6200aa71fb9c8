"""What a text of `erasurehead.delays` stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from erasurehead._internal.text_parser import read
from erasurehead.delays._base import Delays, PerWorker, Scaled
from erasurehead.delays._clock import AlongClock, InOrder, PerOrder, Stalls
from erasurehead.delays._distributions import Exponential, LogNormal, Pareto, ShiftedExponential, Weibull
from erasurehead.delays._fixed import Fixed, Late, NoDelay, Recorded
from erasurehead.delays._sometimes_slow import Bimodal, MarkovModulated
from erasurehead.errors import check_type


def _bootstrap(
    path: str,
    keep: str = "rounds",
    block: int = 1,
    seed: int = 0,
    scale_with_load: bool = False,
    absent: str = "censored",
) -> Delays:
    """Return `Bootstrap.from_file`, loaded when it is asked for, with how far a trace tells of later steps."""
    from erasurehead.delays._bootstrap import Bootstrap

    return Bootstrap.from_file(path, keep, block, seed, scale_with_load, absent)


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
    "along": AlongClock,
    "trace": InOrder.from_file,
    "stalls": Stalls,
    "per_order": PerOrder,
}
"""The constructor for each name in the text of a delay model."""


def as_delays(model: Delays | str) -> Delays:
    """Return a delay model as it is, or the one that a text stands for; see `parse`.

    Arguments:
        model: a delay model, or its text.
    """
    if isinstance(model, str):
        return parse(model)
    check_type("delays", model, Delays, "must be a delay model, or the text of one", "such as 'exponential(mean=0.5)'")
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

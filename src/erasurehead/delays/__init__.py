"""How slow workers are: distributions, tables, recorded runs.

>>> from erasurehead import delays
>>> model = delays.parse("exponential(mean=0.5, seed=0)")
>>> model == delays.Exponential(mean=0.5, seed=0)
True
>>> str(model)
'exponential(mean=0.5, seed=0)'
>>> bool((model.row(step=7, n_workers=30)[:10] == model.row(step=7, n_workers=10)).all())
True
"""

from erasurehead.delays.base import Delays
from erasurehead.delays.distributions import Exponential, ShiftedExponential
from erasurehead.delays.fixed import Fixed, NoDelay, Recorded
from erasurehead.specs import read

__all__ = ["Delays", "Exponential", "Fixed", "NoDelay", "Recorded", "ShiftedExponential", "parse"]


def parse(text: str) -> Delays:
    """Return the delay model that a text stands for, as a configuration file writes it; the inverse of `str(model)`.

    Arguments:
        text: such as `"exponential(mean=0.5, seed=0)"`; `recorded(path)` reads a run's `arrivals.jsonl`.

    Raises:
        InvalidArgument: the text is of another form, or an argument is out of its range.
    """
    makers = {
        "none": NoDelay,
        "exponential": Exponential,
        "shifted_exponential": ShiftedExponential,
        "fixed": Fixed,
        "recorded": Recorded.from_file,
    }
    return read(text, "delays", Delays, makers, {})

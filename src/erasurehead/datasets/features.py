"""What the columns of a design matrix are made of: numbers, distinct values, distinct combinations of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from erasurehead.arrays import IntArray
from erasurehead.datasets.facts import Facts
from erasurehead.datasets.vocabulary import differences, from_differences
from erasurehead.errors import DataError


@dataclass(frozen=True)
class Numeric:
    """One column of numbers: `(value - mean) / scale`; a missing value counts as `fill`."""

    column: str
    mean: float
    scale: float
    fill: float


@dataclass(frozen=True, eq=False)
class OneHot:
    """Columns of zeros and ones, one for each distinct value, or combination of values, that was seen.

    Arguments:
        columns: the columns of the table: one, or several that are combined.
        keys: the combinations seen, ascending, as `joint_keys` numbers them; None for one column, all of whose
            vocabulary was seen.
    """

    columns: tuple[str, ...]
    keys: IntArray | None = None

    @property
    def label(self) -> str:
        """What reports call it."""
        return " x ".join(self.columns)


Feature: TypeAlias = Numeric | OneHot


def feature_to_json(feature: Feature) -> dict[str, Any]:
    """Return what `feature_from_json` reads, as plain JSON data."""
    if isinstance(feature, Numeric):
        return {"number": feature.column, "mean": feature.mean, "scale": feature.scale, "fill": feature.fill}
    keys = None if feature.keys is None else differences(feature.keys)
    return {"one_hot": list(feature.columns), "keys": keys}


def feature_from_json(data: Mapping[str, Any], where: str = "feature") -> Feature:
    """Return the feature that `feature_to_json` described.

    Arguments:
        data: the description.
        where: it stands, for messages.

    Raises:
        DataError: if it is of another form.
    """
    facts = Facts(data, where)
    if "number" in facts.data:
        scale = facts.number("scale")
        if scale <= 0.0:
            raise DataError(f"The encoding is damaged: {where}.scale must be above 0, but it is {scale}.")
        return Numeric(facts.text("number"), facts.number("mean"), scale, facts.number("fill"))
    keys = from_differences(facts.numbers("keys", whole=True)) if facts.has("keys") else None
    return OneHot(facts.texts("one_hot"), keys)

"""Forest Covertype (UCI 31): which trees grow where; the two most common classes of seven."""

from __future__ import annotations

import numpy as np

from erasurehead.datasets.base import Published
from erasurehead.datasets.preprocessing.target import Target
from erasurehead.datasets.preprocessing.vocabulary import NumberVocabulary
from erasurehead.datasets.published.recipe import Recipe

QUANTITIES = (
    "Elevation",
    "Aspect",
    "Slope",
    "Horizontal_Distance_To_Hydrology",
    "Vertical_Distance_To_Hydrology",
    "Horizontal_Distance_To_Roadways",
    "Hillshade_9am",
    "Hillshade_Noon",
    "Hillshade_3pm",
    "Horizontal_Distance_To_Fire_Points",
)
AREAS = tuple(f"Wilderness_Area_{number}" for number in range(4))
SOILS = tuple(f"Soil_Type_{number}" for number in range(40))
COLUMNS = (*QUANTITIES, *AREAS, *SOILS)
"""The 54 columns in the order of the file, named as scikit-learn names them."""

COVERTYPE = Recipe(
    name="covertype",
    files=("covtype.data", "covtype.csv"),
    columns=(*COLUMNS, "Cover_Type"),
    header=False,
    one_hot=tuple((name,) for name in COLUMNS),
    target=Target("Cover_Type", "logistic", NumberVocabulary(np.array([1.0, 2.0])), others="drop"),
    n_rows=581_012,
    openml=None,
    published=Published("logistic", rate=0.1, rate_factor=1.0, metric="auc"),
    parts={"covtype.20k.data": "only the first 20,000 rows of covtype.data, which are not a random sample"},
)
"""54 columns, each distinct value a column, and a constant; classes 1 and 2 are -1 and 1: 495,141 rows of 15,509
columns before the split, 396,112 for training (ErasureHead paper, section 5.2, and the authors' preprocessing; Table 1
gives the rows before the split for this set, and those after it for the other two)."""

"""The recipes of the paper's data sets: which columns of the public files become columns of the design matrix."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from erasurehead.datasets._base import Published
from erasurehead.datasets._preprocessing.target import Target
from erasurehead.datasets._preprocessing.vocabulary import NumberVocabulary
from erasurehead.datasets._published.recipe import Recipe

# Amazon Employee Access (Kaggle 2013; OpenML 4135): who is granted access to which resource

AMAZON_COLUMNS = (
    "RESOURCE",
    "MGR_ID",
    "ROLE_ROLLUP_1",
    "ROLE_ROLLUP_2",
    "ROLE_DEPTNAME",
    "ROLE_TITLE",
    "ROLE_FAMILY_DESC",
    "ROLE_FAMILY",
    "ROLE_CODE",
)

_LEFT_OUT = {("ROLE_ROLLUP_1", "ROLE_ROLLUP_2"), ("ROLE_TITLE", "ROLE_FAMILY")}

AMAZON_PAIRS = tuple(pair for pair in combinations(AMAZON_COLUMNS, 2) if pair not in _LEFT_OUT)
"""The 34 pairs that the original experiments combine: all but two that add next to nothing to their parts."""

AMAZON = Recipe(
    name="amazon",
    files=("train.csv", "amazon.csv"),
    columns=("ACTION", *AMAZON_COLUMNS),
    header=True,
    one_hot=(*((name,) for name in AMAZON_COLUMNS), *AMAZON_PAIRS),
    target=Target("ACTION", "logistic", NumberVocabulary(np.array([0.0, 1.0])), aliases=("target",)),
    n_rows=32_769,
    openml=4135,
    published=Published("logistic", rate=10.0, rate_factor=1.0, metric="auc"),
)
"""9 columns, their 34 pairs and a constant, one-hot: 26,215 x 241,915 for training, 6,554 rows for testing, 44 entries
a row; the label is 2 * ACTION - 1 (ErasureHead paper, section 5.2, and the authors' preprocessing)."""

# House Sales in King County (Kaggle; OpenML 42092): the prices of 21,613 houses

HOUSE_COLUMNS = (
    "bedrooms",
    "bathrooms",
    "sqft_living",
    "sqft_lot",
    "floors",
    "waterfront",
    "view",
    "condition",
    "grade",
    "sqft_above",
    "sqft_basement",
    "yr_built",
    "yr_renovated",
    "zipcode",
    "lat",
    "long",
    "sqft_living15",
    "sqft_lot15",
)

KC_HOUSING = Recipe(
    name="kc_housing",
    files=("kc_house_data.csv", "kc_housing.csv"),
    columns=("id", "date", "price", *HOUSE_COLUMNS),
    header=True,
    one_hot=tuple((name,) for name in HOUSE_COLUMNS),
    target=Target("price", "least_squares", unit=1e6),
    n_rows=21_613,
    openml=42092,
    published=Published("least_squares", rate=0.1, rate_factor=0.99, metric="mse"),
)
"""18 columns, each distinct value a column, and a constant: 17,290 x 27,654 for training; price / 10^6 is the target
(ErasureHead paper, section 5.2, and the authors' preprocessing)."""

# Forest Covertype (UCI 31): which trees grow where; the two most common classes of seven

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
TERRAIN_COLUMNS = (*QUANTITIES, *AREAS, *SOILS)
"""The 54 columns in the order of the file, named as scikit-learn names them."""

COVERTYPE = Recipe(
    name="covertype",
    files=("covtype.data", "covtype.csv"),
    columns=(*TERRAIN_COLUMNS, "Cover_Type"),
    header=False,
    one_hot=tuple((name,) for name in TERRAIN_COLUMNS),
    target=Target("Cover_Type", "logistic", NumberVocabulary(np.array([1.0, 2.0])), others="drop"),
    n_rows=581_012,
    openml=None,
    published=Published("logistic", rate=0.1, rate_factor=1.0, metric="auc"),
    parts={"covtype.20k.data": "only the first 20,000 rows of covtype.data, which are not a random sample"},
)
"""54 columns, each distinct value a column, and a constant; classes 1 and 2 are -1 and 1: 495,141 rows of 15,509
columns before the split, 396,112 for training (ErasureHead paper, section 5.2, and the authors' preprocessing; Table 1
gives the rows before the split for this set, and those after it for the other two)."""

"""House Sales in King County (Kaggle; OpenML 42092): the prices of 21,613 houses."""

from __future__ import annotations

from erasurehead.datasets.base import Published
from erasurehead.datasets.preprocessing.target import Target
from erasurehead.datasets.published.recipe import Recipe

COLUMNS = (
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
    columns=("id", "date", "price", *COLUMNS),
    header=True,
    one_hot=tuple((name,) for name in COLUMNS),
    target=Target("price", "least_squares", unit=1e6),
    n_rows=21_613,
    openml=42092,
    published=Published("least_squares", rate=0.1, rate_factor=0.99, metric="mse"),
)
"""18 columns, each distinct value a column, and a constant: 17,290 x 27,654 for training; price / 10^6 is the target
(ErasureHead paper, section 5.2, and the authors' preprocessing)."""

"""Amazon Employee Access (Kaggle 2013; OpenML 4135): who is granted access to which resource."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from erasurehead.datasets.base import Published
from erasurehead.datasets.preprocessing.target import Target
from erasurehead.datasets.preprocessing.vocabulary import NumberVocabulary
from erasurehead.datasets.published.recipe import Recipe

COLUMNS = (
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

PAIRS = tuple(pair for pair in combinations(COLUMNS, 2) if pair not in _LEFT_OUT)
"""The 34 pairs that the original experiments combine: all but two that add next to nothing to their parts."""

AMAZON = Recipe(
    name="amazon",
    files=("train.csv", "amazon.csv"),
    columns=("ACTION", *COLUMNS),
    header=True,
    one_hot=(*((name,) for name in COLUMNS), *PAIRS),
    target=Target("ACTION", "logistic", NumberVocabulary(np.array([0.0, 1.0])), aliases=("target",)),
    n_rows=32_769,
    openml=4135,
    published=Published("logistic", rate=10.0, rate_factor=1.0, metric="auc"),
)
"""9 columns, their 34 pairs and a constant, one-hot: 26,215 x 241,915 for training, 6,554 rows for testing, 44 entries
a row; the label is 2 * ACTION - 1 (ErasureHead paper, section 5.2, and the authors' preprocessing)."""
